package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// variable is something that has to be equal on both sides.
type variable struct {
	name string
	// essential: when neither side tells it, a reader has to be told that.
	essential bool
	// of gives the ways to say it, the best first; an empty one is not known. Sides are
	// compared by the first way that both have, since a path and a name of one
	// checkpoint are not two checkpoints.
	of func(*probes.Run) []string
}

// variables are in the order in which differences are told.
var variables = []variable{
	{"model", true, func(r *probes.Run) []string { return []string{r.Facts.Weights, r.Facts.Model, r.Target.Model} }},
	{"revision", false, func(r *probes.Run) []string { return []string{r.Facts.Revision} }},
	{"quantization", true, fact(func(f *probes.ServerFacts) string { return f.Quantization })},
	{"accelerator", true, func(r *probes.Run) []string { return []string{r.Facts.Accelerator, r.Target.Labels["gpu"]} }},
	{"dtype", true, fact(func(f *probes.ServerFacts) string { return f.DType })},
	{"kv_cache_dtype", false, fact(func(f *probes.ServerFacts) string { return f.KVCacheDType })},
	{"tensor_parallel", true, fact(func(f *probes.ServerFacts) string { return known(f.TensorParallel) })},
	{"pipeline_parallel", false, fact(func(f *probes.ServerFacts) string { return known(f.PipelineParallel) })},
	{"data_parallel", false, fact(func(f *probes.ServerFacts) string { return known(f.DataParallel) })},
	{"expert_parallel", false, fact(func(f *probes.ServerFacts) string { return known(f.ExpertParallel) })},
	{"attention_backend", true, fact(func(f *probes.ServerFacts) string { return f.AttentionBackend })},
	{"speculative", false, fact(speculative)},
	{"prefix_caching", false, fact(func(f *probes.ServerFacts) string { return known(f.PrefixCaching) })},
	{"dataset", true, dataset},
	{"dataset_version", false, func(r *probes.Run) []string { return []string{r.WorkloadVersion} }},
	{"requests", true, asked(amountOf)},
	{"rate", true, rate},
	{"concurrency", true, asked(func(r *probes.Run) string { return bound(r.Spec.Arrivals.MaxConcurrency) })},
	{"warmup", true, own(warmup)},
	{"cache", true, own(cache)},
	{"sampling", true, own(sampling)},
	{"connection", false, own(connection)},
	{"tool", false, func(r *probes.Run) []string { return []string{tool(r)} }},
}

// Variables are the names of the controlled variables.
func Variables() []string {
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.name
	}
	return names
}

// Controls lays the controlled variables of two sides beside each other. It returns
// those that are not known to be equal, and the names of the important ones that
// neither side tells. Where runs of one side differ among themselves, their values
// stand together.
func Controls(reference, candidate []*probes.Run, vary []string) (differ []probes.Control, unverified []string) {
	for _, v := range variables {
		a, b := v.both(reference, candidate)
		switch {
		case a == "" && b == "":
			if v.essential {
				unverified = append(unverified, v.name)
			}
		case a != b:
			differ = append(differ, probes.Control{Variable: v.name, Reference: a, Candidate: b, Varied: slices.Contains(vary, v.name)})
		}
	}
	return differ, unverified
}

// both are the values of the sides, in the first way that both have.
func (v *variable) both(reference, candidate []*probes.Run) (a, b string) {
	x, y := v.side(reference), v.side(candidate)
	for i := range x {
		if x[i] != "" && y[i] != "" {
			return x[i], y[i]
		}
	}
	first := func(ways []string) string {
		i := slices.IndexFunc(ways, func(s string) bool { return s != "" })
		if i < 0 {
			return ""
		}
		return ways[i]
	}
	return first(x), first(y)
}

// side is what the runs of a side say, each way on its own. The last way is always
// the target's label of the variable's name, for what no server tells.
func (v *variable) side(runs []*probes.Run) []string {
	var ways [][]string
	for _, run := range runs {
		for i, value := range append(v.of(run), run.Target.Labels[v.name]) {
			if i == len(ways) {
				ways = append(ways, nil)
			}
			if value != "" && !slices.Contains(ways[i], value) {
				ways[i] = append(ways[i], value)
			}
		}
	}
	out := make([]string, len(ways))
	for i, values := range ways {
		out[i] = strings.Join(values, " and ")
	}
	return out
}

// controls fills the grounds in and reports whether a difference forbids to compare.
func (j *judge) controls() (forbidden bool) {
	var vary []string
	if j.Spec.Gate != nil {
		vary = j.Spec.Gate.Vary
	}
	j.grounds.Controls, j.grounds.Unverified = Controls(j.Reference, j.Candidate, vary)
	for _, c := range j.grounds.Controls {
		switch {
		case c.Varied:
		case c.Differs():
			forbidden = true
			j.reason(VariableDiffers, "%s differs: %s on side A and %s on side B; make them equal, or declare it to be what is compared", c.Variable, c.Reference, c.Candidate)
		case c.Reference == "":
			j.reason(VariableUnknown, "%s is %s on side B and not known on side A", c.Variable, c.Candidate)
		default:
			j.reason(VariableUnknown, "%s is %s on side A and not known on side B", c.Variable, c.Reference)
		}
	}
	return forbidden
}

func fact(of func(*probes.ServerFacts) string) func(*probes.Run) []string {
	return func(r *probes.Run) []string { return []string{of(&r.Facts)} }
}

