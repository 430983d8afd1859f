package loadgen

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

const ms = time.Millisecond

// answer scripts one exchange: token events at first, first+gap, ..., and the
// end with the last of them.
type answer struct {
	first, gap time.Duration
	tokens     int
	outcome    probes.Outcome // empty is ok
	panics     any
	deaf       bool          // does not notice that it is cancelled
	linger     time.Duration // takes so long to return once it is
}

// fakeBackend answers by the script and keeps the contract of Backend.
type fakeBackend struct {
	script   func(index int) answer
	during   func() // called while a request is in flight
	inFlight atomic.Int64
	peak     peak
	calls    atomic.Int64
}

// peak keeps the largest value it has seen, from any goroutine.
type peak struct{ value atomic.Int64 }

func (p *peak) see(n int64) {
	for old := p.value.Load(); n > old && !p.value.CompareAndSwap(old, n); {
		old = p.value.Load()
	}
}

var _ Backend = (*fakeBackend)(nil)

// serve answers every request with one token after d.
func serve(d time.Duration) *fakeBackend {
	return &fakeBackend{script: func(int) answer { return answer{first: d, tokens: 1} }}
}

func (b *fakeBackend) Do(ctx context.Context, clock probes.Clock, r *probes.Request, due time.Duration) probes.Record {
	b.calls.Add(1)
	b.peak.see(b.inFlight.Add(1))
	defer b.inFlight.Add(-1)
	if b.during != nil {
		b.during()
	}
	rec := probes.Record{ID: r.ID, Index: r.Index, Warmup: r.Warmup, Due: due, Sent: clock.Now(), Outcome: probes.OK}
	a := b.script(r.Index)
	if a.panics != nil {
		panic(a.panics)
	}
	pause := a.first
	if a.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	for range a.tokens {
		select {
		case <-time.After(pause):
			rec.Chunks = append(rec.Chunks, probes.Chunk{At: clock.Now(), Tokens: 1})
		case <-ctx.Done():
			time.Sleep(a.linger)
			rec.Outcome = probes.Cancelled
			rec.End = probes.Known(clock.Now())
			return rec
		}
		pause = a.gap
	}
	if a.outcome != "" {
		rec.Outcome = a.outcome
	}
	rec.End = probes.Known(clock.Now())
	if len(rec.Chunks) > 0 {
		rec.FirstToken = probes.Known(rec.Chunks[0].At)
		rec.LastToken = probes.Known(rec.Chunks[len(rec.Chunks)-1].At)
	}
	return rec
}

// requests gives n requests; without end when n is 0.
func requests(n int) func() (*probes.Request, bool) {
	i := 0
	return func() (*probes.Request, bool) {
		if n > 0 && i == n {
			return nil, false
		}
		r := &probes.Request{ID: fmt.Sprintf("r%d", i), Index: i, InputTokens: 7, MaxOutputTokens: 9}
		i++
		return r, true
	}
}

func every(gap time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for i := 0; yield(time.Duration(i) * gap); i++ {
		}
	}
}

func burst(n int) iter.Seq[time.Duration] { return slices.Values(make([]time.Duration, n)) }

// run executes the load and checks what holds for every load: the counts agree
// with the records and with the progress, and no request has two records.
func run(t *testing.T, ctx context.Context, clock probes.Clock, load Load) ([]probes.Record, Stats) {
	t.Helper()
	if load.Progress == nil {
		load.Progress = new(Progress)
	}
	var records []probes.Record
	stats := Run(ctx, clock, load, func(r probes.Record) { records = append(records, r) })
	seen := map[int]bool{}
	count := map[probes.Outcome]int{}
	failed := 0
	for _, r := range records {
		if seen[r.Index] {
			t.Errorf("request %d has two records", r.Index)
		}
		seen[r.Index] = true
		count[r.Outcome]++
		if r.Outcome.Failed() {
			failed++
		}
	}
	got := Stats{Due: stats.Due, Sent: stats.Sent, Failed: stats.Failed, Cancelled: stats.Cancelled, Dropped: stats.Dropped}
	want := Stats{
		Due: len(records), Sent: len(records) - count[probes.Dropped], Failed: failed,
		Cancelled: count[probes.Cancelled], Dropped: count[probes.Dropped],
	}
	if got != want {
		t.Errorf("got counts %+v, want %+v as in the records", got, want)
	}
	counts := Counts{
		Due: want.Due, Sent: want.Sent, Done: want.Sent, Failed: want.Failed,
		Cancelled: want.Cancelled, Dropped: want.Dropped,
	}
	if diff := cmp.Diff(counts, load.Progress.Snapshot()); diff != "" {
		t.Errorf("progress at the end (-want +got)\n%s", diff)
	}
	return records, stats
}

func checkEnd(t *testing.T, stats Stats, ended Ended, end time.Duration) {
	t.Helper()
	if stats.Ended != ended || stats.End != end {
		t.Errorf("got ended by %s at %v, want by %s at %v", stats.Ended, stats.End, ended, end)
	}
	if want := ended == EndedSchedule || ended == EndedWindow; stats.Complete() != want {
		t.Errorf("ended by %s: got complete %v, want %v", ended, stats.Complete(), want)
	}
}

