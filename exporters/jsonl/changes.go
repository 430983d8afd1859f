package jsonl

import "github.com/inferbeat/inferbeat/probes"

// change is a metric beside the nights before the run. Effects are shares of the
// baseline, of which positive is worse.
type change struct {
	Metric       probes.RegressionMetric `json:"metric"`
	State        probes.ChangeState      `json:"state"`
	Effect       *number                 `json:"effect"`
	Low          *number                 `json:"low"`
	High         *number                 `json:"high"`
	Baseline     *number                 `json:"baseline"` // in the metric's own unit
	Nights       int                     `json:"baseline_nights"`
	BaselineAt   *string                 `json:"baseline_at"`
	Onset        *string                 `json:"onset"`
	SmallestStep *number                 `json:"smallest_step"`
	Server       []factChange            `json:"server_changed,omitempty"`
	Reasons      []probes.Reason         `json:"reasons"`
}

type factChange struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

func newChanges(changes []probes.Change) []change {
	var out []change
	for i := range changes {
		c := &changes[i]
		line := change{
			Metric: c.Metric, State: c.State, Effect: known(c.Effect), Low: known(c.Low), High: known(c.High), Baseline: known(c.Baseline),
			Nights: c.BaselineRuns, BaselineAt: instant(c.BaselineAt), Onset: instant(c.Onset), SmallestStep: known(c.SmallestStep),
			Reasons: append([]probes.Reason{}, c.Reasons...),
		}
		for _, f := range c.Renamed {
			line.Server = append(line.Server, factChange(f))
		}
		out = append(out, line)
	}
	return out
}
