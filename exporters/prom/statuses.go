package prom

import (
	"math"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// resultSignals are the latency series of a result that are shown, in the order
// of the label's closed list.
var resultSignals = []probes.Signal{
	probes.TTFT, probes.TTFTFromDue, probes.TPOT, probes.ITL, probes.ChunkGap, probes.E2E, probes.E2EFromDue,
	probes.TTFTFirst, probes.TTFTSecond,
}

// addStatuses adds the gauges of all pairs as they are at this instant.
func (e *Exporter) addStatuses(b *builder, statuses []probes.PairStatus) {
	described := map[string]bool{}
	for i := range statuses {
		s := &statuses[i]
		ids := e.identity(s.Pair)
		e.addLifecycle(b, s, ids)
		e.addObjectives(b, s, ids)
		switch {
		case s.Kind == probes.Sweep:
			e.addSweep(b, s, ids)
		case s.Result != nil:
			e.addResult(b, s.Result, ids)
			e.addBreaches(b, s, ids)
		}
		if s.Result != nil {
			e.addChanges(b, s, ids)
		}
		// Two series for one probe would break every join on it.
		if !described[s.Pair.Probe] {
			described[s.Pair.Probe] = true
			b.info(catalog.ProbeInfo, probeFacts(s.Pair.Probe, &s.Spec)...)
		}
	}
}

// identity reuses the labels of a configured pair.
func (e *Exporter) identity(p probes.Pair) []*dto.LabelPair {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if s := e.pairs[p]; s != nil {
		return s.ids
	}
	return pairLabels(p)
}

func (e *Exporter) addLifecycle(b *builder, s *probes.PairStatus, ids []*dto.LabelPair) {
	b.gauge(catalog.RequestsInFlight, ids, float64(s.InFlight))
	b.gaugeFlag(catalog.RunActive, ids, s.Active)
	b.gaugeTime(catalog.RunLastStart, ids, s.LastStart)
	b.gaugeTime(catalog.RunLastCompletion, ids, s.LastCompletion)
	b.gaugeTime(catalog.RunLastSuccess, ids, s.LastSuccess)
	b.gaugeTime(catalog.RunNextStart, ids, s.NextStart)
	if !s.LastCompletion.IsZero() {
		b.gauge(catalog.RunLastDuration, ids, s.LastDuration.Seconds())
	}
	if s.Interval > 0 {
		b.gauge(catalog.ProbeInterval, ids, s.Interval.Seconds())
	}
	if s.Spec.StaleAfter > 0 && !s.Paused {
		b.gauge(catalog.ProbeStaleAfter, ids, s.Spec.StaleAfter.Seconds())
	}
	b.gaugeTime(catalog.ProbeRegistered, ids, s.Registered)
	b.gaugeFlag(catalog.ProbePaused, ids, s.Paused)
	b.gauge(catalog.ConsecutiveFailures, ids, float64(s.ConsecutiveFailures))
	if s.Spec.FailureThreshold > 0 {
		b.gauge(catalog.FailureThreshold, ids, float64(s.Spec.FailureThreshold))
	}
	if s.Last != nil && (s.Last.Summary.Completed+s.Last.Summary.Failed > 0 || s.Last.Result != probes.RunAborted) {
		// A run that we cut before any answer says nothing about the target.
		b.gaugeFlag(catalog.ProbeUp, ids, s.Last.Summary.Completed > 0)
	}
	if s.Last != nil && (s.Last.Summary.Answer == probes.AnswerRight || s.Last.Summary.Answer == probes.AnswerWrong) {
		b.gaugeFlag(catalog.AnswerCorrect, ids, s.Last.Summary.Answer == probes.AnswerRight)
	}
}

// addObjectives adds what the configuration promises.
func (e *Exporter) addObjectives(b *builder, s *probes.PairStatus, ids []*dto.LabelPair) {
	for i := range s.Spec.SLOs {
		slo := &s.Spec.SLOs[i]
		name := label(catalog.LabelSLO, slo.Name)
		b.gauge(catalog.SLOObjective, ids, slo.Objective, name)
		if slo.Window > 0 {
			b.gauge(catalog.SLOWindow, ids, slo.Window.Seconds(), name)
		}
		for _, signal := range probes.Signals {
			if bound, ok := slo.Bounds[signal]; ok {
				b.gauge(catalog.SLOLatencyLimit, ids, bound.Seconds(), name, e.enum(catalog.LabelSignal, string(signal)))
			}
		}
	}
	for _, l := range s.Spec.QueueLimits {
		b.gauge(catalog.QueueThreshold, ids, l.Bound, e.enum(catalog.LabelSeverity, string(l.Severity)))
	}
	for _, signal := range tailRatioSignals(s.Spec.Limits) {
		b.gauge(catalog.TailRatioFloor, ids, probes.TailFloor, e.enum(catalog.LabelSignal, string(signal)))
	}
	short := e.outputTooShort(s.Result)
	for _, l := range s.Spec.Limits {
		if short && (l.Signal == probes.TPOT || l.Signal == probes.ITL) {
			continue
		}
		signal, severity := e.enum(catalog.LabelSignal, string(l.Signal)), e.enum(catalog.LabelSeverity, string(l.Severity))
		if l.Statistic == probes.StatTailRatio {
			b.gauge(catalog.TailRatioThreshold, ids, l.Bound, signal, severity)
		} else {
			b.gauge(catalog.LatencyThreshold, ids, l.Bound, signal, e.enum(catalog.LabelStat, string(l.Statistic)), severity)
		}
	}
}

// tailRatioSignals are the signals with a limit of their tail ratio, each once.
func tailRatioSignals(limits []probes.Limit) []probes.Signal {
	var out []probes.Signal
	for _, l := range limits {
		if l.Statistic == probes.StatTailRatio && !slices.Contains(out, l.Signal) {
			out = append(out, l.Signal)
		}
	}
	return out
}

// addBreaches adds how long each limit has been breached.
func (e *Exporter) addBreaches(b *builder, s *probes.PairStatus, ids []*dto.LabelPair) {
	for _, breach := range s.Breaches {
		l := breach.Limit
		if l.Statistic == probes.StatTailRatio {
			continue // its alerts look at one result
		}
		b.gauge(catalog.BreachRuns, ids, float64(breach.Runs), e.enum(catalog.LabelSignal, string(l.Signal)),
			e.enum(catalog.LabelStat, string(l.Statistic)), e.enum(catalog.LabelSeverity, string(l.Severity)))
	}
}

func (e *Exporter) outputTooShort(r *probes.Result) bool {
	if r == nil {
		return false
	}
	mean, known := outputTokensMean(&r.Summary).Get()
	return known && mean < float64(e.opts.TPOTMinOutput)
}

func (e *Exporter) addResult(b *builder, r *probes.Result, ids []*dto.LabelPair) {
	s := &r.Summary
	for _, signal := range resultSignals {
		d, name := s.Distribution(signal), e.enum(catalog.LabelSignal, string(signal))
		if d.N == 0 && (signal == probes.TTFTFirst || signal == probes.TTFTSecond) {
			continue // most probes have no such pair; others lack samples for a reason worth seeing
		}
		b.gauge(catalog.ResultSamples, ids, float64(d.N), name)
		b.gauge(catalog.ResultTailRatio, ids, orNaN(d.TailRatio()), name)
		for _, stat := range probes.Statistics {
			b.gauge(catalog.ResultLatency, ids, orNaN(d.Get(stat)), name, e.enum(catalog.LabelStat, string(stat)))
		}
	}
	for _, g := range []struct {
		name  string
		value probes.Optional[float64]
	}{
		{catalog.ResultRequestsPerSecond, s.RequestThroughput},
		{catalog.ResultInputTokensPerSecond, s.InputThroughput},
		{catalog.ResultOutputTokensPerSecond, s.OutputThroughput},
		{catalog.ResultTotalTokensPerSecond, s.TotalThroughput},
		{catalog.ResultPeakOutputTokensPerSecond, s.PeakOutputThroughput},
		{catalog.ResultOfferedRequestsPerSecond, s.OfferedRate},
		{catalog.ResultAchievedRequestsPerSecond, s.AchievedRate},
		{catalog.ResultGoodputRequestsPerSecond, s.Goodput},
		{catalog.ResultConcurrency, s.Concurrency},
		{catalog.ResultSuccess, s.SuccessRatio},
		{catalog.ResultInputTokensMean, inputTokensMean(s)},
		{catalog.ResultOutputTokensMean, outputTokensMean(s)},
		{catalog.ResultRetokenized, s.RetokenizedRatio},
	} {
		b.gauge(g.name, ids, orNaN(g.value))
	}
	e.addServer(b, s, ids)
	b.gauge(catalog.ResultMaxConcurrentRequests, ids, float64(s.PeakConcurrency))
	b.gauge(catalog.ResultDuration, ids, s.Duration.Seconds())
	b.gaugeTime(catalog.ResultTimestamp, ids, r.CompletedAt)
	b.gaugeFlag(catalog.ResultSuspect, ids, r.Validity.State == probes.Suspect)
	for name, share := range s.SLOAttainment {
		b.gauge(catalog.ResultSLOAttainment, ids, share, label(catalog.LabelSLO, name))
	}
}

// orNaN gives the builder's sign for unknown.
func orNaN(v probes.Optional[float64]) float64 {
	if f, ok := v.Get(); ok {
		return f
	}
	return math.NaN()
}

func inputTokensMean(s *probes.Summary) probes.Optional[float64] {
	n, ok := s.InputTokens.Get()
	if !ok || s.Completed == 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(float64(n) / float64(s.Completed))
}

// outputTokensMean is unknown when requests were cut: the total then holds their
// tokens too.
func outputTokensMean(s *probes.Summary) probes.Optional[float64] {
	n, ok := s.OutputTokens.Get()
	counted := s.Completed - s.UnknownOutputs
	if !ok || s.Cancelled > 0 || counted <= 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(float64(n) / float64(counted))
}

func probeFacts(name string, spec *probes.Spec) []*dto.LabelPair {
	w := &spec.Workload
	return []*dto.LabelPair{
		label(catalog.LabelProbe, name),
		label("kind", string(spec.Kind)),
		label("workload", w.Name),
		label("dataset", w.Dataset),
		label("arrivals", string(spec.Arrivals.Process)),
		label("rate", rateText(spec.Arrivals)),
		label("concurrency", countText(spec.Arrivals.MaxConcurrency)),
		label("input_tokens", countText(w.InputTokens)),
		label("output_tokens", countText(w.OutputTokens)),
		label("cache", string(w.Cache)),
		label("stream", strconv.FormatBool(w.Sampling.Stream)),
	}
}

// rateText is empty where there is no one rate: in a closed loop, a trace and a sweep.
func rateText(a probes.Arrivals) string {
	switch {
	case !a.OpenLoop() || a.Process == probes.FromTrace || a.Rate == 0: // a sweep has one in each step
		return ""
	case math.IsInf(a.Rate, 1):
		return "inf"
	}
	return strconv.FormatFloat(a.Rate, 'g', -1, 64)
}

// countText is empty for 0, which means "not set" in a spec.
func countText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