func outcomes(records []probes.Record) map[probes.Outcome]int {
	m := map[probes.Outcome]int{}
	for _, r := range records {
		m[r.Outcome]++
	}
	return m
}

func byIndex(records []probes.Record) []probes.Record {
	return slices.SortedFunc(slices.Values(records), func(a, b probes.Record) int { return a.Index - b.Index })
}

func TestWaitingForASlotIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := probes.NewClock()
		records, stats := run(t, t.Context(), clock, Load{
			Backend: serve(500 * ms), Next: requests(0), Offsets: every(100 * ms), Concurrency: 1, Count: 8,
		})
		var fromDue, service, lag []time.Duration
		for _, r := range records {
			d, _ := r.E2EFromDue().Get()
			s, _ := r.E2E().Get()
			fromDue, service, lag = append(fromDue, d), append(service, s), append(lag, r.Lag())
		}
		if want := []time.Duration{500 * ms, 900 * ms, 1300 * ms, 1700 * ms, 2100 * ms, 2500 * ms, 2900 * ms, 3300 * ms}; !slices.Equal(fromDue, want) {
			t.Errorf("got E2E from due %v, want %v", fromDue, want)
		}
		if want := slices.Repeat([]time.Duration{500 * ms}, 8); !slices.Equal(service, want) {
			t.Errorf("got E2E %v, want %v", service, want)
		}
		var sum time.Duration
		for _, l := range lag {
			sum += l
		}
		if sum/8 != 1400*ms || slices.Max(lag) != 2800*ms {
			t.Errorf("got queue delay mean %v max %v, want 1.4s and 2.8s", sum/8, slices.Max(lag))
		}
		checkEnd(t, stats, EndedSchedule, 4000*ms)
	})
}

func TestLostTimeDoesNotShiftTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := requests(0)
		costly := func() (*probes.Request, bool) {
			r, ok := next()
			cost := 450 * time.Microsecond
			if r.Index == 100 {
				cost = 12 * ms
			}
			time.Sleep(cost)
			return r, ok
		}
		var records []probes.Record
		stats := Run(t.Context(), probes.NewClock(), Load{
			Backend: serve(30 * ms), Next: costly, Offsets: every(5 * ms), Count: 2000, Start: 20 * ms,
		}, func(r probes.Record) {
			records = append(records, r)
			time.Sleep(4 * ms) // a sink that is just fast enough
		})
		// Request 100 was prepared from 495 ms on. It is late, the next shares what
		// is left of the delay, and then everything is in time again.
		late := map[int]time.Duration{100: 7 * ms, 101: 2450 * time.Microsecond}
		for i, r := range records {
			due := 20*ms + time.Duration(i)*5*ms
			if r.Index != i || r.Due != due || r.Lag() != late[i] {
				t.Fatalf("record %d: got request %d due %v lag %v, want due %v lag %v", i, r.Index, r.Due, r.Lag(), due, late[i])
			}
		}
		if last := records[1999].Due - stats.Start; last != 9995*ms {
			t.Errorf("got the last request due at %v, want 9.995s", last)
		}
	})
}

func TestBurstKeepsItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serve(100 * ms)
		records, stats := run(t, t.Context(), probes.NewClock(), Load{
			Backend: b, Next: requests(10), Offsets: burst(10), Concurrency: 4,
		})
		if got := b.peak.value.Load(); got != 4 {
			t.Errorf("got %d in flight at most, want 4", got)
		}
		for i, r := range byIndex(records) {
			if want := time.Duration(i/4) * 100 * ms; r.Due != 0 || r.Sent != want {
				t.Errorf("request %d: got due %v sent %v, want 0 and %v", i, r.Due, r.Sent, want)
			}
		}
		checkEnd(t, stats, EndedSchedule, 300*ms)
	})
}

func TestUnboundedBurstIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serve(100 * ms)
		records, stats := run(t, t.Context(), probes.NewClock(), Load{
			Backend: b, Next: requests(0), Offsets: burst(300), Count: 200,
		})
		if len(records) != 200 || b.peak.value.Load() != 200 {
			t.Errorf("got %d records and %d in flight, want 200 of both", len(records), b.peak.value.Load())
		}
		checkEnd(t, stats, EndedSchedule, 100*ms)
	})
}

func TestClosedLoopKeepsItsSlotsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		var goroutines peak
		b := serve(20 * ms)
		b.during = func() { goroutines.see(int64(runtime.NumGoroutine() - before)) }
		progress := new(Progress)
		var full []int
		go func() {
			for range 20 {
				time.Sleep(10 * ms)
				full = append(full, progress.InFlight())
				time.Sleep(10 * ms)
			}
		}()
		records, stats := run(t, t.Context(), probes.NewClock(), Load{
			Backend: b, Next: requests(0), Concurrency: 50, Count: 1000, Progress: progress,
		})
		synctest.Wait()
		if want := slices.Repeat([]int{50}, 20); !slices.Equal(full, want) {
			t.Errorf("got %v in flight in the middle of the waves, want 50 in each", full)
		}
		if got := b.peak.value.Load(); got != 50 {
			t.Errorf("got %d in flight at most, want 50", got)
		}
		for i, r := range byIndex(records) {
			if want := time.Duration(i/50) * 20 * ms; r.Due != want || r.Sent != want {
				t.Fatalf("request %d: got due %v sent %v, want both %v", i, r.Due, r.Sent, want)
			}
		}
		// The sampler above, the pacer and one worker a slot.
		if got := goroutines.value.Load(); got > 52 {
			t.Errorf("got %d goroutines for 50 slots, want at most 52", got)
		}
		checkEnd(t, stats, EndedSchedule, 400*ms)
	})
}

// Slots open one after the other; one that is free again is used at once, whether or
// not all have opened. No request is late by it.
func TestClosedLoopOpensItsSlotsInTurn(t *testing.T) {
	for _, test := range []struct {
		name    string
		load    Load
		service time.Duration
		want    []time.Duration // due, after Start, by index
		end     time.Duration
	}{
		{"answers slower than the opening", Load{Concurrency: 4, Count: 8, SlotGap: ms}, 10 * ms,
			[]time.Duration{0, ms, 2 * ms, 3 * ms, 10 * ms, 11 * ms, 12 * ms, 13 * ms}, 23 * ms},
		{"answers faster", Load{Concurrency: 3, Count: 7, SlotGap: 10 * ms}, 4 * ms,
			[]time.Duration{0, 4 * ms, 8 * ms, 10 * ms, 12 * ms, 14 * ms, 16 * ms}, 20 * ms},
		{"all at once", Load{Concurrency: 3, Count: 4}, 4 * ms, []time.Duration{0, 0, 0, 4 * ms}, 8 * ms},
		{"one slot", Load{Concurrency: 1, Count: 3, SlotGap: time.Hour}, 4 * ms, []time.Duration{0, 4 * ms, 8 * ms}, 12 * ms},
		{"no faster than the gap", Load{Concurrency: 1, Count: 4, Gap: 10 * ms}, 4 * ms, []time.Duration{0, 10 * ms, 20 * ms, 30 * ms}, 34 * ms},
		{"no faster than the answers", Load{Concurrency: 1, Count: 3, Gap: 3 * ms}, 4 * ms, []time.Duration{0, 4 * ms, 8 * ms}, 12 * ms},
		{"the gap is of all slots together", Load{Concurrency: 3, Count: 5, Gap: 3 * ms}, 10 * ms,
			[]time.Duration{0, 3 * ms, 6 * ms, 10 * ms, 13 * ms}, 23 * ms},
		{"the gap outlasts the opening", Load{Concurrency: 3, Count: 3, SlotGap: 2 * ms, Gap: 5 * ms}, 20 * ms,
			[]time.Duration{0, 5 * ms, 10 * ms}, 30 * ms},
		{"the window ends in a gap", Load{Concurrency: 1, Duration: 25 * ms, Gap: 20 * ms}, 2 * ms, []time.Duration{0, 20 * ms}, 25 * ms},
		{"fewer requests than slots", Load{Concurrency: 9, Count: 2, SlotGap: ms}, 10 * ms, []time.Duration{0, ms}, 11 * ms},
		{"the window ends before the last slot opens", Load{Concurrency: 9, Duration: 3 * ms, SlotGap: 2 * ms}, 10 * ms,
			[]time.Duration{0, 2 * ms}, 3 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const start = time.Second
				b, clock := serve(test.service), probes.NewClock()
				test.load.Backend, test.load.Next, test.load.Start = b, requests(0), start
				records, stats := run(t, t.Context(), clock, test.load)
				var due, late []time.Duration
				for _, r := range byIndex(records) {
					due = append(due, r.Due-start)
					if r.Lag() != 0 {
						late = append(late, r.Lag())
					}
				}
				if !slices.Equal(due, test.want) || late != nil {
					t.Errorf("got due %v late by %v, want %v and none late", due, late, test.want)
				}
				if got := int(b.peak.value.Load()); got > test.load.Concurrency {
					t.Errorf("got %d in flight, want at most %d", got, test.load.Concurrency)
				}
				ended := EndedSchedule
				if test.load.Duration > 0 {
					ended = EndedWindow
				}
				checkEnd(t, stats, ended, start+test.end)
			})
		})
	}
}

func TestClosedLoopWithoutBoundHasOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serve(20 * ms)
		records, stats := run(t, t.Context(), probes.NewClock(), Load{Backend: b, Next: requests(3)})
		if len(records) != 3 || b.peak.value.Load() != 1 {
			t.Errorf("got %d records and %d in flight, want 3 and 1", len(records), b.peak.value.Load())
		}
		checkEnd(t, stats, EndedSchedule, 60*ms)
	})
}

