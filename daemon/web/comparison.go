package web

import (
	"cmp"
	"fmt"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// comparisonRow is one comparison as finished text.
type comparisonRow struct {
	Name, Reference, Candidate string
	State                      string // CSS class and word, as of a pair
	Reasons                    []string
	Metrics                    []metricCell
	Pairs                      string
	Active                     bool
	LastRun, NextRun           string
}

// metricCell is one metric of both sides.
type metricCell struct {
	Name  string
	Ratio string // candidate / reference
	State string // CSS class of its judgement; empty when it has none
}

// shownMetrics are the ones that fit on the page.
var shownMetrics = []probes.RegressionMetric{
	probes.MetricTTFTp50, probes.MetricTPOTp50, probes.MetricE2Ep50, probes.MetricOutputThroughput, probes.MetricSuccessRatio,
}

// answerStates are the words of the page for answers.
var answerStates = map[probes.GateAnswer]string{
	probes.GatePass: "pass", probes.GateRegressed: "fail", probes.GateInconclusive: "unknown",
	probes.GateUndecided: "unknown", probes.GateInvalid: "unknown",
}

func newComparisonRow(c *probes.ComparisonStatus, status Status) comparisonRow {
	r := comparisonRow{
		Name: c.Name, Reference: c.Reference, Candidate: c.Candidate, State: "waiting", Active: c.Active,
		Pairs: dash, LastRun: "never", NextRun: nextRun(status.Paused, c.Active, c.NextStart, status.Now),
	}
	if c.Last != nil {
		r.LastRun = fmt.Sprintf("%s, %s ago", c.Last.Result, span(status.Now.Sub(c.LastCompletion)))
		r.State, r.Reasons = "unknown", reasons(c.Last)
	}
	found := probes.Comparison{}
	if c.Result != nil {
		found = *c.Result.Comparison
		r.State = cmp.Or(answerStates[found.Answer], "unknown")
		r.Pairs = fmt.Sprintf("%d of %d", found.Used, found.Pairs)
	}
	for _, metric := range shownMetrics {
		cell := metricCell{Name: string(metric), Ratio: dash}
		if contrast, ok := found.Contrast(metric); ok {
			if ratio, known := contrast.Ratio.Get(); known {
				cell.Ratio = fmt.Sprintf("%.3f", ratio)
			}
		}
		if judgement, ok := found.Judgement(metric); ok {
			cell.State = answerStates[judgement.Answer]
		}
		r.Metrics = append(r.Metrics, cell)
	}
	return r
}

// comparisonJSON is one comparison on /api/v1/comparisons. Differences are in the
// unit that the name of the metric ends with.
type comparisonJSON struct {
	Name           string                    `json:"name"`
	Reference      string                    `json:"reference"`
	Candidate      string                    `json:"candidate"`
	Active         bool                      `json:"active"`
	NextStart      *time.Time                `json:"next_start"`
	LastCompletion *time.Time                `json:"last_completion"`
	StaleAfter     float64                   `json:"stale_after_seconds"`
	Skips          map[probes.SkipReason]int `json:"skips,omitempty"`
	LastRun        *runJSON                  `json:"last_run"`
	Result         *comparedJSON             `json:"result"`
}

type comparedJSON struct {
	RunID       string            `json:"run_id"`
	CompletedAt time.Time         `json:"completed_at"`
	Pairs       int               `json:"pairs"`
	Used        int               `json:"pairs_used"`
	Answer      probes.GateAnswer `json:"answer,omitempty"`
	Validity    probes.Validity   `json:"validity"`
	Metrics     []contrastJSON    `json:"metrics"`
	Judgements  []judgementJSON   `json:"judgements,omitempty"`
}

type contrastJSON struct {
	Name       string                   `json:"name"`
	N          int                      `json:"n"`
	Reference  float64                  `json:"reference"`
	Candidate  float64                  `json:"candidate"`
	Difference float64                  `json:"difference"`
	Ratio      probes.Optional[float64] `json:"ratio"`
}

type judgementJSON struct {
	Metric  probes.RegressionMetric  `json:"metric"`
	Answer  probes.GateAnswer        `json:"answer"`
	Primary bool                     `json:"primary"`
	Margin  float64                  `json:"margin"`
	Effect  probes.Optional[float64] `json:"effect"`
	Low     probes.Optional[float64] `json:"low"`
	High    probes.Optional[float64] `json:"high"`
}

func newComparisonsJSON(list []probes.ComparisonStatus) []comparisonJSON {
	out := make([]comparisonJSON, 0, len(list))
	for i := range list {
		c := &list[i]
		j := comparisonJSON{
			Name: c.Name, Reference: c.Reference, Candidate: c.Candidate, Active: c.Active,
			StaleAfter: c.StaleAfter.Seconds(), Skips: c.Skips,
		}
		if !c.NextStart.IsZero() {
			j.NextStart = &c.NextStart
		}
		if r := c.Last; r != nil {
			j.LastCompletion, j.LastRun = &c.LastCompletion, newRunJSON(r)
		}
		if r := c.Result; r != nil {
			j.Result = newComparedJSON(r)
		}
		out = append(out, j)
	}
	return out
}

func newComparedJSON(r *probes.Run) *comparedJSON {
	found := r.Comparison
	out := &comparedJSON{
		RunID: r.ID, CompletedAt: r.End, Pairs: found.Pairs, Used: found.Used, Answer: found.Answer, Validity: r.Validity,
		Metrics: []contrastJSON{},
	}
	for _, m := range found.Metrics {
		out.Metrics = append(out.Metrics, contrastJSON(m))
	}
	for i := range found.Judgements {
		v := &found.Judgements[i]
		out.Judgements = append(out.Judgements, judgementJSON{v.Metric, v.Answer, v.Primary, v.Margin, v.Effect, v.Low, v.High})
	}
	return out
}
