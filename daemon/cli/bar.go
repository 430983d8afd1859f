package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// progress follows a run from its preparation through the warm-up to its end.
type progress struct {
	spec   probes.Spec
	counts loadgen.Progress // of the measurement; the warm-up is not in it

	mu      sync.Mutex
	started bool // the preparation is over
	steps   int  // of a sweep, that have ended
	warmed  int
	first   time.Time // when the measurement was first seen to be going on
}

// newProgress counts all parts of a run as one.
func newProgress(spec probes.Spec) *progress {
	spec.Requests = spec.MostRequests()
	return &progress{spec: spec}
}

// hooks let the run say what the counts do not.
func (p *progress) hooks() daemon.Hooks {
	return daemon.Hooks{
		Started: func(string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.started = true
		},
		Step: func(string, *probes.Step) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.steps++
		},
		Record: func(_ string, r *probes.Record) {
			if !r.Warmup {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.warmed++
		},
	}
}

// progressView is a run at one instant.
type progressView struct {
	loadgen.Counts
	Started bool
	Steps   int           // of a sweep, that have ended
	Warmed  int           // warm-up requests that have ended
	Elapsed time.Duration // since the measurement began
}

func (p *progress) view(now time.Time) progressView {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := progressView{Counts: p.counts.Snapshot(), Started: p.started, Steps: p.steps, Warmed: p.warmed}
	if v.Due == 0 {
		return v
	}
	if p.first.IsZero() {
		p.first = now
	}
	v.Elapsed = now.Sub(p.first)
	return v
}

// bar draws one line of at most width columns: how much of the measurement is
// done, and what is going on. A run that is bound by a count and by a duration
// ends with the first of them, so the larger share is drawn.
func bar(v progressView, spec probes.Spec, width int) string {
	switch {
	case !v.Started:
		return cut("preparing", width)
	case v.Due == 0 && spec.Warmup.Requests > 0:
		return cut(fmt.Sprintf("warming up, %d/%d done", v.Warmed, spec.Warmup.Requests), width)
	case v.Due == 0 && spec.Warmup.Duration > 0:
		return cut(fmt.Sprintf("warming up for %s, %d done", spec.Warmup.Duration, v.Warmed), width)
	}
	share, done := 0.0, fmt.Sprint(v.Done)
	if spec.Requests > 0 {
		share = float64(v.Done+v.Dropped) / float64(spec.Requests)
		done = fmt.Sprintf("%d/%d", v.Done, spec.Requests)
	}
	elapsed := v.Elapsed.Round(time.Second).String()
	if spec.Duration > 0 {
		share = max(share, v.Elapsed.Seconds()/spec.Duration.Seconds())
		elapsed += "/" + spec.Duration.String()
	}
	text := fmt.Sprintf(" %s done, %d in flight", done, v.InFlight)
	if spec.Kind == probes.Sweep { // nobody knows its end
		share, text = 0, fmt.Sprintf(" step %d,%s", v.Steps+1, text)
		elapsed = v.Elapsed.Round(time.Second).String()
	}
	for _, part := range []struct {
		count int
		name  string
	}{{v.Failed, "failed"}, {v.Dropped, "dropped"}} {
		if part.count > 0 {
			text += fmt.Sprintf(", %d %s", part.count, part.name)
		}
	}
	text += ", " + elapsed
	cells := min(40, width-len(text)-2)
	if cells < 5 {
		return cut(strings.TrimSpace(text), width)
	}
	filled := int(min(share, 1) * float64(cells))
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", cells-filled) + "]" + text
}

// cut keeps the first width columns of a text in ASCII.
func cut(text string, width int) string { return text[:min(len(text), max(width, 0))] }
