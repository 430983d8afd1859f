package loadgen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

// timed gives requests at the written times; a session is named behind them.
func timed(at []time.Duration, sessions ...string) func() (*probes.Request, bool) {
	i := 0
	return func() (*probes.Request, bool) {
		if i == len(at) {
			return nil, false
		}
		r := &probes.Request{ID: fmt.Sprint(i), Index: i, At: probes.Known(at[i])}
		if i < len(sessions) {
			r.Session = sessions[i]
		}
		i++
		return r, true
	}
}

type times struct {
	Planned, Due, Sent time.Duration
	Session            string
	Outcome            probes.Outcome
}

func replayed(t *testing.T, load Load) (map[int]times, Stats) {
	t.Helper()
	got := map[int]times{}
	load.Timed = true
	stats := Run(t.Context(), probes.NewClock(), load, func(r probes.Record) {
		planned, ok := r.Planned.Get()
		if !ok {
			t.Errorf("request %d does not say when the trace wanted it", r.Index)
		}
		got[r.Index] = times{planned, r.Due, r.Sent, r.Session, r.Outcome}
	})
	return got, stats
}

// A trace is sent at its own times, whatever the answers do. The next turn of a
// session is due when its time has come and the answer before it has ended.
func TestReplayKeepsTheTimesOfTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := []time.Duration{0, 10 * ms, 10 * ms, 20 * ms, 400 * ms, 410 * ms}
		got, stats := replayed(t, Load{
			Backend: serve(100 * ms), Start: 5 * ms,
			Next: timed(at, "a", "", "b", "a", "a", "b"),
		})
		want := map[int]times{
			0: {5 * ms, 5 * ms, 5 * ms, "a", probes.OK},
			1: {15 * ms, 15 * ms, 15 * ms, "", probes.OK},
			2: {15 * ms, 15 * ms, 15 * ms, "b", probes.OK},
			3: {25 * ms, 105 * ms, 105 * ms, "a", probes.OK}, // after the answer to 0
			4: {405 * ms, 405 * ms, 405 * ms, "a", probes.OK},
			5: {415 * ms, 415 * ms, 415 * ms, "b", probes.OK},
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		if stats.Ended != EndedSchedule || stats.Due != 6 || stats.Sent != 6 || stats.End != 515*ms {
			t.Errorf("stats = %+v", stats)
		}
	})
}

// Turns that pile up go one after the other, even when their answers fail.
func TestReplaySessionsNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := &fakeBackend{script: func(i int) answer {
			return answer{first: 50 * ms, tokens: 1, outcome: []probes.Outcome{probes.OK, probes.HTTP5xx, probes.OK}[i]}
		}}
		got, _ := replayed(t, Load{Backend: failing, Next: timed([]time.Duration{0, 0, 0}, "s", "s", "s")})
		for i := range 3 {
			if want := time.Duration(i) * 50 * ms; got[i].Planned != 0 || got[i].Due != want || got[i].Sent != want {
				t.Errorf("turn %d: %+v, want it due and sent at %v", i, got[i], want)
			}
		}
	})
}

// A slot that is missing delays the send and not the due time.
func TestReplayBehindAConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, _ := replayed(t, Load{Backend: serve(30 * ms), Concurrency: 1, Next: timed([]time.Duration{0, 10 * ms, 20 * ms})})
		for i, want := range []time.Duration{0, 30 * ms, 60 * ms} {
			if due := time.Duration(i) * 10 * ms; got[i].Due != due || got[i].Sent != want {
				t.Errorf("request %d: due %v, sent %v; want %v, %v", i, got[i].Due, got[i].Sent, due, want)
			}
		}
	})
}

// The end of the window cuts a replay: no request that was due goes without a
// record, and what is due later was never asked.
func TestReplayIsCutByItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, stats := replayed(t, Load{
			Backend: serve(time.Second), Concurrency: 2, Duration: 100 * ms,
			Next: timed([]time.Duration{0, 0, 10 * ms, 20 * ms, 90 * ms, 100 * ms, 200 * ms}, "a", "b", "a"),
		})
		var outcomes []probes.Outcome
		for i := range 5 {
			outcomes = append(outcomes, got[i].Outcome)
		}
		want := []probes.Outcome{probes.Cancelled, probes.Cancelled, probes.Dropped, probes.Dropped, probes.Dropped}
		if !slices.Equal(outcomes, want) || len(got) != 5 {
			t.Errorf("%d records, outcomes %v, want %v", len(got), outcomes, want)
		}
		if stats.Ended != EndedWindow || stats.End != 100*ms || stats.Dropped != 3 || stats.Cancelled != 2 {
			t.Errorf("stats = %+v", stats)
		}
	})
	synctest.Test(t, func(t *testing.T) { // an empty window is waited out
		_, stats := replayed(t, Load{Backend: serve(ms), Duration: 100 * ms, Next: timed([]time.Duration{0, 500 * ms})})
		if stats.Ended != EndedWindow || stats.End != 100*ms || stats.Due != 1 {
			t.Errorf("stats = %+v, want one request and the whole window", stats)
		}
	})
}

func TestReplayIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		outcomes := map[int]probes.Outcome{}
		stats := Run(ctx, probes.NewClock(), Load{
			Backend: serve(time.Second), Timed: true, Next: timed([]time.Duration{0, 10 * ms, 60 * ms}, "s", "s"),
		}, func(r probes.Record) { outcomes[r.Index] = r.Outcome })
		want := map[int]probes.Outcome{0: probes.Cancelled, 1: probes.Dropped}
		if diff := gocmp.Diff(want, outcomes); diff != "" || stats.Ended != EndedInterrupted || stats.End != 50*ms {
			t.Errorf("stats %+v, outcomes (-want +got):\n%s", stats, diff)
		}
	})
}

