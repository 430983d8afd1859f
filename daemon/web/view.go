package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// tooFewSamples is the code of reasons that say so.
const tooFewSamples = "too_few_samples"

// dash stands for what is not known.
const dash = "–"

type view struct {
	Status  Status
	Uptime  string
	Refresh int  // milliseconds; 0 never
	Kept    bool // runs have pages of their own
	Counts  []count
	Targets []targetView

	Comparisons []comparisonRow

	Judged bool // rules are evaluated here
	Alerts []alertRow
}

// showAlerts puts the alerts on the page.
func (v *view) showAlerts(alerts []Alert) {
	v.Judged = true
	slices.SortStableFunc(alerts, func(a, b Alert) int { return cmp.Compare(urgency(a), urgency(b)) })
	for i := range alerts {
		v.Alerts = append(v.Alerts, newAlertRow(&alerts[i], v.Status.Now))
	}
}

type count struct {
	Class string
	Label string
	N     int
}

type targetView struct {
	Name        string
	Environment probes.Environment
	Model       string
	Rows        []row
}

// row is one pair as finished text.
type row struct {
	Probe    string
	URL      string // of the pair's runs
	Kind     probes.Kind
	State    string // CSS class and word: pass, warn, fail, unknown, waiting
	Active   bool
	Reasons  []string
	Validity string
	TTFTp50  string
	TTFTp99  string
	TPOTp50  string
	E2Ep99   string
	Output   string
	Success  string
	Samples  string
	Tail     bool // too few samples for the p99
	LastRun  string
	NextRun  string
	// Changes are the metrics beside their nights, and Changed says in short what they say.
	Changes []changeRow
	Changed string
}

func newView(status Status, pairs []probes.PairStatus, compared []probes.ComparisonStatus, refresh time.Duration) view {
	v := view{Status: status, Refresh: int(refresh / time.Millisecond), Uptime: span(status.Now.Sub(status.Started))}
	for i := range compared {
		v.Comparisons = append(v.Comparisons, newComparisonRow(&compared[i], status))
	}
	tally := map[string]int{}
	for i := range pairs {
		r := newRow(&pairs[i], status.Now)
		tally[r.State]++
		p := pairs[i].Pair
		r.URL = pairURL(p.Target, p.Probe)
		if len(v.Targets) == 0 || v.Targets[len(v.Targets)-1].Name != p.Target {
			v.Targets = append(v.Targets, targetView{Name: p.Target, Environment: p.Environment, Model: p.Model})
		}
		last := &v.Targets[len(v.Targets)-1]
		last.Rows = append(last.Rows, r)
	}
	for _, state := range []string{"fail", "warn", "unknown", "waiting", "pass"} {
		if tally[state] > 0 {
			v.Counts = append(v.Counts, count{state, state, tally[state]})
		}
	}
	return v
}

func newRow(p *probes.PairStatus, now time.Time) row {
	r := row{
		Probe: p.Pair.Probe, Kind: p.Kind, Active: p.Active, State: "waiting",
		TTFTp50: dash, TTFTp99: dash, TPOTp50: dash, E2Ep99: dash, Output: dash, Success: dash, Samples: dash,
		LastRun: "never", NextRun: nextRun(p.Paused, p.Active, p.NextStart, now),
	}
	if p.Held != nil && !p.Paused && !p.Active {
		r.NextRun = heldText(p.Held, now)
	}
	if p.Last != nil {
		r.LastRun = fmt.Sprintf("%s, %s ago", p.Last.Result, span(now.Sub(p.LastCompletion)))
		if p.Unstored {
			r.LastRun += ", not stored"
		}
		r.State = string(p.Last.Verdict.State)
		r.Reasons = reasons(p.Last)
	}
	if p.Result != nil {
		fillResult(&r, p.Result)
	}
	if p.Result != nil && p.Kind == probes.Sweep {
		fillSweep(&r, p.Result)
	}
	r.Reasons = append(r.Reasons, texts(p.Peers)...)
	if len(p.Changes) > 0 {
		r.Changes, r.Changed = newChangeRows(p.Changes), changedText(p.Changes)
	}
	// The last run speaks before the standing result: a target that has just
	// gone down must not look well because of what it did before.
	if p.Last != nil && (p.Last.Result == probes.RunFailed || p.Last.Result == probes.RunInvalid) {
		r.State = string(p.Last.Verdict.State)
		r.Reasons = reasons(p.Last)
	}
	return r
}