// A slow request delays the others by its slot only.
func TestClosedLoopRefillsTheFreeSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBackend{script: func(i int) answer {
			if i == 0 {
				return answer{first: time.Second, tokens: 1}
			}
			return answer{first: 300 * ms, tokens: 1}
		}}
		records, _ := run(t, t.Context(), probes.NewClock(), Load{Backend: b, Next: requests(5), Concurrency: 2})
		var order []int
		var sent []time.Duration
		for _, r := range records {
			order, sent = append(order, r.Index), append(sent, r.Sent)
		}
		if want := []int{1, 2, 3, 0, 4}; !slices.Equal(order, want) {
			t.Errorf("got records in order %v, want the order of completion %v", order, want)
		}
		if want := []time.Duration{0, 300 * ms, 600 * ms, 0, 900 * ms}; !slices.Equal(sent, want) {
			t.Errorf("got sent at %v, want %v", sent, want)
		}
	})
}

func TestWindowCutsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBackend{script: func(i int) answer {
			if i == 0 {
				return answer{first: 25 * ms, gap: 50 * ms, tokens: 100}
			}
			return answer{first: 25 * ms, gap: 50 * ms, tokens: 1000}
		}}
		clock := probes.NewClock()
		records, stats := run(t, t.Context(), clock, Load{
			Backend: b, Next: requests(0), Duration: 10 * time.Second, Start: time.Second,
			Offsets: slices.Values([]time.Duration{0, 4 * time.Second, 10 * time.Second}),
		})
		if len(records) != 2 {
			t.Fatalf("got %d records, want 2: the third was due at the end", len(records))
		}
		a, cut := records[0], records[1]
		if a.Outcome != probes.OK || len(a.Chunks) != 100 {
			t.Errorf("first: got %s with %d tokens, want ok with 100", a.Outcome, len(a.Chunks))
		}
		end, _ := cut.End.Get()
		if cut.Outcome != probes.Cancelled || len(cut.Chunks) != 120 || end != 11*time.Second {
			t.Errorf("second: got %s with %d tokens at %v, want cancelled with 120 at 11s", cut.Outcome, len(cut.Chunks), end)
		}
		window := (stats.End - stats.Start).Seconds()
		if rate := float64(len(a.Chunks)+len(cut.Chunks)) / window; rate != 22 {
			t.Errorf("got %v tokens/s over the window, want 22", rate)
		}
		checkEnd(t, stats, EndedWindow, 11*time.Second)
		if now := clock.Now(); now != 11*time.Second {
			t.Errorf("returned at %v, want 11s", now)
		}
	})
}

func TestWindowEnds(t *testing.T) {
	for _, test := range []struct {
		name    string
		load    Load
		service time.Duration
		want    map[probes.Outcome]int
		ended   Ended
		end     time.Duration
	}{
		{"waited out when the next is due after it",
			Load{Offsets: every(400 * ms), Duration: time.Second}, 10 * ms,
			map[probes.Outcome]int{probes.OK: 3}, EndedWindow, time.Second},
		{"due at its end is not asked",
			Load{Offsets: every(500 * ms), Duration: time.Second}, 10 * ms,
			map[probes.Outcome]int{probes.OK: 2}, EndedWindow, time.Second},
		{"due just before its end is sent and cut",
			Load{Offsets: every(500 * ms), Duration: time.Second + 1}, 10 * ms,
			map[probes.Outcome]int{probes.OK: 2, probes.Cancelled: 1}, EndedWindow, time.Second + 1},
		{"count first",
			Load{Offsets: every(400 * ms), Duration: time.Second, Count: 2}, 10 * ms,
			map[probes.Outcome]int{probes.OK: 2}, EndedSchedule, 410 * ms},
		{"count reached but the last is cut",
			Load{Offsets: every(400 * ms), Duration: time.Second, Count: 3}, 500 * ms,
			map[probes.Outcome]int{probes.OK: 2, probes.Cancelled: 1}, EndedWindow, time.Second},
		{"window first",
			Load{Offsets: every(400 * ms), Duration: time.Second, Count: 5}, 10 * ms,
			map[probes.Outcome]int{probes.OK: 3}, EndedWindow, time.Second},
		{"offsets end inside",
			Load{Offsets: slices.Values([]time.Duration{0, 100 * ms}), Duration: time.Second}, 10 * ms,
			map[probes.Outcome]int{probes.OK: 2}, EndedSchedule, 110 * ms},
		{"closed loop",
			Load{Concurrency: 2, Duration: time.Second}, 300 * ms,
			map[probes.Outcome]int{probes.OK: 6, probes.Cancelled: 2}, EndedWindow, time.Second},
		{"closed loop with count",
			Load{Concurrency: 2, Duration: time.Second, Count: 5}, 300 * ms,
			map[probes.Outcome]int{probes.OK: 5}, EndedSchedule, 900 * ms},
		{"overload drops what was due",
			Load{Offsets: every(100 * ms), Concurrency: 1, Duration: 3 * time.Second}, 1100 * ms,
			map[probes.Outcome]int{probes.OK: 2, probes.Cancelled: 1, probes.Dropped: 27}, EndedWindow, 3 * time.Second},
		{"first due after it",
			Load{Offsets: slices.Values([]time.Duration{2 * time.Second}), Duration: time.Second}, 10 * ms,
			map[probes.Outcome]int{}, EndedWindow, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.load.Backend, test.load.Next = serve(test.service), requests(0)
				clock := probes.NewClock()
				records, stats := run(t, t.Context(), clock, test.load)
				if diff := cmp.Diff(test.want, outcomes(records)); diff != "" {
					t.Errorf("outcomes (-want +got)\n%s", diff)
				}
				checkEnd(t, stats, test.ended, test.end)
				if now := clock.Now(); now != test.end {
					t.Errorf("returned at %v, want %v", now, test.end)
				}
			})
		})
	}
}

func TestDroppedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := requests(0)
		records, _ := run(t, t.Context(), probes.NewClock(), Load{
			Backend: serve(time.Hour), Offsets: every(100 * ms), Concurrency: 1, Duration: 250 * ms,
			Next: func() (*probes.Request, bool) {
				r, ok := next()
				r.Warmup, r.Sampling.IgnoreEOS = true, true
				return r, ok
			},
		})
		want := []probes.Record{
			{ID: "r1", Index: 1, Warmup: true, Outcome: probes.Dropped, Error: "not sent: the window is over",
				Due: 100 * ms, RequestedInput: 7, RequestedOutput: 9, ExactOutput: true},
			{ID: "r2", Index: 2, Warmup: true, Outcome: probes.Dropped, Error: "not sent: the window is over",
				Due: 200 * ms, RequestedInput: 7, RequestedOutput: 9, ExactOutput: true},
		}
		var got []probes.Record
		for _, r := range records {
			if r.Outcome == probes.Dropped {
				got = append(got, r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dropped records (-want +got)\n%s", diff)
		}
	})
}

func TestInterrupted(t *testing.T) {
	for _, test := range []struct {
		name string
		load Load
		at   time.Duration
		want map[probes.Outcome]int
	}{
		{"not yet due was never asked", Load{Offsets: every(100 * ms), Count: 100}, 4950 * ms,
			map[probes.Outcome]int{probes.OK: 40, probes.Cancelled: 10}},
		{"due and unsent is dropped", Load{Offsets: burst(100), Concurrency: 10}, 4500 * ms,
			map[probes.Outcome]int{probes.OK: 40, probes.Cancelled: 10, probes.Dropped: 50}},
		{"closed loop", Load{Concurrency: 10, Count: 100}, 4500 * ms,
			map[probes.Outcome]int{probes.OK: 40, probes.Cancelled: 10}},
		{"only the last are in flight", Load{Concurrency: 10, Count: 50}, 4500 * ms,
			map[probes.Outcome]int{probes.OK: 40, probes.Cancelled: 10}},
		{"before the start", Load{Offsets: burst(100), Start: time.Minute}, 10 * time.Second, map[probes.Outcome]int{}},
		{"before the start of a closed loop", Load{Concurrency: 5, Start: time.Minute}, 10 * time.Second, map[probes.Outcome]int{}},
		{"inside a window", Load{Offsets: every(100 * ms), Duration: time.Minute}, 4950 * ms,
			map[probes.Outcome]int{probes.OK: 40, probes.Cancelled: 10}},
		{"with nothing in flight", Load{Offsets: every(10 * time.Second)}, 5 * time.Second,
			map[probes.Outcome]int{probes.OK: 1}},
		{"a due time out of range is never reached", Load{Offsets: slices.Values([]time.Duration{0, math.MaxInt64}), Start: 1}, time.Hour,
			map[probes.Outcome]int{probes.OK: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				clock := probes.NewClock()
				time.AfterFunc(test.at, cancel)
				test.load.Backend, test.load.Next = serve(time.Second), requests(0)
				records, stats := run(t, ctx, clock, test.load)
				if diff := cmp.Diff(test.want, outcomes(records)); diff != "" {
					t.Errorf("outcomes (-want +got)\n%s", diff)
				}
				checkEnd(t, stats, EndedInterrupted, test.at)
				if now := clock.Now(); now != test.at {
					t.Errorf("returned at %v, want %v", now, test.at)
				}
			})
		})
	}
}

func TestTheCancelledAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*ms, cancel)
		b := &fakeBackend{script: func(int) answer { return answer{first: time.Minute, tokens: 1, linger: 50 * ms} }}
		clock := probes.NewClock()
		_, stats := run(t, ctx, clock, Load{Backend: b, Next: requests(0), Concurrency: 3})
		checkEnd(t, stats, EndedInterrupted, 100*ms)
		if now := clock.Now(); stats.Cancelled != 3 || now != 150*ms {
			t.Errorf("returned at %v with %d cancelled, want 150ms and 3", now, stats.Cancelled)
		}
	})
}

func TestCancelledBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b := serve(time.Second)
		records, stats := run(t, ctx, probes.NewClock(), Load{Backend: b, Next: requests(3), Offsets: every(time.Second)})
		if len(records) != 1 || records[0].Outcome != probes.Dropped || records[0].Error != "not sent: context canceled" {
			t.Errorf("got %+v, want the one request that was due, dropped", records)
		}
		if b.calls.Load() != 0 {
			t.Errorf("got %d requests at the backend, want none", b.calls.Load())
		}
		checkEnd(t, stats, EndedInterrupted, 0)
	})
}

