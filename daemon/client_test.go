package daemon

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
)

// clientPage is what /metrics shows of a meter. Buckets are cumulative, by bound.
type clientPage struct {
	Ticks     uint64
	Buckets   map[float64]uint64
	CPU       float64
	Saturated float64
}

func pageOf(t *testing.T, m *clientMeter) (page clientPage, families int) {
	t.Helper()
	e, err := prom.New(prom.Options{
		Snapshot: func() []probes.PairStatus { return nil }, Good: summaryGood, Now: time.Now,
		Daemon: func() prom.DaemonState { return prom.DaemonState{Client: m.state(time.Now())} },
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.Gather()
	if err != nil {
		t.Fatal(err)
	}
	page.Buckets = map[float64]uint64{}
	for _, f := range all {
		switch f.GetName() {
		case catalog.ClientLoopLag:
			h := f.Metric[0].Histogram
			page.Ticks = h.GetSampleCount()
			for _, b := range h.Bucket {
				switch b.GetUpperBound() {
				case 0.0005, 0.005, 0.025, 0.05:
					page.Buckets[b.GetUpperBound()] = b.GetCumulativeCount()
				}
			}
		case catalog.ClientCPUSaturation:
			page.CPU = f.Metric[0].Gauge.GetValue()
		case catalog.ClientSaturated:
			page.Saturated = f.Metric[0].Gauge.GetValue()
		default:
			continue
		}
		families++
	}
	return page, families
}

// The process uses a quarter of its processors, and stands still for 45 ms after
// the tick at 1 s: the ticks at 1010, 1020, 1030 and 1040 ms are 35, 25, 15 and 5 ms
// late.
func TestLoopLagCountsMissedTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m, calls, used := newClientMeter(), 0, time.Duration(0)
		quarter := time.Duration(runtime.GOMAXPROCS(0)) * cpuEvery / 4
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.run(ctx, func() time.Duration {
				if calls++; calls == 2 {
					time.Sleep(45 * time.Millisecond)
				}
				used += quarter
				return used
			})
		}()
		for _, step := range []struct {
			sleep    time.Duration
			families int
			want     clientPage
		}{
			{995 * time.Millisecond, 1, clientPage{99, map[float64]uint64{0.0005: 99, 0.005: 99, 0.025: 99, 0.05: 99}, 0, 0}},
			{50 * time.Millisecond, 3, clientPage{104, map[float64]uint64{0.0005: 100, 0.005: 101, 0.025: 103, 0.05: 104}, 0.25, 1}},
			// 3 of 299 are more than one in a hundred, of 300 they are not.
			{1950 * time.Millisecond, 3, clientPage{299, map[float64]uint64{0.0005: 295, 0.005: 296, 0.025: 298, 0.05: 299}, 0.25, 1}},
			{10 * time.Millisecond, 3, clientPage{300, map[float64]uint64{0.0005: 296, 0.005: 297, 0.025: 299, 0.05: 300}, 0.25, 0}},
		} {
			time.Sleep(step.sleep)
			synctest.Wait()
			got, families := pageOf(t, m)
			if diff := cmp.Diff(step.want, got); diff != "" || families != step.families {
				t.Errorf("after %v: %d metrics, want %d (-want +got)\n%s", time.Since(m.began), families, step.families, diff)
			}
		}
		cancel()
		<-ended
	})
}

func TestSaturatedByCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newClientMeter()
		for _, test := range []struct {
			share float64
			want  bool
		}{{0.85, false}, {0.86, true}, {0.1, false}} {
			m.sampleCPU(test.share)
			if got := m.state(time.Now()).Saturated; got != probes.Known(test.want) {
				t.Errorf("at a CPU share of %v: got saturated %v, want %v", test.share, got, test.want)
			}
		}
	})
}

func TestSaturatedBySendLag(t *testing.T) {
	constant := probes.Arrivals{Process: probes.Constant, Rate: 1}
	capped := probes.Arrivals{Process: probes.Constant, Rate: 1, MaxConcurrency: 4}
	closed := probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}
	burst := probes.Arrivals{Process: probes.Burst}
	sent := func(lag time.Duration) *probes.Record {
		return &probes.Record{Outcome: probes.OK, Due: time.Second, Sent: time.Second + lag}
	}
	for _, test := range []struct {
		name     string
		arrivals probes.Arrivals
		record   *probes.Record
		want     bool
	}{
		{"at the bound", constant, sent(5 * time.Millisecond), false},
		{"above it", constant, sent(5*time.Millisecond + 1), true},
		{"in a closed loop", closed, sent(6 * time.Millisecond), true},
		{"perhaps a wait for a slot", capped, sent(time.Second), false},
		{"of a burst", burst, sent(time.Second), false},
		{"never sent", constant, &probes.Record{Outcome: probes.Dropped, Due: -time.Second}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newClientMeter()
				m.sampleCPU(0)
				m.answered(time.Now(), test.arrivals, test.record)
				for _, age := range []time.Duration{0, time.Minute - 1, time.Minute} {
					want := test.want && age < time.Minute
					if got := m.state(m.began.Add(age)).Saturated; got != probes.Known(want) {
						t.Errorf("%v later: got saturated %v, want %v", age, got, want)
					}
				}
			})
		})
	}
}

// A second of the minute before last leaves nothing in its place of the ring.
func TestLastMinuteForgets(t *testing.T) {
	var l lastMinute
	l.add(3*time.Second, time.Second)
	l.add(63*time.Second, 0)
	if l.late(63 * time.Second) {
		t.Error("got late for what was late a minute ago, want not")
	}
	if got, want := l[3].all, 1; got != want {
		t.Errorf("got %d counted in the second, want %d", got, want)
	}
}

func BenchmarkClientTick(b *testing.B) {
	b.ReportAllocs()
	m := newClientMeter()
	for b.Loop() {
		m.tick(time.Now(), 50*time.Microsecond)
	}
}

// A daemon that is up measures itself.
func TestDaemonMetersItself(t *testing.T) {
	t.Parallel()
	_, url := engineAt(t, nil)
	d := daemonOf(t, fmt.Sprintf(oneCanary, 1, url))
	d.until("the CPU share on /metrics", func() bool { _, ok := d.metric(catalog.ClientCPUSaturation); return ok })
	if got, _ := d.metric(catalog.ClientLoopLag); got < 100 {
		t.Errorf("loop lag: got %v ticks in a second and more, want 100 or more", got)
	}
	if got, ok := d.metric(catalog.ClientSaturated); !ok || got != 0 && got != 1 {
		t.Errorf("saturated: got %v (there: %v), want 0 or 1", got, ok)
	}
}