// heldText says how long runs do not start, and for whose sake.
func heldText(h *probes.Hold, now time.Time) string {
	why := "token budget of the day"
	if h.Reason == probes.SkipRetryAfter {
		why = "the server's Retry-After"
	}
	return fmt.Sprintf("held for %s: %s", span(h.Until.Sub(now)), why)
}

// nextRun is when a run comes, or why none does; a zero time is not known.
func nextRun(paused, active bool, at, now time.Time) string {
	switch {
	case paused:
		return "paused"
	case active:
		return "running"
	case !at.IsZero():
		return "in " + span(at.Sub(now))
	}
	return dash
}

func fillResult(r *row, res *probes.Result) {
	s := &res.Summary
	r.State = string(res.Verdict.State)
	r.Reasons = texts(append(slices.Clip(res.Verdict.Reasons), res.Validity.Reasons...))
	if res.Validity.State != probes.Valid {
		r.Validity = string(res.Validity.State)
	}
	ttft := s.Distribution(probes.TTFT)
	r.TTFTp50 = millis(ttft.Get(probes.StatP50))
	r.TTFTp99 = millis(ttft.Get(probes.StatP99))
	r.Tail = ttft.N > 0 && !ttft.Enough(probes.StatP99)
	r.TPOTp50 = millis(s.Distribution(probes.TPOT).Get(probes.StatP50))
	r.E2Ep99 = millis(s.Distribution(probes.E2E).Get(probes.StatP99))
	r.Samples = strconv.Itoa(ttft.N)
	if v, ok := s.OutputThroughput.Get(); ok {
		r.Output = number(v) + " tok/s"
	}
	if v, ok := s.SuccessRatio.Get(); ok {
		r.Success = percent(v)
	}
}

// fillSweep shows the capacity where other kinds show their throughput.
func fillSweep(r *row, res *probes.Result) {
	r.Samples = strconv.Itoa(res.Summary.Requests)
	c := &res.Capacity
	rate, ok := c.Rate.Get()
	switch {
	case ok && c.Bracketed:
		r.Output = number(rate) + " req/s"
	case ok:
		r.Output = "≥ " + number(rate) + " req/s"
	}
}

func reasons(run *probes.Run) []string {
	out := texts(append(slices.Clip(run.Verdict.Reasons), run.Validity.Reasons...))
	if run.Error != "" && !slices.Contains(out, run.Error) {
		out = append([]string{run.Error}, out...)
	}
	return out
}

// texts gives the sentences, those of one code in one line: that several limits
// wait for samples is one thing to know.
func texts(reasons []probes.Reason) []string {
	out := make([]string, 0, len(reasons))
	line := map[string]int{}
	more := map[string]int{}
	for _, r := range reasons {
		if _, seen := line[r.Code]; seen && r.Code == tooFewSamples {
			more[r.Code]++
			continue
		}
		line[r.Code] = len(out)
		out = append(out, r.Text)
	}
	for code, n := range more {
		out[line[code]] += fmt.Sprintf(" (and %d more like it)", n)
	}
	return out
}

// percent never rounds a failure away: 99.96 % is not 100 %.
func percent(v float64) string {
	text := strconv.FormatFloat(math.Floor(v*1000)/10, 'f', -1, 64)
	return text + " %"
}

func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func millis(v probes.Optional[float64]) string {
	seconds, ok := v.Get()
	if !ok {
		return dash
	}
	if seconds >= 10 {
		return number(seconds) + " s"
	}
	return number(seconds*1000) + " ms"
}

// span writes a duration with one unit, as one would say it.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// pairJSON is one pair on /api/v1/pairs. Times are RFC 3339; latencies seconds.
type pairJSON struct {
	Target      string                                 `json:"target"`
	Pool        string                                 `json:"pool"`
	Environment probes.Environment                     `json:"target_env"`
	Model       string                                 `json:"model"`
	Probe       string                                 `json:"probe"`
	Kind        probes.Kind                            `json:"kind"`
	Active      bool                                   `json:"active"`
	Paused      bool                                   `json:"paused"`
	NextStart   *time.Time                             `json:"next_start"`
	Held        *heldJSON                              `json:"held,omitempty"`
	LastRun     *runJSON                               `json:"last_run"`
	Result      *resultJSON                            `json:"result"`
	Latency     map[probes.Signal]*probes.Distribution `json:"latency_seconds,omitempty"`
	Changes     []changeJSON                           `json:"changes,omitempty"`
	Peers       []probes.Reason                        `json:"peers,omitempty"`
}

