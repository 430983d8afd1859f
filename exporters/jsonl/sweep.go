package jsonl

import "github.com/inferbeat/inferbeat/probes"

// sweep is what a sweep found; rates are requests per second. The steps are in the order
// in which they were measured; each has a line of its own before this one.
type sweep struct {
	Capacity  *number `json:"capacity"`
	Low       *number `json:"low"`
	High      *number `json:"high"`
	Bracketed bool    `json:"bracketed"`
	Objective *string `json:"objective"`
	Safe      *number `json:"safe"`
	Bend      *number `json:"bend"`
	End       string  `json:"end"`
	Steps     []step  `json:"steps"`
}

type step struct {
	RunID      string             `json:"run_id"`
	Rate       number             `json:"rate"`
	Achieved   *number            `json:"achieved_rate"`
	Judged     int                `json:"judged"`
	Over       map[string]int     `json:"over"`
	Effect     map[string]float64 `json:"design_effect"`
	Passed     bool               `json:"passed"`
	Usable     bool               `json:"usable"`
	Aborted    bool               `json:"aborted"`
	Stationary bool               `json:"stationary"`
	TTFTp50    *number            `json:"ttft_from_due_p50_seconds"`
	TTFTp99    *number            `json:"ttft_from_due_p99_seconds"`
	TPOTMean   *number            `json:"tpot_mean_seconds"`
	Output     *number            `json:"output_tokens_per_second"`
	Queue      *number            `json:"server_queue_mean"`
}

func newSweep(run *probes.Run) *sweep {
	if run.Spec.Kind != probes.Sweep || run.Capacity.End == "" {
		return nil
	}
	c := &run.Capacity
	out := &sweep{
		Capacity: known(c.Rate), Low: known(c.Low), High: known(c.High), Bracketed: c.Bracketed, Objective: text(c.Objective),
		Safe: known(c.Safe), Bend: known(c.Bend), End: string(c.End), Steps: make([]step, len(run.Steps)),
	}
	for i := range run.Steps {
		s := &run.Steps[i]
		ttft := s.Summary.Distribution(probes.TTFTFromDue)
		out.Steps[i] = step{
			RunID: probes.StepID(run.ID, i), Rate: number(s.Rate), Achieved: known(s.Summary.AchievedRate), Judged: s.Judged, Over: s.Over,
			Effect: s.Effect, Passed: s.Passed, Usable: s.Usable(), Aborted: s.Aborted, Stationary: s.Stationary,
			TTFTp50: known(ttft.Get(probes.StatP50)), TTFTp99: known(ttft.Get(probes.StatP99)),
			TPOTMean: known(s.Summary.Distribution(probes.TPOT).Get(probes.StatMean)), Output: known(s.Summary.SustainedOutput()),
		}
		if s.Summary.Server.Queue.N > 0 {
			out.Steps[i].Queue = new(number(s.Summary.Server.Queue.Mean))
		}
	}
	return out
}
