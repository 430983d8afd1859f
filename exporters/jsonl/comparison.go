package jsonl

import "github.com/inferbeat/inferbeat/probes"

// comparison lays the line's target, side B, beside side A. The line's other numbers
// are the medians of side B; the runs of both sides are its parts.
type comparison struct {
	Reference target              `json:"reference"`
	Pairs     int                 `json:"pairs"`
	Used      int                 `json:"used"`
	Judged    bool                `json:"judged"`
	Metrics   map[string]contrast `json:"metrics"`
}

// contrast is in the unit that its metric's name ends with.
type contrast struct {
	N          int     `json:"n"`
	Reference  number  `json:"reference_median"`
	Candidate  number  `json:"candidate_median"`
	Difference number  `json:"median_difference"`
	Ratio      *number `json:"ratio"`
}

func newComparison(c *probes.Comparison) *comparison {
	if c == nil {
		return nil
	}
	out := &comparison{Reference: newTarget(&c.Reference), Pairs: c.Pairs, Used: c.Used, Metrics: map[string]contrast{}}
	for _, m := range c.Metrics {
		out.Metrics[m.Name] = contrast{m.N, number(m.Reference), number(m.Candidate), number(m.Difference), known(m.Ratio)}
	}
	return out
}

func newTarget(t *probes.Target) target {
	return target{
		Name: t.Name, Pool: t.Pool, Environment: string(t.Environment), Site: text(t.Site), Backend: t.Backend,
		Model: text(t.Model), BaseURL: printable(t.BaseURL), Labels: t.Labels, Connection: string(t.Connection.Policy),
	}
}
