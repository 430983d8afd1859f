package daemon

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// profiledRun is a run on an SGLang replica, and what it was asked in which order: w
// and r for warm-up and measured requests, + and - for the profiler.
func profiledRun(t *testing.T, ctx context.Context, change func(*probes.Spec), answer func(http.ResponseWriter, *http.Request) bool) (*probes.Run, string, fakellm.Stats) {
	t.Helper()
	engine := engineOf(t, fakellm.Config{Engine: fakellm.SGLang, Model: "m"})
	spec := loadSpec()
	spec.Requests, spec.Warmup, spec.Profile = 3, probes.Warmup{Requests: 2}, &probes.Profile{Activities: []string{"CPU"}}
	spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1}
	if change != nil {
		change(&spec)
	}
	var mu sync.Mutex
	order := ""
	_, runner := newServed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		switch r.URL.Path {
		case "/start_profile":
			order += "+"
		case "/stop_profile":
			order += "-"
		case "/generate":
			order += "r"
		}
		mu.Unlock()
		if answer == nil || !answer(w, r) {
			engine.Handler().ServeHTTP(w, r)
		}
	}))
	defer runner.Close()
	run := runner.Run(ctx, fakeTarget("sglang"), spec, nil, Hooks{})
	mu.Lock()
	defer mu.Unlock()
	return run, order, engine.Stats()
}

// The profiler runs during the measured part alone, and marks its numbers.
func TestProfileOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, order, stats := profiledRun(t, context.Background(), nil, nil)
		wantSame(t, "the order", order, "rr+rrr-")
		wantSame(t, "what was asked", stats.Profiles, []string{`{"activities":["CPU"]}`})
		if run.Result != probes.RunSuccess || run.Validity.State != probes.Suspect || !slices.Contains(codesOf(run.Validity.Reasons), verdict.Profiled) || stats.Profiling {
			t.Errorf("result %s, validity %+v, still profiling: %v; want a suspect success that says why", run.Result, run.Validity, stats.Profiling)
		}
		plain, order, _ := profiledRun(t, context.Background(), func(s *probes.Spec) { s.Profile = nil }, nil)
		wantSame(t, "the order without", order, "rrrrr")
		if plain.Fingerprint == run.Fingerprint || slices.Contains(codesOf(plain.Validity.Reasons), verdict.Profiled) {
			t.Errorf("fingerprints %s and %s; a profiled run is no baseline of others", plain.Fingerprint, run.Fingerprint)
		}
	})
}

// One that ends by itself is not ended: the server refuses that.
func TestProfileOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, order, stats := profiledRun(t, context.Background(), func(s *probes.Spec) { s.Profile.Steps = 5 }, nil)
		wantSame(t, "the order", order, "rr+rrr")
		wantSame(t, "what was asked", stats.Profiles, []string{`{"activities":["CPU"],"num_steps":5}`})
	})
}

func TestProfileThatCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, order, _ := profiledRun(t, context.Background(), nil, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/start_profile" {
				http.Error(w, "no space left", http.StatusInternalServerError)
				return true
			}
			return false
		})
		wantSame(t, "the order", order, "rr+")
		if run.Result != probes.RunFailed || run.Error != "profile t: start profile: status 500 Internal Server Error: no space left" {
			t.Errorf("result %s, error %q", run.Result, run.Error)
		}
	})
}

func TestProfileThatCannotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, order, stats := profiledRun(t, context.Background(), nil, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/stop_profile" {
				http.Error(w, "no space left", http.StatusInternalServerError)
				return true
			}
			return false
		})
		wantSame(t, "the order", order, "rr+rrr-")
		i := slices.Index(codesOf(run.Validity.Reasons), verdict.ProfilerLeftOn)
		if run.Result != probes.RunSuccess || i < 0 || !strings.HasSuffix(run.Validity.Reasons[i].Text, "no space left") || !stats.Profiling {
			t.Errorf("result %s, validity %+v; want a success that says that the profiler was left on", run.Result, run.Validity)
		}
	})
}

// Writing the traces takes a server minutes; and a run that we cut does not leave the
// profiler running.
func TestProfileEndsWithACutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		requests := 0
		run, order, stats := profiledRun(t, ctx, nil, func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/generate":
				if requests++; requests == 4 {
					cancel()
				}
			case "/stop_profile":
				time.Sleep(5 * time.Minute)
			}
			return false
		})
		wantSame(t, "the order", order, "rr+rr-")
		if run.Result != probes.RunAborted || stats.Profiling || slices.Contains(codesOf(run.Validity.Reasons), verdict.ProfilerLeftOn) {
			t.Errorf("result %s, still profiling: %v, validity %+v; want an aborted run and no profiler", run.Result, stats.Profiling, run.Validity)
		}
	})
}
