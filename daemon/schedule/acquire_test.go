package schedule

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// ask has a run that nothing has planned carried out, as soon as it may be and for as
// long as work takes. It says when that was, or what refused it.
func (w *world) ask(target, probe string, patience, work time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	release, refused := w.Acquire(ctx, Entry{Pair: probes.Pair{Target: target, Probe: probe}})
	if release == nil {
		return w.seconds() + " " + string(refused)
	}
	defer release()
	at := w.seconds()
	time.Sleep(work)
	return at
}

// More runs are due than may go on at once: the others wait in the order in which they
// were due. The bound may be moved at any time.
func TestLimitOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := lasting(25 * time.Second)
		w := newWorld(t, map[string]func(int){"a/p1": long, "b/p2": long, "c/p3": long, "d/p4": long},
			every(t, "a", "p1", time.Minute), every(t, "b", "p2", time.Minute), every(t, "c", "p3", time.Minute), every(t, "d", "p4", time.Minute))
		w.SetLimit(2)
		w.until(10)
		if got := w.Waiting(); got != 2 {
			t.Errorf("%d runs wait, want 2", got)
		}
		w.until(61)
		w.SetLimit(3)
		w.until(62)
		if got := w.Waiting(); got != 1 {
			t.Errorf("%d runs wait, want 1", got)
		}
		w.SetLimit(0)
		w.until(63)
		w.check(t, "a/p1: 0 60", "b/p2: 0 60", "c/p3: 25 61", "d/p4: 25 62")
		if got, want := fmt.Sprint(w.latenessOf("d/p4")), "[25s 2s]"; got != want {
			t.Errorf("lateness %s, want %s", got, want)
		}
	})
}

// With one slot, a run that takes longer than others' intervals makes them prober_busy,
// not target_busy: their targets are free.
func TestLateForWantOfASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/long": lasting(70 * time.Second), "b/quick": lasting(time.Second)},
			every(t, "a", "long", 5*time.Minute), every(t, "b", "quick", 30*time.Second))
		w.SetLimit(1)
		w.until(119)
		w.check(t, "a/long: 0", "b/quick: 70 90", "b/quick prober_busy: 2")
		if got, want := fmt.Sprint(w.latenessOf("b/quick")), "[10s 0s]"; got != want {
			t.Errorf("lateness %s, want %s", got, want)
		}
	})
}

// What is asked for stands in the queue with what is due, and holds its target like it.
func TestAcquireTakesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/canary": lasting(5 * time.Second)},
			every(t, "a", "canary", 20*time.Second), every(t, "a", "other", 40*time.Second))
		w.until(1)
		answers := make(chan string, 4)
		// canary runs until 5, other is due since 0, then it is our turn: until 25.
		go func() { answers <- w.ask("a", "canary", time.Minute, 20*time.Second) }()
		w.until(6)
		if got, want := w.Waiting(), 0; got != want {
			t.Errorf("%d wait, want %d", got, want)
		}
		w.until(10)
		go func() { answers <- w.ask("b", "canary", time.Minute, 0) }() // another target
		w.until(11)
		go func() { answers <- w.ask("a", "other", 3*time.Second, 0) }()
		go func() { answers <- w.ask("a", "canary", 4*time.Second, 0) }()
		w.until(39)
		close(answers)
		var got []string
		for a := range answers {
			got = append(got, a)
		}
		if fmt.Sprint(got) != "[10 14 target_busy 15 overlap 5]" {
			t.Errorf("asked runs: %q", got)
		}
		w.check(t, "a/canary: 0", "a/other: 5", "a/canary overlap: 1")
	})
}

func TestAcquireIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/p": lasting(50 * time.Second)}, every(t, "a", "p", time.Hour))
		w.until(1)
		answer := make(chan string, 2)
		go func() { answer <- w.ask("a", "q", time.Minute, 0) }()
		w.until(2)
		w.Replace([]Entry{every(t, "a", "p", time.Hour)}) // a reload forgets nobody who waits
		w.until(3)
		w.Pause(true)
		if got, want := <-answer, "3 paused"; got != want {
			t.Errorf("asked before the pause: %q, want %q", got, want)
		}
		if got, want := w.ask("b", "q", time.Minute, 0), "3 paused"; got != want {
			t.Errorf("asked while paused: %q, want %q", got, want)
		}
		w.Pause(false)
		go func() { answer <- w.ask("a", "q", time.Minute, 0) }()
		w.until(4)
		w.stop() // waits for the run of a/p, and for nobody who has not begun
		if got, want := <-answer, "4 paused"; got != want {
			t.Errorf("asked before the end: %q, want %q", got, want)
		}
		if got, want := w.ask("b", "q", time.Minute, 0), "50 paused"; got != want {
			t.Errorf("asked after the end: %q, want %q", got, want)
		}
	})
}

// The end of the scheduler waits for what was acquired, too.
func TestStopWaitsForAcquiredRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.until(1)
		go w.ask("a", "p", time.Minute, 9*time.Second)
		w.until(2)
		w.stop()
		if got, want := w.seconds(), "10"; got != want {
			t.Errorf("stopped at %s, want %s", got, want)
		}
	})
}
