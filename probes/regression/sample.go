package regression

import (
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Sample is what one run says about the metrics.
type Sample struct {
	At          time.Time // start of the run
	Fingerprint string
	Facts       probes.ServerFacts
	Repeats     int // runs whose median the values are, at least 1
	values      [len(metricOrder)]probes.Optional[float64]
	// Failed of Judged requests failed; Judged is 0 where nobody counts them.
	Failed, Judged int
}

// metricOrder indexes the values of a sample.
var metricOrder = [...]probes.RegressionMetric{
	probes.MetricTTFTp50, probes.MetricTTFTp99, probes.MetricTPOTp50, probes.MetricTPOTp99, probes.MetricE2Ep50,
	probes.MetricOutputThroughput, probes.MetricRequestThroughput, probes.MetricCapacity, probes.MetricAcceptLength,
	probes.MetricPrefixCacheHits,
}

// Value is the sample's value of a metric; unknown for one that is counted.
func (s *Sample) Value(metric probes.RegressionMetric) probes.Optional[float64] {
	if i := slices.Index(metricOrder[:], metric); i >= 0 {
		return s.values[i]
	}
	return probes.Optional[float64]{}
}

// Set gives the sample a value, which must be positive.
func (s *Sample) Set(metric probes.RegressionMetric, value float64) {
	if i := slices.Index(metricOrder[:], metric); i >= 0 {
		s.values[i] = probes.Known(value)
	}
}

// harmless are the reasons for doubt that hold every night alike, or are about the
// number of samples, which each metric asks for itself.
var harmless = []string{"approx_input_lengths", "too_few_samples", "repeats_lost", "coalesced", "compressed"}

// Believed reports whether a run may move a baseline. Its first reason against that
// says why not.
func Believed(run *probes.Run) (probes.Reason, bool) {
	switch {
	case run.Source != "":
		return probes.Reason{Code: "imported", Text: "another tool measured it"}, false
	case !run.Complete:
		return probes.Reason{Code: "incomplete", Text: "it was cut short"}, false
	case run.Validity.State == probes.Valid:
		return probes.Reason{}, true
	case run.Validity.State == probes.Suspect:
		for _, reason := range run.Validity.Reasons {
			if !slices.Contains(harmless, reason.Code) {
				return reason, false
			}
		}
		return probes.Reason{}, true
	}
	if len(run.Validity.Reasons) > 0 {
		return run.Validity.Reasons[0], false
	}
	return probes.Reason{Code: "invalid", Text: "nobody says that it is valid"}, false
}

// SampleOf is what a run says. It is false for one that may not move a baseline.
func SampleOf(run *probes.Run) (Sample, bool) {
	if _, ok := Believed(run); !ok {
		return Sample{}, false
	}
	s := Sample{At: run.Start, Fingerprint: run.Fingerprint, Facts: run.Facts, Repeats: max(1, run.Summary.Repeats.Used)}
	s.take(run)
	if serves(&run.Spec) {
		s.Failed, s.Judged = failures(run)
	}
	return s, true
}

// take sets the values that a run has.
func (s *Sample) take(run *probes.Run) {
	for _, class := range classes {
		if !class.applies(&run.Spec) {
			continue
		}
		if v, ok := class.of(run).Get(); ok && v > 0 {
			s.Set(class.Metric, v)
		}
	}
}

// failures are those of all repeats: the summary of a median has the counts of one.
func failures(run *probes.Run) (failed, judged int) {
	count := func(s *probes.Summary) { failed, judged = failed+s.Failed, judged+s.Completed+s.Failed }
	if run.Summary.Repeats.Runs == 0 || len(run.Parts) == 0 {
		count(&run.Summary)
		return failed, judged
	}
	for _, part := range run.Parts {
		if part.Run.Validity.State != probes.Invalid {
			count(&part.Run.Summary)
		}
	}
	return failed, judged
}

// Nights are the values of a metric by calendar days of the location, oldest first;
// the samples are in order of time. A run that was repeated by hand joins its night.
func Nights(samples []Sample, metric probes.RegressionMetric, location *time.Location) []Night {
	return points(samples, metric, func(t time.Time) time.Time {
		year, month, day := t.In(location).Date()
		return time.Date(year, month, day, 0, 0, 0, 0, location)
	})
}

// hours are the values by hours.
func hours(samples []Sample, metric probes.RegressionMetric) []Night {
	return points(samples, metric, func(t time.Time) time.Time { return t.Truncate(time.Hour) })
}

// points are the medians of the samples of each period.
func points(samples []Sample, metric probes.RegressionMetric, period func(time.Time) time.Time) []Night {
	var out []Night
	var values []float64
	var now time.Time
	s := scanner{}
	for i := range samples {
		value, ok := samples[i].Value(metric).Get()
		if !ok {
			continue
		}
		p := period(samples[i].At)
		if len(out) == 0 || !p.Equal(now) {
			now, values = p, values[:0]
			out = append(out, Night{At: samples[i].At})
		}
		night := &out[len(out)-1]
		values = append(values, value)
		night.Value, night.Facts, night.Runs = s.median(values), samples[i].Facts, night.Runs+samples[i].Repeats
	}
	return out
}
