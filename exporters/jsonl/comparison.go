package jsonl

import (
	"encoding/json"
	"fmt"

	"github.com/inferbeat/inferbeat/probes"
)

// comparison lays the line's target, side B, beside side A. The line's other numbers
// are the medians of side B; the runs of both sides are its parts.
type comparison struct {
	Reference target              `json:"reference"`
	Pairs     int                 `json:"pairs"`
	Used      int                 `json:"used"`
	Judged    bool                `json:"judged"`
	Metrics   map[string]contrast `json:"metrics"`
	Gate      *gate               `json:"gate,omitempty"`
}

// contrast is in the unit that its metric's name ends with.
type contrast struct {
	N          int     `json:"n"`
	Reference  number  `json:"reference_median"`
	Candidate  number  `json:"candidate_median"`
	Difference number  `json:"median_difference"`
	Ratio      *number `json:"ratio"`
}

// gate is what the pairs say about the candidate.
type gate struct {
	Answer  probes.GateAnswer `json:"answer"`
	Reasons []probes.Reason   `json:"reasons"`
	Pairs   int               `json:"pairs"`
	Looks   []int             `json:"looks"`
	// Confidence is that of the intervals.
	Confidence  number               `json:"confidence"`
	Interleaved bool                 `json:"interleaved"`
	Metrics     map[string]judgement `json:"metrics"`
	Controls    []control            `json:"controlled_variables"`
	Unverified  []string             `json:"unverified_variables"`
}

// judgement has effects by which the candidate is worse, as shares of the reference,
// or for a ratio in points of it. Change is the same as the metric itself has moved.
type judgement struct {
	Answer     probes.GateAnswer `json:"answer"`
	Primary    bool              `json:"primary"`
	Better     string            `json:"better"`
	Unit       string            `json:"effect_unit"`
	N          int               `json:"n"`
	Reference  *number           `json:"reference_median"`
	Candidate  *number           `json:"candidate_median"`
	Change     *number           `json:"change"`
	Margin     number            `json:"margin"`
	Effect     *number           `json:"effect"`
	Low        *number           `json:"low"`
	High       *number           `json:"high"`
	Surely     *number           `json:"low_shared_by_primaries"`
	P          *number           `json:"p"`
	Detectable *number           `json:"detectable"`
}

// control is a variable that is not known to be equal; null is not known.
type control struct {
	Variable  string  `json:"variable"`
	Reference *string `json:"reference"`
	Candidate *string `json:"candidate"`
	Declared  bool    `json:"declared_to_vary"`
}

func newComparison(c *probes.Comparison) *comparison {
	if c == nil {
		return nil
	}
	out := &comparison{Reference: newTarget(&c.Reference), Pairs: c.Pairs, Used: c.Used, Judged: c.Answer != "", Metrics: map[string]contrast{}}
	for _, m := range c.Metrics {
		out.Metrics[m.Name] = contrast{m.N, number(m.Reference), number(m.Candidate), number(m.Difference), known(m.Ratio)}
	}
	if out.Judged {
		out.Gate = newGate(c)
	}
	return out
}

func newGate(c *probes.Comparison) *gate {
	g := &c.Grounds
	out := &gate{
		Answer: c.Answer, Reasons: append([]probes.Reason{}, g.Reasons...), Pairs: g.Pairs, Looks: append([]int{}, g.Looks...),
		Confidence: number(1 - 2*g.Alpha), Interleaved: !g.History, Metrics: map[string]judgement{},
		Controls: []control{}, Unverified: append([]string{}, g.Unverified...),
	}
	for i := range c.Judgements {
		out.Metrics[string(c.Judgements[i].Metric)] = newJudgement(&c.Judgements[i])
	}
	for _, v := range g.Controls {
		out.Controls = append(out.Controls, control{v.Variable, text(v.Reference), text(v.Candidate), v.Varied})
	}
	return out
}

func newJudgement(j *probes.Judgement) judgement {
	out := judgement{
		Answer: j.Answer, Primary: j.Primary, Better: "lower", Unit: "share", N: j.N, Margin: number(j.Margin), Effect: known(j.Effect),
		Low: known(j.Low), High: known(j.High), Surely: known(j.Surely), P: known(j.P), Detectable: known(j.Detectable),
	}
	if j.HigherBetter {
		out.Better = "higher"
	}
	if j.Points {
		out.Unit = "points"
	}
	if effect, ok := j.Effect.Get(); ok { // else one side has no median
		out.Reference, out.Candidate, out.Change = new(number(j.Reference)), new(number(j.Candidate)), new(number(j.Change(effect)))
	}
	return out
}

// gateLine is the answer of a gate on its own.
type gateLine struct {
	Version  string          `json:"version"`
	RunID    *string         `json:"run_id"`
	Exit     int             `json:"exit_status"`
	Error    *string         `json:"error"`
	Start    *string         `json:"start"`
	End      *string         `json:"end"`
	A        target          `json:"reference"`
	B        target          `json:"candidate"`
	Validity probes.Validity `json:"validity"`
	*gate
}

// EncodeGate writes the answer of a judged comparison as one JSON object, with the
// exit status that it leads to. A comparison that could not be carried out has an
// error and no answer.
func EncodeGate(run *probes.Run, exit int, version string) ([]byte, error) {
	c := run.Comparison
	line := gateLine{
		Version: version, RunID: text(run.ID), Exit: exit, Error: text(run.Error), Start: instant(run.Start), End: instant(run.End),
		A: newTarget(&c.Reference), B: newTarget(&run.Target), Validity: run.Validity,
	}
	if c.Answer != "" {
		line.gate = newGate(c)
	}
	out, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("encode gate of run %s: %w", run.ID, err)
	}
	return out, nil
}

func newTarget(t *probes.Target) target {
	return target{
		Name: t.Name, Pool: t.Pool, Environment: string(t.Environment), Site: text(t.Site), Backend: t.Backend,
		Model: text(t.Model), BaseURL: probes.PlainURL(t.BaseURL), Labels: t.Labels, Connection: string(t.Connection.Policy),
	}
}
