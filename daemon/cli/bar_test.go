package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

func TestBar(t *testing.T) {
	count := probes.Spec{Requests: 200, Warmup: probes.Warmup{Requests: 8}}
	timed := probes.Spec{Duration: time.Minute, Warmup: probes.Warmup{Duration: 10 * time.Second}}
	both := probes.Spec{Requests: 200, Duration: time.Minute}
	counts := func(due, done, inFlight, failed, dropped int) loadgen.Counts {
		return loadgen.Counts{Due: due, Done: done, InFlight: inFlight, Failed: failed, Dropped: dropped}
	}
	for _, tt := range []struct {
		name  string
		view  progressView
		spec  probes.Spec
		width int
		want  string
	}{
		{"preparing", progressView{}, count, 80, "preparing"},
		{"warm-up of a count", progressView{Started: true, Warmed: 3}, count, 80, "warming up, 3/8 done"},
		{"warm-up of a duration", progressView{Started: true, Warmed: 3}, timed, 80, "warming up for 10s, 3 done"},
		{"nothing yet", progressView{Started: true}, both, 80, "[                                        ] 0/200 done, 0 in flight, 0s/1m0s"},
		{"half of a count", progressView{Started: true, Counts: counts(110, 100, 10, 0, 0), Elapsed: 12*time.Second + 600*time.Millisecond}, count, 80,
			"[====================                    ] 100/200 done, 10 in flight, 13s"},
		{"all of a count", progressView{Started: true, Counts: counts(200, 200, 0, 0, 0), Elapsed: time.Minute}, count, 80,
			"[========================================] 200/200 done, 0 in flight, 1m0s"},
		{"failures and drops", progressView{Started: true, Counts: counts(200, 90, 2, 7, 60), Elapsed: time.Second}, count, 80,
			"[====================       ] 90/200 done, 2 in flight, 7 failed, 60 dropped, 1s"},
		{"a quarter of a duration", progressView{Started: true, Counts: counts(9, 3, 1, 0, 0), Elapsed: 15 * time.Second}, timed, 80,
			"[==========                              ] 3 done, 1 in flight, 15s/1m0s"},
		{"beyond the duration", progressView{Started: true, Counts: counts(9, 9, 0, 0, 0), Elapsed: 61 * time.Second}, timed, 80,
			"[========================================] 9 done, 0 in flight, 1m1s/1m0s"},
		{"the duration is nearer", progressView{Started: true, Counts: counts(9, 20, 0, 0, 0), Elapsed: 30 * time.Second}, both, 80,
			"[====================                    ] 20/200 done, 0 in flight, 30s/1m0s"},
		{"the count is nearer", progressView{Started: true, Counts: counts(9, 150, 0, 0, 0), Elapsed: 30 * time.Second}, both, 80,
			"[==============================          ] 150/200 done, 0 in flight, 30s/1m0s"},
		{"narrow", progressView{Started: true, Counts: counts(9, 100, 0, 0, 0), Elapsed: time.Second}, count, 44, "[======      ] 100/200 done, 0 in flight, 1s"},
		{"too narrow for a bar", progressView{Started: true, Counts: counts(9, 100, 0, 0, 0), Elapsed: time.Second}, count, 36, "100/200 done, 0 in flight, 1s"},
		{"too narrow for the text", progressView{Started: true, Counts: counts(9, 100, 0, 0, 0)}, count, 7, "100/200"},
		{"no width", progressView{Started: true, Counts: counts(9, 100, 0, 0, 0)}, count, -1, ""},
	} {
		got := bar(tt.view, tt.spec, tt.width)
		if got != tt.want || len(got) > max(tt.width, 0) {
			t.Errorf("%s: got %q (%d columns of %d), want %q", tt.name, got, len(got), tt.width, tt.want)
		}
	}
}

// The clock of the bar starts with the measurement; the preparation and the
// warm-up before it do not count.
func TestProgressPhases(t *testing.T) {
	p := newProgress(probes.Spec{Requests: 4, Warmup: probes.Warmup{Requests: 2}})
	began := time.Now()
	at := func(d time.Duration) progressView { return p.view(began.Add(d)) }
	if got, want := at(time.Second), (progressView{}); got != want {
		t.Errorf("before the start: %+v, want %+v", got, want)
	}
	hooks := p.hooks()
	hooks.Started("id")
	hooks.Record("id", &probes.Record{Warmup: true})
	hooks.Record("id", &probes.Record{Warmup: true})
	hooks.Record("id", &probes.Record{})
	if got, want := at(2*time.Second), (progressView{Started: true, Warmed: 2}); got != want {
		t.Errorf("after the warm-up: %+v, want %+v", got, want)
	}
}

// Only a terminal gets a bar: a log file would be filled with lines.
func TestNoBarWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	stop := showProgress(&out, newProgress(probes.Spec{Requests: 1}), false)
	stop()
	if out.Len() > 0 {
		t.Errorf("wrote %q", out.String())
	}
}