// Far more requests due than may be held: nothing is lost, and every due time is
// the trace's.
func TestReplayHoldsABoundedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = maxHeld + 500
		read, most := 0, 0
		var sent atomic.Int64 // emit and Next are called by two goroutines
		stats := Run(t.Context(), probes.NewClock(), Load{
			Backend: serve(ms), Timed: true, Concurrency: 8,
			Next: func() (*probes.Request, bool) {
				if read == n {
					return nil, false
				}
				read++
				most = max(most, read-int(sent.Load()))
				return &probes.Request{Index: read - 1, At: probes.Known[time.Duration](0)}, true
			},
		}, func(r probes.Record) {
			if r.Due != 0 || r.Outcome != probes.OK {
				t.Fatalf("request %d: due %v, %s", r.Index, r.Due, r.Outcome)
			}
			sent.Add(1)
		})
		if stats.Sent != n {
			t.Errorf("%d sent, want %d", stats.Sent, n)
		}
		// One prepared, the held ones, those in flight and their records on the way.
		if limit := maxHeld + 1 + 2*8 + 64; most > limit {
			t.Errorf("%d requests were held at once, want at most %d", most, limit)
		}
	})
}

// For any trace: all requests are asked, sessions in order and one at a time, and
// due is the later of the trace's time and the end of the answer before.
func TestReplayProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "n")
		at := make([]time.Duration, n)
		sessions := make([]string, n)
		for i := range at {
			at[i] = time.Duration(rapid.IntRange(0, 300).Draw(rt, "at")) * ms
			sessions[i] = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "session")
		}
		slices.Sort(at)
		limit := rapid.IntRange(0, 5).Draw(rt, "concurrency")
		service := time.Duration(rapid.IntRange(1, 80).Draw(rt, "service")) * ms
		synctest.Test(t, func(t *testing.T) {
			var records []probes.Record
			Run(t.Context(), probes.NewClock(), Load{
				Backend: serve(service), Timed: true, Concurrency: limit, Next: timed(at, sessions...),
			}, func(r probes.Record) { records = append(records, r) })
			if len(records) != n {
				rt.Fatalf("%d records of %d", len(records), n)
			}
			slices.SortFunc(records, func(a, b probes.Record) int { return cmp.Compare(a.Index, b.Index) })
			ended := map[string]time.Duration{}
			for i, r := range records {
				want := at[i]
				if r.Session != "" {
					want = max(want, ended[r.Session])
					ended[r.Session], _ = r.End.Get()
				}
				if r.Due != want || r.Sent < want || limit == 0 && r.Sent != want {
					rt.Fatalf("request %d: due %v, sent %v, want %v", i, r.Due, r.Sent, want)
				}
			}
		})
	})
}

// A turn of a conversation is sent behind the earlier ones and the server's own answers;
// one that failed is told as such. Other sessions do not take part.
func TestReplayContinuesConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user := func(text string) []probes.Message { return []probes.Message{{Role: "user", Content: text}} }
		var plan []*probes.Request
		add := func(session string, turn, turns int, text string) {
			plan = append(plan, &probes.Request{
				ID: fmt.Sprint(len(plan)), Index: len(plan), At: probes.Known(time.Duration(0)), Session: session, Turn: turn, Turns: turns, Messages: user(text),
			})
		}
		add("a", 1, 3, "a1")
		add("b", 1, 2, "b1")
		add("a", 2, 3, "a2")
		add("b", 2, 2, "b2")
		add("a", 3, 3, "a3")
		add("c", 0, 0, "c1")
		add("c", 0, 0, "c2")
		sent := map[int]string{}
		var mu sync.Mutex
		backend := answering(func(r *probes.Request) string {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range r.Messages {
				sent[r.Index] += m.Role[:1] + ":" + m.Content + " "
			}
			if r.Index == 1 {
				return "" // b's first turn fails
			}
			return "answer to " + r.Messages[len(r.Messages)-1].Content
		})
		next := 0
		replayed(t, Load{Backend: backend, Concurrency: 2, Next: func() (*probes.Request, bool) {
			if next == len(plan) {
				return nil, false
			}
			next++
			return plan[next-1], true
		}})
		want := map[int]string{
			0: "u:a1 ", 1: "u:b1 ", 2: "u:a1 a:answer to a1 u:a2 ", 3: "u:b1 a:I have no answer. u:b2 ",
			4: "u:a1 a:answer to a1 u:a2 a:answer to a2 u:a3 ", 5: "u:c1 ", 6: "u:c2 ",
		}
		if diff := gocmp.Diff(want, sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// answering answers with a text after 10 ms; without one it fails.
type answering func(r *probes.Request) string

func (a answering) Do(_ context.Context, clock probes.Clock, r *probes.Request, due time.Duration) probes.Record {
	rec := probes.Record{ID: r.ID, Index: r.Index, Due: due, Sent: clock.Now(), Outcome: probes.OK, Text: a(r)}
	if rec.Text == "" {
		rec.Outcome = probes.HTTP5xx
	}
	time.Sleep(10 * ms)
	rec.End = probes.Known(clock.Now())
	return rec
}
