package truth

import "time"

// timerWaiter sleeps on a timer of the runtime, which a testing/synctest bubble
// turns into virtual time. On real sockets the runtime wakes it up to about a
// millisecond late.
type timerWaiter struct {
	timer *time.Timer
	woken chan struct{}
}

func newTimerWaiter() *timerWaiter {
	return &timerWaiter{timer: time.NewTimer(time.Hour), woken: make(chan struct{}, 1)}
}

func (w *timerWaiter) begin() {}

func (w *timerWaiter) end() { w.timer.Stop() }

func (w *timerWaiter) wait(d time.Duration) {
	if d < 0 {
		<-w.woken
		return
	}
	w.timer.Reset(d)
	select {
	case <-w.timer.C:
	case <-w.woken:
	}
}

func (w *timerWaiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it is going to wake anyway
	}
}