// Cancelling after the last answer does not make a whole load a cut one.
func TestCancelledAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stats := Run(ctx, probes.NewClock(), Load{Backend: serve(ms), Next: requests(1), Offsets: burst(1)},
			func(probes.Record) { cancel() })
		checkEnd(t, stats, EndedSchedule, ms)
	})
}

// Nor does a cut that comes too late for the last answer.
func TestCutWithoutLoss(t *testing.T) {
	for _, window := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			load := Load{Next: requests(2), Offsets: burst(2),
				Backend: &fakeBackend{script: func(int) answer { return answer{first: 2 * ms, tokens: 1, deaf: true} }}}
			if window {
				load.Duration = ms
			} else {
				time.AfterFunc(ms, cancel)
			}
			_, stats := run(t, ctx, probes.NewClock(), load)
			checkEnd(t, stats, EndedSchedule, 2*ms)
		})
	}
}

// What became due while Next held the pacer up was due all the same.
func TestCutDuringSlowNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := requests(0)
		slow := func() (*probes.Request, bool) {
			r, ok := next()
			if r.Index == 3 {
				time.Sleep(time.Second)
			}
			return r, ok
		}
		clock := probes.NewClock()
		records, stats := run(t, t.Context(), clock, Load{
			Backend: serve(500 * ms), Next: slow, Offsets: every(100 * ms), Duration: 650 * ms,
		})
		var got []string
		for _, r := range byIndex(records) {
			end, _ := r.End.Get()
			got = append(got, fmt.Sprintf("%d %v %s %v", r.Index, r.Due, r.Outcome, end))
		}
		want := []string{
			"0 0s ok 500ms", "1 100ms ok 600ms", "2 200ms cancelled 650ms", // cut in time all the same
			"3 300ms dropped 0s", "4 400ms dropped 0s", "5 500ms dropped 0s", "6 600ms dropped 0s",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("records (-want +got)\n%s", diff)
		}
		checkEnd(t, stats, EndedWindow, 650*ms)
	})
}

func TestStartIsWaitedFor(t *testing.T) {
	for _, load := range []Load{{Offsets: every(ms)}, {Concurrency: 1}} {
		synctest.Test(t, func(t *testing.T) {
			load.Backend, load.Next, load.Start = serve(ms), requests(3), 5*time.Second
			clock := probes.NewClock()
			time.Sleep(2 * time.Second)
			records, stats := run(t, t.Context(), clock, load)
			for i, r := range records {
				if want := 5*time.Second + time.Duration(i)*ms; r.Due != want || r.Sent != want {
					t.Errorf("request %d: got due %v sent %v, want both %v", i, r.Due, r.Sent, want)
				}
			}
			if stats.Start != 5*time.Second {
				t.Errorf("got start %v, want 5s", stats.Start)
			}
			checkEnd(t, stats, EndedSchedule, 5*time.Second+3*ms)
		})
	}
}

// A start in the past leaves the schedule where it was: what has been missed is
// late, not moved.
func TestStartInThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := probes.NewClock()
		time.Sleep(250 * ms)
		records, _ := run(t, t.Context(), clock, Load{Backend: serve(ms), Next: requests(5), Offsets: every(100 * ms)})
		var lag []time.Duration
		for _, r := range byIndex(records) {
			lag = append(lag, r.Lag())
		}
		if want := []time.Duration{250 * ms, 150 * ms, 50 * ms, 0, 0}; !slices.Equal(lag, want) {
			t.Errorf("got lag %v, want %v", lag, want)
		}
	})
}

func TestSourceRunsOut(t *testing.T) {
	for _, test := range []struct {
		name string
		load Load
		want int
		end  time.Duration
	}{
		{"endless offsets", Load{Offsets: every(100 * ms), Next: requests(5)}, 5, 500 * ms},
		{"while requests wait for a slot", Load{Offsets: every(10 * ms), Next: requests(3), Concurrency: 1}, 3, 300 * ms},
		{"inside a window", Load{Offsets: every(10 * ms), Next: requests(3), Duration: time.Second}, 3, 120 * ms},
		{"when the window holds no more", Load{Offsets: slices.Values([]time.Duration{0, 0, time.Hour}), Next: requests(1), Duration: time.Second}, 1, 100 * ms},
		{"closed loop", Load{Next: requests(5), Concurrency: 2}, 5, 300 * ms},
		{"no request", Load{Next: func() (*probes.Request, bool) { return nil, false }, Offsets: every(ms), Start: time.Hour}, 0, 0},
		{"no request in a closed loop", Load{Next: func() (*probes.Request, bool) { return nil, false }, Concurrency: 3}, 0, 0},
		{"no offset", Load{Next: requests(0), Offsets: burst(0), Duration: time.Second}, 0, 0},
		{"nothing but a promise", Load{Next: func() (*probes.Request, bool) { return nil, true }, Offsets: burst(4)}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.load.Backend = serve(100 * ms)
				records, stats := run(t, t.Context(), probes.NewClock(), test.load)
				if got := outcomes(records)[probes.OK]; got != test.want || len(records) != test.want {
					t.Errorf("got %d ok of %d records, want %d", got, len(records), test.want)
				}
				checkEnd(t, stats, EndedSchedule, test.end)
			})
		})
	}
}