// own is what only our own runs have written down.
func own(of func(*probes.Run) string) func(*probes.Run) []string {
	return func(r *probes.Run) []string {
		if r.Source != "" {
			return []string{""}
		}
		return []string{of(r)}
	}
}

// asked is what other tools write down too.
func asked(of func(*probes.Run) string) func(*probes.Run) []string {
	return func(r *probes.Run) []string { return []string{of(r)} }
}

func known[T comparable](o probes.Optional[T]) string {
	if !o.IsKnown() {
		return ""
	}
	return o.String()
}

func speculative(f *probes.ServerFacts) string {
	if n, ok := f.SpeculativeTokens.Get(); ok && f.SpeculativeAlgorithm != "" && n > 0 {
		return fmt.Sprintf("%s, %d tokens", f.SpeculativeAlgorithm, n)
	}
	return f.SpeculativeAlgorithm
}

// dataset has a way with everything that shapes the requests, and one with what other
// tools write down of it. Where its file lies is in neither.
func dataset(r *probes.Run) []string {
	w := &r.Spec.Workload
	if w.Dataset == "" || w.Dataset == "unknown" { // the word of tools that do not write it down
		return []string{"", ""}
	}
	parts := []string{w.Dataset}
	add := func(holds bool, format string, args ...any) {
		if holds {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(w.Path != "", "%s", filepath.Base(w.Path))
	add(w.InputTokens > 0 || w.OutputTokens > 0, "%d in, %d out", w.InputTokens, w.OutputTokens)
	plain := strings.Join(parts, ", ")
	if r.Source != "" {
		return []string{"", plain}
	}
	add(w.RangeRatio != 0, "range ratio %s", number(w.RangeRatio))
	add(w.FixedOutputTokens > 0, "output fixed to %d", w.FixedOutputTokens)
	add(w.ContextTokens > 0, "at most %d together", w.ContextTokens)
	g, i := w.Groups, w.Images
	add(g.Count > 0, "%d groups of %d, %d+%d in, %d out", g.Count, g.PromptsOfEach, g.SystemTokens, g.QuestionTokens, g.OutputTokens)
	add(i.Count > 0, "%d images %s %s", i.Count, i.Resolution, i.Format)
	add(true, "seed %d", w.Seed)
	return []string{strings.Join(parts, ", "), plain}
}

func amountOf(r *probes.Run) string {
	switch s := &r.Spec; {
	case s.Requests > 0 && s.Duration > 0:
		return fmt.Sprintf("%d within %s", s.Requests, s.Duration)
	case s.Duration > 0:
		return s.Duration.String()
	case s.Requests > 0:
		return strconv.Itoa(s.Requests)
	}
	return ""
}

// rate has its way with the shape of the gaps, which other tools do not write down,
// and one without it.
func rate(r *probes.Run) []string {
	a := &r.Spec.Arrivals
	var plain string
	switch a.Process {
	case "":
	case probes.ClosedLoop:
		plain = "closed loop"
	case probes.FromTrace:
		plain = "the trace's own times"
		if t := r.Spec.Workload.Trace; t.Slowdown != 0 && t.Slowdown != 1 {
			plain += " x " + number(t.Slowdown)
		}
	case probes.Burst:
		plain = "all at once"
	default:
		plain = number(a.Rate) + "/s"
	}
	if r.Source != "" || plain == "" {
		return []string{"", plain}
	}
	shaped := plain
	if a.OpenLoop() && a.Process != probes.Burst && a.Process != probes.FromTrace {
		shaped += " " + string(a.Process)
		if a.Process == probes.Gamma {
			shaped += " cv " + number(a.CV)
		}
	}
	if a.Ramp > 0 {
		shaped += fmt.Sprintf(", rising for %s", a.Ramp)
	}
	return []string{shaped, plain}
}

func bound(n int) string {
	if n == 0 {
		return "no bound"
	}
	return strconv.Itoa(n)
}

func warmup(r *probes.Run) string {
	var parts []string
	if n := r.Spec.Warmup.Requests; n > 0 {
		parts = append(parts, fmt.Sprintf("%d requests", n))
	}
	if d := r.Spec.Warmup.Duration; d > 0 {
		parts = append(parts, d.Round(time.Millisecond).String())
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func cache(r *probes.Run) string {
	if r.Spec.FlushCache {
		return string(r.Spec.Workload.Cache) + ", flushed"
	}
	return string(r.Spec.Workload.Cache)
}

func sampling(r *probes.Run) string {
	s := &r.Spec.Workload.Sampling
	parts := []string{"temperature " + number(s.Temperature)}
	if p, ok := s.TopP.Get(); ok {
		parts = append(parts, "top_p "+number(p))
	}
	if s.IgnoreEOS {
		parts = append(parts, "exact length")
	}
	if !s.Stream {
		parts = append(parts, "not streamed")
	}
	if s.LoRA != "" {
		parts = append(parts, "LoRA "+s.LoRA)
	}
	if len(s.ExtraBody) > 0 {
		text, err := json.Marshal(s.ExtraBody)
		if err != nil {
			text = []byte("extra body")
		}
		parts = append(parts, string(text))
	}
	return strings.Join(parts, ", ")
}

func connection(r *probes.Run) string {
	c := &r.Target.Connection
	if c.Protocol == "" || c.Protocol == probes.HTTP1 {
		return string(c.Policy)
	}
	return string(c.Policy) + ", " + string(c.Protocol)
}

func tool(r *probes.Run) string {
	if r.Source == "" {
		return "inferbeat"
	}
	return r.Source
}

func number(x float64) string {
	if math.IsInf(x, 1) {
		return "inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
