package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/regression"
)

// past is what is known of earlier runs: the store, or else the memory of this process.
type past interface {
	// Samples are what the runs of a pair that started since then say, in order of time.
	Samples(ctx context.Context, target, probe string, since time.Time) ([]regression.Sample, error)
	// Said are the acknowledgements of a pair, in order of time.
	Said(ctx context.Context, target, probe string) ([]probes.Acknowledgement, error)
	// Keep takes a run over that has ended.
	Keep(run *probes.Run)
}

// ephemeral is the past of a daemon without a store: it begins with the process.
type ephemeral struct {
	mu      sync.Mutex
	samples map[pairKey][]regression.Sample
}

// memorable bounds the samples of a pair: a year of nights and more.
const memorable = 500

func (m *ephemeral) Samples(_ context.Context, target, probe string, since time.Time) ([]regression.Sample, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.samples[pairKey{target, probe}]), func(s regression.Sample) bool { return s.At.Before(since) }), nil
}

func (m *ephemeral) Said(context.Context, string, string) ([]probes.Acknowledgement, error) {
	return nil, nil
}

func (m *ephemeral) Keep(run *probes.Run) {
	s, ok := regression.SampleOf(run)
	if !ok || !run.Spec.Regression.Enabled {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.samples == nil {
		m.samples = map[pairKey][]regression.Sample{}
	}
	key := pairKey{run.Target.Name, run.Spec.Probe}
	kept := append(m.samples[key], s)
	m.samples[key] = kept[max(0, len(kept)-memorable):]
}

// nights judges runs against those of earlier nights.
type nights struct {
	past past

	mu      sync.Mutex
	told    map[pairKey][]regression.News // of the pair's last night, so that each is told once
	doubted map[pairKey]int               // runs in a row that nobody can believe
	// incidents have been told.
	incidents []string
}

// horizon is how far back the nights of a judgement may lie. Baselines are younger; the
// anchor of a drift may be as old as its segment.
const horizon = 400 * 24 * time.Hour

// hourlyUpTo is the longest interval of a probe whose hours are judged too.
const hourlyUpTo = 2 * time.Hour

// judgeNights lays a run beside the earlier ones and adds what they say to its verdict.
// A run that cannot be believed says nothing about the target.
func (a *App) judgeNights(spec *probes.Spec, run *probes.Run) {
	if !spec.Regression.Enabled {
		return
	}
	defer a.nights.past.Keep(run)
	key := pairKey{run.Target.Name, run.Spec.Probe}
	log := a.log.With("target", run.Target.Name, "probe", run.Spec.Probe, "run", run.ID)
	sample, ok := regression.SampleOf(run)
	if !ok {
		reason, _ := regression.Believed(run)
		if a.nights.doubt(key, true) == brokenAfter {
			log.Warn("runs cannot be believed, so that nothing watches this pair", "runs", brokenAfter, "reason", reason.Code, "text", reason.Text)
		}
		return
	}
	a.nights.doubt(key, false)
	earlier, options, err := a.earlier(run)
	if err != nil {
		log.Error("judge the run against earlier nights", "err", err)
		return
	}
	judgement := regression.Judge(append(earlier, sample), options)
	run.Changes, run.OwnVerdict = judgement.Changes, run.Verdict
	run.Verdict = regression.Verdict(run.Verdict, run.Changes)
	for _, n := range a.nights.fresh(key, judgement.News, run.Start) {
		log.Warn("nights have changed", "metric", n.Metric, "event", n.Kind, "since", n.Since.Format(time.DateOnly),
			"effect", n.Effect, "low", n.Low, "high", n.High, "server", n.Renamed)
	}
}

// brokenAfter is how many runs in a row that nobody can believe are worth a word.
const brokenAfter = 2

// oddNight reports whether a first run is to be confirmed.
func (a *App) oddNight(first *probes.Run) bool {
	sample, ok := regression.SampleOf(first)
	if !ok {
		return false
	}
	earlier, options, err := a.earlier(first)
	if err != nil {
		return false // judgeNights says so
	}
	odd := regression.Odd(earlier, &sample, options)
	if len(odd) > 0 {
		a.log.Info("the run is odd and is run again", "target", first.Target.Name, "probe", first.Spec.Probe, "run", first.ID, "metrics", odd)
	}
	return len(odd) > 0
}

// earlier is what the judgement of a run needs.
func (a *App) earlier(run *probes.Run) ([]regression.Sample, regression.Options, error) {
	ctx := context.Background() // a run that has ended is judged, even while the daemon stops
	target, probe := run.Target.Name, run.Spec.Probe
	samples, err := a.nights.past.Samples(ctx, target, probe, run.Start.Add(-horizon))
	if err != nil {
		return nil, regression.Options{}, err
	}
	said, err := a.nights.past.Said(ctx, target, probe)
	if err != nil {
		return nil, regression.Options{}, err
	}
	options := regression.Options{Spec: &run.Spec, Said: said, Location: locationOf(run.Spec.Schedule)}
	interval := a.tracker.interval(pairKey{target, probe})
	options.Hourly = interval > 0 && interval <= hourlyUpTo
	if c := a.current(); c.FalseAlarms > 0 && run.Spec.Regression.Sensitivity == "" {
		options.Threshold = fleetThreshold(c, &run.Spec)
	}
	return samples, options, nil
}

// fleetThreshold shares the budget of false alarms among all series.
func fleetThreshold(c *config.Config, spec *probes.Spec) float64 {
	series := 0
	for _, p := range c.Pairs() {
		series += regression.PrimarySeries(&p.Spec)
	}
	confirmed := spec.Regression.Confirm || spec.Repeats >= probes.ConfirmRuns
	return regression.FleetThreshold(c.FalseAlarms, series, confirmed)
}

// locationOf is where the nights of a schedule begin and end.
func locationOf(s probes.Schedule) *time.Location {
	if location, err := time.LoadLocation(s.Timezone); err == nil {
		return location // "" is UTC
	}
	return time.UTC
}

// rememberedNews is more than all metrics of a pair have in a night.
const rememberedNews = 32

// doubt counts runs in a row that cannot be believed.
func (n *nights) doubt(key pairKey, doubted bool) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.doubted == nil {
		n.doubted = map[pairKey]int{}
	}
	if !doubted {
		delete(n.doubted, key)
		return 0
	}
	n.doubted[key]++
	return n.doubted[key]
}

// fresh are the news of this night that have not been told yet.
func (n *nights) fresh(key pairKey, news []regression.News, night time.Time) []regression.News {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told == nil {
		n.told = map[pairKey][]regression.News{}
	}
	var out []regression.News
	for _, one := range news {
		known := func(other regression.News) bool {
			return other.Metric == one.Metric && other.Kind == one.Kind && other.Since.Equal(one.Since)
		}
		if night.Sub(one.At) < 24*time.Hour && !slices.ContainsFunc(n.told[key], known) {
			out = append(out, one)
		}
	}
	told := append(n.told[key], out...)
	n.told[key] = told[max(0, len(told)-rememberedNews):]
	return out
}
