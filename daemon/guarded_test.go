package daemon

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// wantStopped checks a run that was ended for its target's sake: aborted, or failed when
// the target had answered nothing.
func wantStopped(t *testing.T, run *probes.Run, result probes.RunResult, why string) {
	t.Helper()
	codes := []string{}
	for _, r := range run.Validity.Reasons {
		codes = append(codes, r.Code)
	}
	if run.Result != result || run.Complete || run.Error != why || run.Verdict.State != probes.Unknown || !slices.Contains(codes, verdict.Stopped) {
		t.Errorf("result %s, complete %v, verdict %s, reasons %v, error %q;\nwant %s with %s: %q", run.Result, run.Complete, run.Verdict.State, codes, run.Error, result, verdict.Stopped, why)
	}
}

// Six at a time on a batch of two: four wait, by the page of each second. At the second
// one everything ends: what is in flight is cancelled in the server too, and nothing
// more is sent.
func TestQueueStopsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM, MaxBatch: 2, DecodeBase: 20 * time.Millisecond})
		_, runner := newServed(t, e.Handler())
		defer runner.Close()
		spec := loadSpec()
		spec.Arrivals, spec.Requests = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 6}, 600
		spec.StopWhen.QueueAbove = 3
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		wantStopped(t, run, probes.RunAborted, "stopped for the target's sake: 4 requests are waiting in the server, stop_when.queue_above is 3")
		if took := run.End.Sub(run.Start); took != 2*time.Second {
			t.Errorf("took %v, want the two seconds until the second page", took)
		}
		synctest.Wait()
		// An answer takes 2 s and more, so nothing was complete.
		if s := e.Stats(); s.Received != 6 || s.Aborted != 6 || s.Running+s.Waiting != 0 || run.Summary.Cancelled != 6 {
			t.Errorf("%d received, %d aborted, %d left, %d cancelled; want 6, 6, 0, 6", s.Received, s.Aborted, s.Running+s.Waiting, run.Summary.Cancelled)
		}
		spec.StopWhen.QueueAbove = 4
		spec.Requests = 12
		if run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{}); run.Result != probes.RunSuccess || run.Error != "" {
			t.Errorf("at the limit: result %s, %q; want a success", run.Result, run.Error)
		}
	})
}

// A server that is busy with others before the run begins is not asked at all.
func TestQueueKeepsARunFromStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM})
		_, runner := newServed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				fmt.Fprintln(w, "vllm:num_requests_running 32\nvllm:num_requests_waiting 15")
				return
			}
			e.Handler().ServeHTTP(w, r)
		}))
		defer runner.Close()
		spec := loadSpec()
		spec.StopWhen.QueueAbove, spec.Warmup.Requests = 10, 5
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		wantStopped(t, run, probes.RunAborted, "stopped for the target's sake: 15 requests are waiting in the server, stop_when.queue_above is 10")
		if got := e.Stats().Received; got != 0 {
			t.Errorf("%d requests were sent, want none", got)
		}
	})
}

// Errors stop a run after ten, in one piece, in repeats and in a comparison alike.
func TestErrorsStopARun(t *testing.T) {
	const why = "stopped for the target's sake: 10 of the last 10 requests failed, stop_when.error_ratio_above is 0.2"
	// A failure that took no time at all would be followed by the next request before anybody could count it.
	fail := func(c *fakellm.Config) { c.Faults = []fakellm.Fault{{Kind: fakellm.ErrorMidStream, AfterTokens: 2}} }
	for _, repeats := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			e, runner := scripted(t, fail)
			defer runner.Close()
			spec := loadSpec()
			spec.Arrivals, spec.Repeats, spec.StopWhen.ErrorRatioAbove = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1}, repeats, 0.2
			run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
			wantStopped(t, run, probes.RunFailed, why)
			// The one after the tenth may have left before the stop.
			if got := e.Stats().Received; got < 10 || got > 11 {
				t.Errorf("%d repeats: %d requests were sent, want 10", repeats, got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, func(side int, c *fakellm.Config) {
			if side == 1 {
				fail(c)
			}
		})
		defer r.runner.Close()
		spec := pairedSpec(3)
		spec.StopWhen.ErrorRatioAbove = 0.2
		run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm"), spec, nil, Hooks{})
		if run.Result != probes.RunAborted || len(run.Parts) != 2 {
			t.Errorf("comparison: result %s after %d runs, want aborted in the second", run.Result, len(run.Parts))
		}
	})
	// Without a limit they are what is measured.
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, fail)
		defer runner.Close()
		if run := runner.Run(context.Background(), fakeTarget("vllm"), loadSpec(), nil, Hooks{}); run.Result != probes.RunFailed || run.Summary.Failed != 100 {
			t.Errorf("without a limit: result %s with %d failures, want failed with 100", run.Result, run.Summary.Failed)
		}
	})
}

// A server that asks for a pause gets it. A run that was at its end by then is a
// measurement: a canary of one request has failed, and was not stopped.
func TestRetryAfterStopsARun(t *testing.T) {
	for _, tt := range []struct {
		requests int
		stopped  bool
	}{{100, true}, {1, false}} {
		synctest.Test(t, func(t *testing.T) {
			e, runner := scripted(t, nil)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && r.URL.Path == "/v1/completions" {
					w.Header().Set("Retry-After", "30")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				e.Handler().ServeHTTP(w, r)
			})
			runner.Close()
			s, runner := newServed(t, handler)
			defer runner.Close()
			spec := loadSpec()
			spec.Requests, spec.StopWhen.QueueAbove = tt.requests, 10
			spec.Workload.Tokenizer = "approx"
			run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
			if tt.stopped {
				wantStopped(t, run, probes.RunFailed, "stopped for the target's sake: the server answered with status 429 and asks not to be asked again for 30s (Retry-After)")
			} else if run.Result != probes.RunFailed || run.Error != "" {
				t.Errorf("one request: result %s, error %q; want failed", run.Result, run.Error)
			}
			if n := run.Summary.Outcomes[probes.HTTP429]; n != 1 || s.asked.Load() == 0 {
				t.Errorf("%d requests were refused, want one", n)
			}
		})
	}
}

// A canary is what sees an outage: all of it is asked, and it counts as failed.
func TestCanariesAreNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, runner := scripted(t, func(c *fakellm.Config) { c.Faults = []fakellm.Fault{{Kind: fakellm.Unavailable}} })
		defer runner.Close()
		spec := loadSpec()
		spec.Kind, spec.Requests, spec.StopWhen.ErrorRatioAbove = probes.Canary, 25, 0.2
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		if run.Result != probes.RunFailed || !run.Complete || e.Stats().Received != 25 {
			t.Errorf("result %s, complete %v after %d requests; want failed and complete after 25", run.Result, run.Complete, e.Stats().Received)
		}
	})
}
