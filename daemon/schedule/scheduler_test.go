package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// world runs a scheduler in a bubble and writes down what it does, in seconds of
// real time since the world began.
type world struct {
	*Scheduler
	began time.Time
	stop  func()

	mu       sync.Mutex
	step     time.Duration // of the wall clock
	starts   map[string][]string
	skips    map[string]int
	panics   []string
	lateness map[string][]time.Duration
	overlaps int
	going    map[probes.Pair]bool
	work     map[string]func(run int)
}

// newWorld starts a scheduler one second before a full minute.
func newWorld(t *testing.T, work map[string]func(run int), entries ...Entry) *world {
	t.Helper()
	time.Sleep(time.Hour - time.Second)
	w := &world{
		began: time.Now().Add(time.Second), work: work, starts: map[string][]string{}, skips: map[string]int{},
		lateness: map[string][]time.Duration{}, going: map[probes.Pair]bool{},
	}
	w.Scheduler = New(Options{
		Start: w.start,
		Skipped: func(p probes.Pair, r probes.SkipReason, n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.skips[p.Target+"/"+p.Probe+" "+string(r)] += n
		},
		Panicked: func(e Entry, value any, stack []byte) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.panics = append(w.panics, fmt.Sprintf("%s/%s at %s: %v, stack %t",
				e.Pair.Target, e.Pair.Probe, w.seconds(), value, strings.Contains(string(stack), "(*world).start")))
		},
		Now: w.wall,
	})
	w.Replace(entries)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
	t.Cleanup(w.stop)
	return w
}

func (w *world) wall() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.step)
}

func (w *world) seconds() string {
	return fmt.Sprint(time.Since(w.began).Seconds())
}

func (w *world) start(e Entry, due time.Time, lateness time.Duration) {
	name := e.Pair.Target + "/" + e.Pair.Probe
	w.mu.Lock()
	run := len(w.starts[name])
	w.starts[name] = append(w.starts[name], w.seconds())
	w.lateness[name] = append(w.lateness[name], lateness)
	if w.going[e.Pair] {
		w.overlaps++
	}
	w.going[e.Pair] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.going[e.Pair] = false
	}()
	if work := w.work[name]; work != nil {
		work(run)
	}
}

// until sleeps to an instant of the world, a moment after what happens at it.
func (w *world) until(seconds float64) {
	time.Sleep(time.Until(w.began.Add(time.Duration(seconds * float64(time.Second)))))
	synctest.Wait()
}

func (w *world) startsOf(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.starts[name], " ")
}

func (w *world) panicsSeen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.panics)
}

func (w *world) latenessOf(name string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lateness[name])
}

func (w *world) stepWall(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step += by
}

// check compares starts ("target/probe: 0 60") and skips ("target/probe reason: 2").
func (w *world) check(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for name, starts := range w.starts {
		got = append(got, name+": "+strings.Join(starts, " "))
	}
	for name, n := range w.skips {
		got = append(got, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("starts and skips (-want +got):\n%s", diff)
	}
	if w.overlaps != 0 {
		t.Errorf("%d runs overlapped one of their own pair", w.overlaps)
	}
}

func every(t *testing.T, target, probe string, every time.Duration) Entry {
	t.Helper()
	return Entry{
		Pair: probes.Pair{Target: target, Probe: probe},
		Plan: mustParse(t, probes.Schedule{Every: every}), NoSpread: true,
	}
}

func lasting(d time.Duration) func(int) { return func(int) { time.Sleep(d) } }

func TestLongRunSkipsItsOwnStartsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/long": lasting(90 * time.Second), "b/short": lasting(time.Second)},
			every(t, "a", "long", time.Minute), every(t, "b", "short", time.Minute))
		w.until(599)
		w.check(t,
			"a/long: 0 120 240 360 480", "a/long overlap: 5",
			"b/short: 0 60 120 180 240 300 360 420 480 540")
		for _, name := range []string{"a/long", "b/short"} {
			for i, late := range w.latenessOf(name) {
				if late != 0 {
					t.Errorf("%s: start %d was %v late, want 0", name, i, late)
				}
			}
		}
	})
}

func TestPanicFreesThePairAndTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/bad": func(run int) {
			time.Sleep(5 * time.Second)
			if run == 1 {
				panic("index out of range")
			}
		}}, every(t, "a", "bad", time.Minute), every(t, "a", "other", 2*time.Minute))
		w.until(239)
		// Both are due at 0 and 120: one after the other, in the order of their names.
		w.check(t, "a/bad: 0 60 120 180", "a/other: 5 125")
		if diff := cmp.Diff([]string{"a/bad at 65: index out of range, stack true"}, w.panicsSeen()); diff != "" {
			t.Errorf("panics (-want +got):\n%s", diff)
		}
	})
}

func TestBusyTargetIsWaitedForUntilTheNextDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/night": lasting(100 * time.Second)},
			every(t, "a", "night", 10*time.Minute), every(t, "a", "probe", 30*time.Second), every(t, "a", "quick", 40*time.Second))
		w.until(0.5)
		if got, want := w.NextStarts()[probes.Pair{Target: "a", Probe: "probe"}], w.began.Add(30*time.Second); !got.Equal(want) {
			t.Errorf("next start of a waiting pair is %v, want %v", got, want)
		}
		w.until(149)
		// Until 100 the target is taken. The starts due at 90 and 80 outlast it; the
		// earlier due one comes first.
		w.check(t, "a/night: 0", "a/probe: 100 120", "a/probe target_busy: 3", "a/quick: 100 120", "a/quick target_busy: 2")
		if diff := cmp.Diff([]time.Duration{10 * time.Second, 0}, w.latenessOf("a/probe")); diff != "" {
			t.Errorf("lateness of a/probe (-want +got):\n%s", diff)
		}
	})
}

func TestWaitingStartsInDueOrderOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := lasting(time.Second)
		w := newWorld(t, map[string]func(int){"a/m": lasting(95 * time.Second), "a/x": second, "a/y": second, "a/z": second},
			every(t, "a", "m", 10*time.Minute), every(t, "a", "x", 90*time.Second), every(t, "a", "y", 80*time.Second), every(t, "a", "z", 70*time.Second))
		w.until(111)
		// m was first by its name; then the starts due at 70, 80 and 90.
		w.check(t, "a/m: 0", "a/z: 95", "a/y: 96", "a/x: 97",
			"a/x target_busy: 1", "a/y target_busy: 1", "a/z target_busy: 1")
	})
}

// A comparison waits for both targets and then holds both, until it ends in whatever
// way. Others start while it waits.
func TestComparisonHoldsBothTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := every(t, "b", "gate", 3*time.Minute)
		gate.Also = "a"
		w := newWorld(t, map[string]func(int){
			"a/canary": lasting(2 * time.Second), "b/canary": lasting(4 * time.Second),
			"b/gate": func(run int) {
				time.Sleep(50 * time.Second)
				if run == 1 {
					panic("cannot be compared")
				}
			},
		}, every(t, "a", "canary", 20*time.Second), every(t, "b", "canary", 30*time.Second), gate, every(t, "c", "canary", time.Minute))
		w.until(249)
		// The gate is due at 0 and 180, and waits for the longer of the two canaries.
		w.check(t, "b/gate: 4 184", "c/canary: 0 60 120 180 240",
			"a/canary: 0 54 60 80 100 120 140 160 180 234 240", "a/canary target_busy: 2",
			"b/canary: 0 54 60 90 120 150 180 234 240")
		if got, want := len(w.panicsSeen()), 1; got != want {
			t.Errorf("%d panics, want %d", got, want)
		}
	})
}

func TestComparisonThatFindsNoGapIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := every(t, "b", "gate", time.Minute) // its own target is free all the time
		gate.Also = "a"
		w := newWorld(t, map[string]func(int){"a/build": lasting(100 * time.Second), "b/gate": lasting(time.Second)},
			every(t, "a", "build", 10*time.Minute), gate)
		w.until(179)
		w.check(t, "a/build: 0", "b/gate: 100 120", "b/gate target_busy: 1")
	})
}

func TestParallelEntryDoesNotWaitForTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		canary := every(t, "a", "canary", 30*time.Second)
		canary.Plan = mustParse(t, probes.Schedule{Every: 30 * time.Second, AllowParallel: true})
		w := newWorld(t, map[string]func(int){"a/night": lasting(100 * time.Second), "a/canary": lasting(40 * time.Second)},
			every(t, "a", "night", 5*time.Minute), canary)
		w.until(179)
		w.check(t, "a/night: 40", "a/canary: 0 60 120", "a/canary overlap: 3")
	})
}

func TestWallClockJumpsForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, every(t, "a", "often", 5*time.Second))
		w.until(12)
		w.stepWall(time.Hour)
		w.until(29)
		// Of the 720 starts up to the new time one is made up for, when the step is
		// noticed at the next heartbeat.
		w.check(t, "a/often: 0 5 10 13 15 20 25", "a/often missed: 719")
		if got, want := w.latenessOf("a/often")[3], 3*time.Second; got != want {
			t.Errorf("lateness of the start after the jump: %v, want %v", got, want)
		}
	})
}

func TestWallClockJumpsForwardOverCronStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minutely := Entry{Pair: probes.Pair{Target: "a", Probe: "minutely"}, Plan: mustParse(t, probes.Schedule{Cron: "* * * * *"})}
		nightly := Entry{Pair: probes.Pair{Target: "b", Probe: "nightly"}, Plan: mustParse(t, probes.Schedule{Cron: "0 2 * * *"})}
		w := newWorld(t, nil, minutely, nightly) // it is 01:00
		w.until(30)
		w.stepWall(3 * time.Hour)
		w.until(119)
		w.check(t, "a/minutely: 0 31 60", "a/minutely missed: 179", "b/nightly: 31")
		if got, want := w.latenessOf("b/nightly")[0], 2*time.Hour+31*time.Second; got != want {
			t.Errorf("lateness of the nightly run: %v, want %v", got, want)
		}
		w.stepWall(30 * 365 * 24 * time.Hour) // counting stops at 10000 each
		w.until(121)
		w.check(t, "a/minutely: 0 31 60 120", "a/minutely missed: 10179", "b/nightly: 31 120", "b/nightly missed: 10000")
	})
}

func TestWallClockGoesBack(t *testing.T) {
	for _, tc := range []struct {
		back time.Duration
		want string
	}{
		{50 * time.Millisecond, "0 5 10 15.05 20.05 25.05"},
		{2 * time.Second, "0 5 10 17 22 27"},
		// The grid moves by 2.5 s and by 1 s; never two starts within half the
		// interval, never a pause of more than one and a half.
		{3602500 * time.Millisecond, "0 5 10 12.5 17.5 22.5 27.5"},
		{3601 * time.Second, "0 5 10 16 21 26"},
	} {
		t.Run(tc.back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, every(t, "a", "often", 5*time.Second))
				w.until(10)
				w.stepWall(-tc.back)
				w.until(29)
				w.check(t, "a/often: "+tc.want)
			})
		})
	}
}

func TestWallClockGoesBackOverACronStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nightly := Entry{Pair: probes.Pair{Target: "a", Probe: "nightly"}, Plan: mustParse(t, probes.Schedule{Cron: "0 2 * * *"})}
		hourly := Entry{Pair: probes.Pair{Target: "b", Probe: "hourly"}, Plan: mustParse(t, probes.Schedule{Cron: "0 * * * *"})}
		w := newWorld(t, nil, nightly, hourly) // it is 01:00
		w.until(3600 + 900)                    // 02:15
		w.stepWall(-time.Hour)                 // 01:15
		w.until(3*3600 - 1)
		w.check(t, "a/nightly: 3600", "b/hourly: 0 3600 7200")
		w.until(26*3600 - 1)
		if got := w.startsOf("a/nightly"); got != "3600" {
			t.Errorf("nightly starts %s, want 3600 alone before the next night", got)
		}
		w.until(26 * 3600)
		if got := w.startsOf("a/nightly"); got != "3600 93600" {
			t.Errorf("nightly starts %s, want 3600 93600", got)
		}
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/long": lasting(25 * time.Second)},
			every(t, "a", "long", time.Minute), every(t, "a", "probe", 10*time.Second))
		w.until(15)
		w.Pause(true) // probe waits for the target since 10
		if !w.Paused() {
			t.Error("Paused is false")
		}
		w.until(65)
		w.Pause(false)
		w.until(79)
		w.check(t, "a/long: 0", "a/long paused: 1", "a/probe: 70", "a/probe target_busy: 1", "a/probe paused: 6")
	})
}

