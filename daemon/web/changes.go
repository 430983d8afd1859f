package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// changeRow is one metric beside its nights, as finished text.
type changeRow struct {
	Metric   string
	State    string // CSS class
	Word     string
	Effect   string
	Interval string
	Baseline string
	Nights   int
	Since    string
	Smallest string
	Server   string // what it calls itself now and called itself before
}

// changeClasses are the colours of states. A series that learns is no worry.
var changeClasses = map[probes.ChangeState]string{
	probes.ChangeNone: "pass", probes.ChangeBetter: "pass", probes.ChangeSuspected: "warn", probes.ChangeWorse: "fail",
	probes.ChangeDrift: "warn", probes.ChangeUnstable: "unknown", probes.ChangeLearning: "waiting",
}

func newChangeRows(changes []probes.Change) []changeRow {
	out := make([]changeRow, 0, len(changes))
	for i := range changes {
		c := &changes[i]
		r := changeRow{
			Metric: string(c.Metric), State: changeClasses[c.State], Word: string(c.State), Effect: signed(c.Effect), Interval: dash,
			Baseline: baseline(c), Nights: c.BaselineRuns, Since: dash, Smallest: dash,
		}
		if low, ok := c.Low.Get(); ok {
			r.Interval = fmt.Sprintf("%+.1f … %+.1f %%", 100*low, 100*c.High.Or(0))
		}
		if !c.Onset.IsZero() {
			r.Since = c.Onset.UTC().Format(time.DateOnly)
		}
		if step, ok := c.SmallestStep.Get(); ok {
			r.Smallest = fmt.Sprintf("%.1f %%", 100*step)
		}
		var renamed []string
		for _, f := range c.Renamed {
			renamed = append(renamed, f.String())
		}
		r.Server = strings.Join(renamed, ", ")
		out = append(out, r)
	}
	return out
}

// changedText counts what is not as it was.
func changedText(changes []probes.Change) string {
	changed, learning := 0, 0
	for i := range changes {
		switch changes[i].State {
		case probes.ChangeNone:
		case probes.ChangeLearning:
			learning++
		default:
			changed++
		}
	}
	text := fmt.Sprintf("%d of %d metrics changed over nights", changed, len(changes))
	if learning > 0 {
		text += fmt.Sprintf(", %d not yet known", learning)
	}
	return text
}

// signed is a share of which positive is worse.
func signed(share probes.Optional[float64]) string {
	v, ok := share.Get()
	if !ok {
		return dash
	}
	return fmt.Sprintf("%+.1f %%", 100*v)
}

// baseline is a level in the unit that people read the metric in.
func baseline(c *probes.Change) string {
	v, ok := c.Baseline.Get()
	if !ok {
		return dash
	}
	switch c.Metric {
	case probes.MetricTTFTp50, probes.MetricTTFTp99, probes.MetricTPOTp50, probes.MetricTPOTp99, probes.MetricE2Ep50:
		return millis(c.Baseline)
	case probes.MetricSuccessRatio, probes.MetricPrefixCacheHits:
		return percent(v)
	case probes.MetricOutputThroughput:
		return number(v) + " tok/s"
	case probes.MetricRequestThroughput, probes.MetricCapacity:
		return number(v) + " req/s"
	}
	return number(v)
}

// changeJSON is one metric beside its nights on /api/v1/pairs. Effects are shares of the
// baseline, of which positive is worse.
type changeJSON struct {
	Metric       probes.RegressionMetric  `json:"metric"`
	State        probes.ChangeState       `json:"state"`
	Effect       probes.Optional[float64] `json:"effect"`
	Low          probes.Optional[float64] `json:"low"`
	High         probes.Optional[float64] `json:"high"`
	Baseline     probes.Optional[float64] `json:"baseline"`
	Nights       int                      `json:"baseline_nights"`
	BaselineAt   *time.Time               `json:"baseline_at"`
	Onset        *time.Time               `json:"onset"`
	SmallestStep probes.Optional[float64] `json:"smallest_step"`
	Server       []factJSON               `json:"server_changed,omitempty"`
	Reasons      []probes.Reason          `json:"reasons,omitempty"`
}

type factJSON struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

func newChangesJSON(changes []probes.Change) []changeJSON {
	var out []changeJSON
	for i := range changes {
		c := &changes[i]
		j := changeJSON{
			Metric: c.Metric, State: c.State, Effect: c.Effect, Low: c.Low, High: c.High, Baseline: c.Baseline,
			Nights: c.BaselineRuns, BaselineAt: instant(c.BaselineAt), Onset: instant(c.Onset), SmallestStep: c.SmallestStep, Reasons: c.Reasons,
		}
		for _, f := range c.Renamed {
			j.Server = append(j.Server, factJSON(f))
		}
		out = append(out, j)
	}
	return out
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
