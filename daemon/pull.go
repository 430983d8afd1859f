package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/schedule"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
)

const (
	// scrapeTimeout is how long an answer may take when the scraper does not say.
	scrapeTimeout = 2 * time.Minute
	// answerTime is what is left of the scraper's patience for the way back.
	answerTime = 500 * time.Millisecond
	// timeoutHeader is how Prometheus says how long it waits, in seconds.
	timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"
)

// pulls are the runs that scrapes of /probe have asked for and that are not over.
type pulls struct {
	mu    sync.Mutex
	going map[pairKey]*pulled
}

// pulled is one of them. What it holds is read once began or over is closed.
type pulled struct {
	began, over chan struct{} // closed
	start       time.Time     // set when it began
	skipped     probes.SkipReason
	err         error
	run         *probes.Run // nil when it did not start
}

// answerProbe runs one probe on one target, both of the configuration, and answers with
// the metrics of that run. It obeys everything that a scheduled run obeys, and counts as
// one. Scrapes that overlap share a run; one that takes longer than the scraper waits
// goes on, so that impatience cuts no measurement.
func (a *App) answerProbe(w http.ResponseWriter, r *http.Request) {
	within, err := patience(r.Header.Get(timeoutHeader))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	query := r.URL.Query()
	key := pairKey{query.Get("target"), query.Get("probe")}
	if key.target == "" || key.probe == "" {
		http.Error(w, "needs the names of a target and a probe of the configuration: /probe?target=T&probe=P", http.StatusBadRequest)
		return
	}
	pair, ok := a.configured(key)
	if !ok {
		http.Error(w, fmt.Sprintf("target %q has no probe %q in the configuration", key.target, key.probe), http.StatusNotFound)
		return
	}
	if err := pullable(&pair.Spec, within); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	answer, err := a.pull(ctx, pair)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a.prom.Answer(answer).ServeHTTP(w, r)
}

// patience is how long the answer may take.
func patience(header string) (time.Duration, error) {
	if header == "" {
		return scrapeTimeout - answerTime, nil
	}
	seconds, err := strconv.ParseFloat(header, 64)
	if err != nil || !(seconds > 0) || math.IsInf(seconds, 0) {
		return 0, fmt.Errorf("read %s: must be a number of seconds above 0", timeoutHeader)
	}
	within := time.Duration(min(seconds, scrapeTimeout.Seconds()) * float64(time.Second))
	return max(within-answerTime, within/2), nil
}

// pullable refuses what is not over within a scrape.
func pullable(spec *probes.Spec, within time.Duration) error {
	if spec.Kind != probes.Canary && spec.Kind != probes.Load {
		return fmt.Errorf("probe %s is a %s; /probe runs canaries, and loads whose duration is known", spec.Probe, spec.Kind)
	}
	span, known := plannedSpan(spec)
	switch {
	case known && span > within:
		return fmt.Errorf("probe %s takes %s by its plan, and the scrape waits for %s: raise its scrape_timeout, or ask less", spec.Probe, span.Round(time.Millisecond), within)
	case !known && spec.Kind != probes.Canary:
		return fmt.Errorf("how long probe %s takes is not known beforehand: give it a request_rate or a duration, also of its warm-up", spec.Probe)
	}
	return nil
}

// plannedSpan is how long a run sends; false when that depends on the answers.
func plannedSpan(spec *probes.Spec) (time.Duration, bool) {
	warmup, knownWarmup := sendingSpan(spec, spec.Warmup.Requests, spec.Warmup.Duration)
	measured, known := sendingSpan(spec, spec.Requests, spec.Duration)
	runs := max(1, spec.Repeats)
	if spec.Regression.Confirm {
		runs = max(runs, probes.ConfirmRuns)
	}
	return time.Duration(runs) * (warmup + measured), known && knownWarmup
}

func sendingSpan(spec *probes.Spec, requests int, duration time.Duration) (time.Duration, bool) {
	_, span := arrival.Planned(spec.Arrivals, requests, duration, spec.Workload.Seed)
	if span == 0 {
		span = duration
	}
	return span, span > 0 || requests == 0
}

// pull has a run carried out, or shares the one that another scrape has asked for, and
// says what there is of it when ctx ends. It fails for a pair that is gone meanwhile.
func (a *App) pull(ctx context.Context, pair config.Pair) (prom.Pulled, error) {
	key := keyOf(pairOf(pair))
	a.pulls.mu.Lock()
	p := a.pulls.going[key]
	first := p == nil
	if first {
		p = &pulled{began: make(chan struct{}), over: make(chan struct{})}
		if a.pulls.going == nil {
			a.pulls.going = map[pairKey]*pulled{}
		}
		a.pulls.going[key] = p
		go a.carryPulled(ctx, pair, p)
	}
	a.pulls.mu.Unlock()
	select {
	case <-p.over:
	case <-ctx.Done():
		select {
		case <-p.began:
		default:
			if !first {
				return prom.Pulled{Pair: a.tracker.identity(key), Skipped: probes.SkipTargetBusy}, nil
			}
			<-p.over // which says what it waited for: its wait has ended with ctx
		}
	}
	return a.saidOf(key, p)
}

// saidOf is what is known of a run that has begun or will not.
func (a *App) saidOf(key pairKey, p *pulled) (prom.Pulled, error) {
	out := prom.Pulled{Pair: a.tracker.identity(key)}
	select {
	case <-p.over:
	default:
		out.Start, out.Elapsed = p.start, time.Since(p.start)
		return out, nil
	}
	if p.run == nil {
		out.Skipped = p.skipped
		return out, p.err
	}
	// The pair stays as it is: a target that is down does not say its model, and a series
	// under another identity would be another series.
	out.Run, out.Start, out.Elapsed = p.run, p.run.Start, p.run.End.Sub(p.run.Start)
	return out, nil
}

// carryPulled waits for the run's turn until ctx ends, and carries it out to its end.
func (a *App) carryPulled(ctx context.Context, pair config.Pair, p *pulled) {
	key := keyOf(pairOf(pair))
	defer func() {
		if cause := recover(); cause != nil {
			p.err = errors.New("the probe panicked; the log says where")
			a.countPanic(cause, debug.Stack())
		}
		a.pulls.mu.Lock()
		delete(a.pulls.going, key)
		a.pulls.mu.Unlock()
		close(p.over)
	}()
	plan, err := schedule.Parse(pair.Spec.Schedule)
	if err != nil {
		p.err = err // config has refused it already
		return
	}
	release, refused := a.scheduler.Acquire(ctx, schedule.Entry{Pair: pairOf(pair), Plan: plan})
	if release == nil {
		p.skipped = refused
		return
	}
	defer release()
	if ctx.Err() != nil {
		p.skipped = probes.SkipTargetBusy // its turn came too late for the scrape
		return
	}
	pair, ok := a.configured(key)
	if !ok {
		p.err = errNoLonger
		return
	}
	ask := askOf(&pair)
	ask.Unplanned = true
	admission, hold := a.gate.Admit(time.Now(), ask)
	if hold != nil {
		p.skipped = hold.Reason
		return
	}
	p.start = time.Now()
	close(p.began)
	p.run = a.perform(pair, admission, probes.Optional[time.Duration]{})
}

// errNoLonger is of a pair that a reload took away while its run waited.
var errNoLonger = errors.New("the configuration has been reloaded and has no such target and probe any more")
