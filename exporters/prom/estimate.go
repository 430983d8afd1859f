package prom

import (
	"slices"
	"sort"
	"strings"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// Only sweeps have these.
const (
	capacityPrefix = "inferbeat_capacity_"
	sweepPrefix    = "inferbeat_sweep_"
	// Only what is judged over nights has these, once for each metric.
	regressionPrefix = "inferbeat_regression_"
)

// EstimateSeries says how many series the pairs will show once every one of them
// has a complete result, the daemon's own and those of other prefixes left out.
func EstimateSeries(pairs []probes.PairStatus, mode HistogramMode) int {
	show := mode.forms(len(pairs))
	targets, probesSeen := map[probes.Pair]bool{}, map[string]bool{}
	// A sweep shows its own results in place of those of other kinds.
	perPair, perResult, perSweep, perChange, perTarget, perProbe := 0, 0, 0, 0, 1, 1 // the info series of targets and probes
	for _, m := range catalog.All() {
		switch {
		case m.Staleness == catalog.InAnswer: // not on /metrics
		case m.PerPair() && strings.HasPrefix(m.Name, sweepPrefix), m.PerPair() && strings.HasPrefix(m.Name, capacityPrefix):
			perSweep += seriesOf(m, show)
		case strings.HasPrefix(m.Name, regressionPrefix):
			perChange += seriesOf(m, show)
		case m.PerPair() && m.Staleness == catalog.WithResult:
			perResult += seriesOf(m, show)
		case m.PerPair():
			perPair += seriesOf(m, show)
		case m.HasLabel(catalog.LabelTarget) && m.Kind != catalog.Info:
			perTarget += seriesOf(m, show)
		case m.HasLabel(catalog.LabelProbe) && m.Kind == catalog.Histogram:
			perProbe += seriesOf(m, show)
		}
	}
	n := 0
	budgets := map[probes.ErrorBudget]bool{}
	for i := range pairs {
		p := &pairs[i]
		n += perPair + len(p.Spec.Limits) + len(tailRatioSignals(p.Spec.Limits)) + len(p.Spec.QueueLimits)
		switch {
		case p.Kind == probes.Sweep:
			n += perSweep + perChange - len(p.Spec.SLOs) // attainment is no property of a sweep
		case p.Kind.Continuous():
			n += perResult + breachSeries(p.Spec.Limits)
		default:
			n += perResult + breachSeries(p.Spec.Limits) + perChange*(len(probes.RegressionMetrics)-1) // all but the capacity
		}
		for j := range p.Spec.SLOs {
			n += 3 + len(p.Spec.SLOs[j].Bounds) // objective, window, attainment, limits
			if p.Kind.Continuous() {
				n += 2 // good, bad
				budgets[probes.ErrorBudget{Pool: p.Pair.Pool, Environment: string(p.Pair.Environment), Model: p.Pair.Model,
					Probe: p.Pair.Probe, SLO: p.Spec.SLOs[j].Name}] = true
			}
		}
		targets[withoutProbe(p.Pair)] = true
		probesSeen[p.Pair.Probe] = true
	}
	return n + len(budgets) + perTarget*len(targets) + perProbe*len(probesSeen)
}

// Fit is how many of the targets, taken from the first on, have series within a limit
// beside those of fixed; each of more is the pairs of one target. 0 is no limit.
func Fit(fixed []probes.PairStatus, more [][]probes.PairStatus, mode HistogramMode, limit int) int {
	fits := func(n int) bool {
		return EstimateSeries(slices.Concat(fixed, slices.Concat(more[:n]...)), mode) <= limit
	}
	if limit <= 0 || fits(len(more)) {
		return len(more)
	}
	// Beyond some number of pairs histograms have one form only, and more targets may
	// have fewer series: what grows is looked at apart on both sides.
	pairs, edge := len(fixed), 0
	for edge < len(more) && mode.forms(pairs+len(more[edge])).classic {
		pairs += len(more[edge])
		edge++
	}
	for _, span := range [][2]int{{edge + 1, len(more)}, {0, edge}} {
		// Search finds the first number that does not fit.
		if n := span[0] + sort.Search(span[1]-span[0]+1, func(i int) bool { return !fits(span[0] + i) }) - 1; n >= span[0] {
			return n
		}
	}
	return 0
}

// breachSeries is how many of the limits say for how long they have been breached.
func breachSeries(limits []probes.Limit) (n int) {
	for _, l := range limits {
		if l.Statistic != probes.StatTailRatio {
			n++
		}
	}
	return n
}

// seriesOf multiplies a metric's closed labels. What depends on the spec is not
// counted here: objectives and limits.
func seriesOf(m catalog.Metric, show forms) int {
	n := 1
	switch m.Kind {
	case catalog.Histogram:
		if show.classic {
			n = histogramSeries(len(m.Buckets))
		}
	case catalog.Info:
		return 0
	}
	if m.HasLabel(catalog.LabelSLO) || m.HasLabel(catalog.LabelSeverity) || m.Name == catalog.TailRatioFloor {
		return 0
	}
	stats := len(probes.Statistics)
	if !m.HasLabel(catalog.LabelSignal) {
		stats = len(levelStats) // a gauge of the server, which has no percentiles
	}
	for name, values := range map[string]int{
		catalog.LabelOutcome: 4,
		catalog.LabelClass:   countFailing(),
		catalog.LabelResult:  len(probes.RunResults),
		catalog.LabelReason:  len(probes.SkipReasons),
		catalog.LabelPhase:   3,
		catalog.LabelSignal:  len(resultSignals),
		catalog.LabelStep:    probes.MaxSweepSteps,
		catalog.LabelBound:   2,
		catalog.LabelStat:    stats,
	} {
		if m.HasLabel(name) {
			n *= values
		}
	}
	return n
}

func countFailing() (n int) {
	for _, o := range probes.Outcomes {
		if o.Failed() {
			n++
		}
	}
	return n
}