// heldJSON is why runs do not start, and until when.
type heldJSON struct {
	Reason probes.SkipReason `json:"reason"`
	Until  time.Time         `json:"until"`
}

type runJSON struct {
	ID          string                 `json:"id"`
	Start       time.Time              `json:"start"`
	End         time.Time              `json:"end"`
	Result      probes.RunResult       `json:"result"`
	Error       string                 `json:"error,omitempty"`
	Outcomes    map[probes.Outcome]int `json:"outcomes,omitempty"`
	Verdict     probes.Verdict         `json:"verdict"`
	Validity    probes.Validity        `json:"validity"`
	Fingerprint string                 `json:"fingerprint,omitempty"`
	Unstored    bool                   `json:"unstored,omitempty"` // the store could not write it so far
}

func newRunJSON(r *probes.Run) *runJSON {
	return &runJSON{ID: r.ID, Start: r.Start, End: r.End, Result: r.Result, Error: r.Error, Outcomes: r.Summary.Outcomes,
		Verdict: r.Verdict, Validity: r.Validity, Fingerprint: r.Fingerprint}
}

type resultJSON struct {
	CompletedAt      time.Time                `json:"completed_at"`
	Verdict          probes.Verdict           `json:"verdict"`
	Validity         probes.Validity          `json:"validity"`
	Traps            []probes.Reason          `json:"traps,omitempty"`
	SuccessRatio     probes.Optional[float64] `json:"success_ratio"`
	OutputThroughput probes.Optional[float64] `json:"output_tokens_per_second"`
	Requests         int                      `json:"requests"`
	Completed        int                      `json:"completed"`
	Capacity         *capacityJSON            `json:"capacity,omitempty"`
}

// capacityJSON is what a sweep found, in requests per second.
type capacityJSON struct {
	Rate      probes.Optional[float64] `json:"rate"`
	Low       probes.Optional[float64] `json:"low"`
	High      probes.Optional[float64] `json:"high"`
	Safe      probes.Optional[float64] `json:"safe"`
	Bracketed bool                     `json:"bracketed"`
	Objective string                   `json:"objective"`
}

func newCapacityJSON(c probes.Capacity) *capacityJSON {
	return &capacityJSON{c.Rate, c.Low, c.High, c.Safe, c.Bracketed, c.Objective}
}

func newPairsJSON(pairs []probes.PairStatus) []pairJSON {
	out := make([]pairJSON, 0, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		j := pairJSON{
			Target: p.Pair.Target, Pool: p.Pair.Pool, Environment: p.Pair.Environment, Model: p.Pair.Model,
			Probe: p.Pair.Probe, Kind: p.Kind, Active: p.Active, Paused: p.Paused,
			Changes: newChangesJSON(p.Changes), Peers: p.Peers,
		}
		if !p.NextStart.IsZero() {
			j.NextStart = &p.NextStart
		}
		if h := p.Held; h != nil {
			j.Held = &heldJSON{h.Reason, h.Until}
		}
		if r := p.Last; r != nil {
			j.LastRun = newRunJSON(r)
			j.LastRun.Unstored = p.Unstored
		}
		if r := p.Result; r != nil {
			j.Result = &resultJSON{
				CompletedAt: r.CompletedAt, Verdict: r.Verdict, Validity: r.Validity, Traps: r.Traps,
				SuccessRatio: r.Summary.SuccessRatio, OutputThroughput: r.Summary.OutputThroughput,
				Requests: r.Summary.Requests, Completed: r.Summary.Completed,
			}
			if p.Kind == probes.Sweep {
				j.Result.Capacity = newCapacityJSON(r.Capacity)
			}
			j.Latency = map[probes.Signal]*probes.Distribution{}
			for signal, d := range r.Summary.Latency {
				j.Latency[signal] = &d
			}
		}
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b pairJSON) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Probe, b.Probe))
	})
	return out
}