// Nothing is taken from the source that is not needed, bar the one at hand.
func TestNextIsOneAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, taken := requests(0), 0
		counted := func() (*probes.Request, bool) { taken++; return next() }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(250*ms, cancel)
		run(t, ctx, probes.NewClock(), Load{Backend: serve(ms), Next: counted, Offsets: every(100 * ms)})
		if taken != 4 {
			t.Errorf("got %d requests taken for 3 sent, want 4", taken)
		}
		taken = 0
		run(t, t.Context(), probes.NewClock(), Load{Backend: serve(ms), Next: counted, Offsets: every(100 * ms), Count: 3})
		if taken != 3 {
			t.Errorf("got %d requests taken for a count of 3, want 3", taken)
		}
	})
}

func TestPanicOfTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBackend{script: func(i int) answer {
			switch i {
			case 1:
				return answer{panics: errors.New("index out of range")}
			case 2:
				return answer{panics: strings.Repeat("ä", 150)}
			}
			return answer{first: 10 * ms, tokens: 1}
		}}
		records, stats := run(t, t.Context(), probes.NewClock(), Load{
			Backend: b, Next: requests(4), Offsets: every(100 * ms), Concurrency: 1,
		})
		want := probes.Record{
			ID: "r1", Index: 1, Outcome: probes.BadResponse, Error: "panic: index out of range",
			Due: 100 * ms, Sent: 100 * ms, End: probes.Known(100 * ms), RequestedInput: 7, RequestedOutput: 9,
		}
		if diff := cmp.Diff(want, records[1]); diff != "" {
			t.Errorf("record (-want +got)\n%s", diff)
		}
		if got, want := records[2].Error, "panic: "+strings.Repeat("ä", 100)+"..."; got != want {
			t.Errorf("got error text %q, want %q", got, want)
		}
		if records[3].Outcome != probes.OK {
			t.Errorf("got %s after the panics, want ok", records[3].Outcome)
		}
		checkEnd(t, stats, EndedSchedule, 310*ms)
	})
}

func TestPanicOfTheSource(t *testing.T) {
	next := requests(0)
	for _, test := range []struct {
		name string
		load Load
		ok   int
		end  time.Duration
		err  string
	}{
		{"next", Load{Offsets: every(100 * ms), Next: func() (*probes.Request, bool) {
			r, ok := next()
			if r.Index == 3 {
				panic("no such file")
			}
			return r, ok
		}}, 3, 1700 * ms, "prepare request 3: panic: no such file"},
		{"offsets", Load{Next: requests(0), Concurrency: 1, Offsets: func(yield func(time.Duration) bool) {
			if yield(0) && yield(ms) && yield(time.Second) {
				panic("broken trace")
			}
		}}, 3, 4500 * ms, "take due offset: panic: broken trace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.load.Backend = serve(1500 * ms)
				records, stats := run(t, t.Context(), probes.NewClock(), test.load)
				if got := outcomes(records); got[probes.OK] != test.ok || len(records) != test.ok {
					t.Errorf("got %v, want %d ok: what was due is carried out", got, test.ok)
				}
				if stats.Err == nil || stats.Err.Error() != test.err {
					t.Errorf("got error %v, want %s", stats.Err, test.err)
				}
				checkEnd(t, stats, EndedSource, test.end)
			})
		})
	}
}

// The caller's own panic reaches the caller; the bubble would report goroutines
// that are left behind.
func TestPanicOfEmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := probes.NewClock()
		defer func() {
			if cause := recover(); cause != "sink is gone" {
				t.Errorf("got panic %v, want that of emit", cause)
			}
			if now := clock.Now(); now != 100*ms {
				t.Errorf("returned at %v, want 100ms: what is in flight is cut", now)
			}
		}()
		b := &fakeBackend{script: func(i int) answer { return answer{first: time.Duration(i+1) * 100 * ms, tokens: 1} }}
		Run(t.Context(), clock, Load{Backend: b, Next: requests(0), Offsets: burst(200), Concurrency: 100},
			func(probes.Record) { panic("sink is gone") })
	})
}

// A backend that could not send at all says dropped, which is not a request sent.
func TestDroppedByTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBackend{script: func(i int) answer {
			return answer{first: ms, tokens: 1, outcome: []probes.Outcome{probes.OK, probes.Dropped, probes.HTTP5xx}[i]}
		}}
		_, stats := run(t, t.Context(), probes.NewClock(), Load{Backend: b, Next: requests(3), Offsets: every(100 * ms)})
		want := Stats{Due: 3, Sent: 2, Failed: 1, Dropped: 1, End: 201 * ms, Ended: EndedSchedule}
		if stats != want {
			t.Errorf("got %+v, want %+v", stats, want)
		}
	})
}

func TestProgressWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := new(Progress)
		var got Counts
		time.AfterFunc(1250*ms, func() { got = progress.Snapshot() })
		b := &fakeBackend{script: func(i int) answer {
			a := answer{first: 500 * ms, tokens: 1}
			if i == 1 {
				a.outcome = probes.StreamError
			}
			return a
		}}
		load := Load{Backend: b, Next: requests(20), Offsets: every(100 * ms), Concurrency: 1, Progress: progress}
		run(t, t.Context(), probes.NewClock(), load)
		synctest.Wait()
		if want := (Counts{Due: 13, Sent: 3, InFlight: 1, Done: 2, Failed: 1}); got != want {
			t.Errorf("got %+v after 1.25s, want %+v", got, want)
		}
		// A second load with the same counters adds to them.
		load.Next, load.Offsets = requests(2), burst(2)
		Run(t.Context(), probes.NewClock(), load, func(probes.Record) {})
		if want := (Counts{Due: 22, Sent: 22, Done: 22, Failed: 2}); progress.Snapshot() != want {
			t.Errorf("got %+v after a second load, want %+v", progress.Snapshot(), want)
		}
	})
}

// A sink that stands still shows up as lag once the records between are full.
func TestStalledEmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records []probes.Record
		Run(t.Context(), probes.NewClock(), Load{
			Backend: serve(ms), Next: requests(200), Offsets: every(10 * ms), Concurrency: 1,
		}, func(r probes.Record) {
			if len(records) == 0 {
				time.Sleep(time.Second)
			}
			records = append(records, r)
		})
		// One record is with emit, 64 are between, and the worker holds request 65
		// until emit goes on at 1001 ms; from then on one is sent each millisecond.
		for i, r := range records {
			want := time.Duration(0)
			if i >= 66 {
				want = max(0, time.Duration(1001+i-66-10*i)*ms)
			}
			if r.Lag() != want {
				t.Errorf("request %d: got lag %v, want %v", i, r.Lag(), want)
			}
		}
	})
}

// model computes from the definition alone when each request of an open loop is
// sent: in due order, when it is due and a slot is free.
type modelResult struct {
	Index   int
	Sent    time.Duration
	Outcome probes.Outcome
}

func model(offsets, service []time.Duration, concurrency int, window time.Duration) []modelResult {
	var free []time.Duration // when each slot in use becomes free
	var out []modelResult
	for i, due := range offsets {
		if due >= window {
			break
		}
		sent := due
		if concurrency > 0 && len(free) == concurrency {
			slices.Sort(free)
			sent = max(due, free[0])
			free = free[1:]
		}
		switch {
		case sent > window:
			out = append(out, modelResult{i, 0, probes.Dropped})
		case sent+service[i] > window:
			out = append(out, modelResult{i, sent, probes.Cancelled})
		default:
			out = append(out, modelResult{i, sent, probes.OK})
		}
		free = append(free, sent+service[i])
	}
	return out
}

func TestOpenLoopMatchesItsDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "n")
		// Even times throughout and an odd window: no event falls on its end.
		even := rapid.Custom(func(rt *rapid.T) time.Duration { return 2 * ms * time.Duration(rapid.IntRange(0, 40).Draw(rt, "t")) })
		gaps := rapid.SliceOfN(even, n, n).Draw(rt, "gaps")
		service := rapid.SliceOfN(even, n, n).Draw(rt, "service")
		concurrency := rapid.IntRange(0, 5).Draw(rt, "concurrency")
		window := time.Duration(rapid.IntRange(0, 800).Draw(rt, "window"))*2*ms + ms
		byContext := rapid.Bool().Draw(rt, "end by context")
		offsets := make([]time.Duration, n)
		for i := 1; i < n; i++ {
			offsets[i] = offsets[i-1] + gaps[i]
		}
		var got []modelResult
		peak := 0
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := &fakeBackend{script: func(i int) answer { return answer{first: service[i], tokens: 1} }}
			load := Load{Backend: b, Next: requests(n), Offsets: slices.Values(offsets), Concurrency: concurrency}
			if byContext {
				defer time.AfterFunc(window, cancel).Stop()
			} else {
				load.Duration = window
			}
			records, _ := run(t, ctx, probes.NewClock(), load)
			for _, r := range byIndex(records) {
				if r.Due != offsets[r.Index] {
					rt.Errorf("request %d: got due %v, want %v", r.Index, r.Due, offsets[r.Index])
				}
				got = append(got, modelResult{r.Index, r.Sent, r.Outcome})
			}
			peak = int(b.peak.value.Load())
		})
		if diff := cmp.Diff(model(offsets, service, concurrency, window), got); diff != "" {
			rt.Errorf("(-want +got)\n%s", diff)
		}
		if concurrency > 0 && peak > concurrency {
			rt.Errorf("got %d in flight, want at most %d", peak, concurrency)
		}
	})
}
