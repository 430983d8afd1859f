package guard

import (
	"errors"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// event is what a watch is told: a reading of the queue, or a request's end.
type event func(w *Watch)

func starting(n float64) event { return func(w *Watch) { w.Starting(n) } }
func waiting(n float64) event  { return func(w *Watch) { w.Waiting(n) } }

func ended(outcomes ...probes.Outcome) event {
	return func(w *Watch) {
		for _, o := range outcomes {
			w.Answered(&probes.Record{Outcome: o})
		}
	}
}

func times(n int, o probes.Outcome) event {
	return func(w *Watch) {
		for range n {
			w.Answered(&probes.Record{Outcome: o})
		}
	}
}

func asked(o probes.Outcome, status int, pause time.Duration) event {
	return func(w *Watch) {
		w.Answered(&probes.Record{Outcome: o, StatusCode: status, RetryAfter: probes.Known(pause)})
	}
}

func TestWatch(t *testing.T) {
	both := probes.StopWhen{QueueAbove: 10, ErrorRatioAbove: 0.2}
	for _, tt := range []struct {
		name   string
		limits probes.StopWhen
		events []event
		want   string // empty: goes on
	}{
		{"queue at the limit", both, []event{starting(10), waiting(10), waiting(10), waiting(10)}, ""},
		{"queue at the start", both, []event{starting(11)}, "stopped for the target's sake: 11 requests are waiting in the server, stop_when.queue_above is 10"},
		{"one reading", both, []event{waiting(50), waiting(10), waiting(50)}, ""},
		{"two readings in a row", both, []event{waiting(50), waiting(12)}, "stopped for the target's sake: 12 requests are waiting in the server, stop_when.queue_above is 10"},
		{"queue without a limit", probes.StopWhen{ErrorRatioAbove: 0.2}, []event{starting(99), waiting(99), waiting(99)}, ""},
		{"nine failures", both, []event{times(9, probes.HTTP5xx)}, ""},
		{"ten failures", both, []event{times(10, probes.HTTP5xx)}, "stopped for the target's sake: 10 of the last 10 requests failed, stop_when.error_ratio_above is 0.2"},
		{"two of ten", both, []event{times(8, probes.OK), times(2, probes.Connect)}, ""},
		{"three of ten", both, []event{times(7, probes.OK), ended(probes.Connect, probes.TimeoutIdle, probes.BadResponse)}, "stopped for the target's sake: 3 of the last 10 requests failed, stop_when.error_ratio_above is 0.2"},
		{"old failures are forgotten", both, []event{times(8, probes.OK), times(2, probes.HTTP5xx), times(20, probes.OK), times(4, probes.HTTP5xx)}, ""},
		{"five of the last twenty", both, []event{times(100, probes.OK), times(5, probes.HTTP429)}, "stopped for the target's sake: 5 of the last 20 requests failed, stop_when.error_ratio_above is 0.2"},
		{"what we cut says nothing", both, []event{times(50, probes.Cancelled), times(50, probes.Dropped)}, ""},
		{"errors without a limit", probes.StopWhen{QueueAbove: 10}, []event{times(50, probes.HTTP5xx)}, ""},
		{"asked to wait", probes.StopWhen{QueueAbove: 10}, []event{asked(probes.HTTP429, 429, 30*time.Second)}, "stopped for the target's sake: the server answered with status 429 and asks not to be asked again for 30s (Retry-After)"},
		{"asked to wait for nothing", both, []event{asked(probes.HTTP429, 429, 0)}, ""},
		{"asked after an answer", both, []event{asked(probes.OK, 200, time.Minute)}, ""},
		{"the first limit counts", both, []event{asked(probes.HTTP5xx, 503, time.Second), starting(99)}, "stopped for the target's sake: the server answered with status 503 and asks not to be asked again for 1s (Retry-After)"},
		{"no limits", probes.StopWhen{}, []event{starting(99), times(50, probes.HTTP5xx), asked(probes.HTTP429, 429, time.Minute)}, ""},
	} {
		var stops []error
		w := New(tt.limits, func(cause error) { stops = append(stops, cause) })
		for _, e := range tt.events {
			e(w)
		}
		why := w.Stopped()
		switch {
		case tt.want == "" && (why != nil || len(stops) != 0):
			t.Errorf("%s: stopped by %v", tt.name, stops)
		case tt.want != "" && (why == nil || why.Error() != tt.want || len(stops) != 1 || !errors.Is(stops[0], why)):
			t.Errorf("%s: stopped by %v %v, want once by %s", tt.name, why, stops, tt.want)
		}
	}
}

func BenchmarkAnswered(b *testing.B) {
	w := New(probes.StopWhen{ErrorRatioAbove: 0.2}, func(error) {})
	r := probes.Record{Outcome: probes.OK}
	b.ReportAllocs()
	for b.Loop() {
		w.Answered(&r)
	}
}