func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := map[string]func(int){"a/gone": lasting(50 * time.Second), "b/same": lasting(35 * time.Second)}
		w := newWorld(t, work, every(t, "a", "gone", time.Minute), every(t, "a", "zwaits", 2*time.Minute),
			every(t, "b", "same", 30*time.Second), every(t, "c", "changed", 30*time.Second))
		w.until(10)
		same := every(t, "b", "same", 30*time.Second)
		same.Pair.Model = "learnt since"
		w.Replace([]Entry{
			every(t, "a", "zwaits", 2*time.Minute), same,
			every(t, "c", "changed", 20*time.Second), every(t, "d", "new", 15*time.Second),
			{Pair: probes.Pair{Target: "d", Probe: "by hand"}},
		})
		want := map[probes.Pair]time.Time{
			{Target: "a", Probe: "zwaits"}:                      w.began.Add(120 * time.Second),
			{Target: "b", Probe: "same", Model: "learnt since"}: w.began.Add(30 * time.Second),
			{Target: "c", Probe: "changed"}:                     w.began.Add(20 * time.Second),
			{Target: "d", Probe: "new"}:                         w.began.Add(15 * time.Second),
			{Target: "d", Probe: "by hand"}:                     {},
		}
		if diff := cmp.Diff(want, w.NextStarts()); diff != "" {
			t.Errorf("next starts (-want +got):\n%s", diff)
		}
		w.until(40)
		// The run of the pair that is gone still holds its target; b/same's run from
		// before the change still counts as its own.
		w.Replace([]Entry{every(t, "a", "gone", time.Minute), every(t, "a", "zwaits", 2*time.Minute), same})
		w.until(79)
		w.check(t, "a/gone: 0 60", "a/zwaits: 50", "b/same: 0 60", "b/same overlap: 1",
			"c/changed: 0 20 40", "d/new: 15 30")
	})
}

func TestRunReturnsOnceItsRunsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]func(int){"a/long": lasting(90 * time.Second)},
			every(t, "a", "long", time.Minute), every(t, "b", "probe", 10*time.Second))
		w.until(15)
		w.stop()
		if got := w.seconds(); got != "90" {
			t.Errorf("Run returned at %s s, want 90", got)
		}
		w.check(t, "a/long: 0", "b/probe: 0 10")
	})
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := New(Options{Start: func(Entry, time.Time, time.Duration) {}})
		if got := idle.LastTick(); !got.IsZero() {
			t.Errorf("last tick before Run is %v, want zero", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go idle.Run(ctx)
		for range 100 {
			time.Sleep(997 * time.Millisecond)
			synctest.Wait()
			if age := time.Since(idle.LastTick()); age >= heartbeat {
				t.Fatalf("last tick is %v old, want less than %v", age, heartbeat)
			}
		}
	})
}

func TestCallbacksMayCallTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Scheduler
		var starts, skips int
		entry := every(t, "a", "p", time.Second)
		s = New(Options{
			Start: func(Entry, time.Time, time.Duration) {
				starts++
				s.Replace([]Entry{entry})
				s.NextStarts()
				time.Sleep(1500 * time.Millisecond)
			},
			Skipped: func(probes.Pair, probes.SkipReason, int) { skips++; s.LastTick(); s.Pause(false) },
		})
		s.Replace([]Entry{entry})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(4500 * time.Millisecond); cancel() }()
		s.Run(ctx)
		if starts != 2 || skips != 2 {
			t.Errorf("%d starts and %d skips in 4 seconds, want 2 and 2", starts, skips)
		}
	})
}

func BenchmarkTick(b *testing.B) {
	s := New(Options{Start: func(Entry, time.Time, time.Duration) {}})
	p := mustParse(b, probes.Schedule{Every: time.Minute})
	var entries []Entry
	for target := range 500 {
		for probe := range 6 {
			entries = append(entries, Entry{Plan: p,
				Pair: probes.Pair{Target: fmt.Sprintf("t%d", target), Probe: fmt.Sprintf("p%d", probe)}})
		}
	}
	s.Replace(entries)
	now := time.Now().Round(0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(20 * time.Millisecond) // one start each: 3000 a minute
		s.tick(now)
		clear(s.running)
		clear(s.busy)
		s.launches = s.launches[:0]
	}
}
