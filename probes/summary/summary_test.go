package summary

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

const ms = time.Millisecond

func known[T comparable](v T) probes.Optional[T] { return probes.Known(v) }

// answer is a completed streamed request: one chunk at each instant, with the
// number of tokens that tokens says (0: the chunk does not say).
func answer(due, sent time.Duration, n int, tokens int32, at ...time.Duration) probes.Record {
	r := probes.Record{
		Outcome: probes.OK, StatusCode: 200, Due: due, Sent: sent,
		FirstByte: known(at[0]), FirstToken: known(at[0]), FirstAnswer: known(at[0]),
		LastToken: known(at[len(at)-1]), End: known(at[len(at)-1]),
		RequestedInput: 100, RequestedOutput: n,
		OutputTokens: known(n), OutputSource: probes.TokensServer,
		Connection: probes.ConnectionTrace{Reused: true},
	}
	for _, t := range at {
		r.Chunks = append(r.Chunks, probes.Chunk{At: t, Tokens: tokens})
	}
	return r
}

func failure(o probes.Outcome, sent, end time.Duration) probes.Record {
	return probes.Record{Outcome: o, Due: sent, Sent: sent, End: known(end), RequestedInput: 100}
}

func every(from, step time.Duration, n int) []time.Duration {
	at := make([]time.Duration, n)
	for i := range at {
		at[i] = from + time.Duration(i)*step
	}
	return at
}

func summarize(records ...probes.Record) probes.Summary {
	return Summarize(Input{Spec: &probes.Spec{}, Records: records})
}

// approx compares statistics of decimal seconds, which binary fractions only near.
var approx = cmp.Options{
	cmpopts.EquateApprox(1e-12, 0),
	cmp.Comparer(func(a, b probes.Optional[float64]) bool {
		x, okX := a.Get()
		y, okY := b.Get()
		return okX == okY && (x == y || math.Abs(x-y) <= 1e-12*math.Abs(x))
	}),
}

func wantFloat(t *testing.T, name string, got, want probes.Optional[float64]) {
	t.Helper()
	if diff := cmp.Diff(want, got, approx); diff != "" {
		t.Errorf("%s = %v, want %v", name, got, want)
	}
}

func samples(t *testing.T, s *probes.Summary, want map[probes.Signal]int) {
	t.Helper()
	got := map[probes.Signal]int{}
	for signal, d := range s.Latency {
		got[signal] = d.N
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples per signal (-want +got):\n%s", diff)
	}
}

// TestOneRequest computes every field by hand.
func TestOneRequest(t *testing.T) {
	r := answer(0, 10*ms, 5, 1, 1010*ms, 1030*ms, 1050*ms, 1070*ms, 1090*ms)
	r.FirstAnswer = known(1050 * ms)
	r.End = known(2000 * ms) // [DONE] came late
	r.PromptTokens, r.CachedTokens = known(104), known(64)
	r.AcceptLength = known(2.5)
	r.Connection = probes.ConnectionTrace{Connect: known(15 * ms), TLS: known(45 * ms)}
	in := Input{
		Spec: &probes.Spec{SLOs: []probes.SLO{{
			Name: "fast", Objective: 0.99,
			Bounds: map[probes.Signal]time.Duration{probes.TTFT: time.Second, probes.TPOT: 20 * ms},
		}}},
		Records: []probes.Record{r}, Warmup: 3,
		OfferedRate: known(4.0), PlannedSpan: known(250 * ms),
	}
	one := func(x float64) probes.Distribution {
		return probes.Distribution{N: 1, Mean: x, Min: x, P50: x, P90: x, P95: x, P99: x, Max: x}
	}
	four := one(0.02)
	four.N = 4
	want := probes.Summary{
		Duration: 2 * time.Second,
		Requests: 1, Sent: 1, Completed: 1, Warmup: 3,
		Outcomes: map[probes.Outcome]int{probes.OK: 1},
		Flags:    map[string]int{},
		Latency: map[probes.Signal]probes.Distribution{
			probes.TTFT: one(1), probes.TTFTFromDue: one(1.01), probes.TTFTAfterConnect: one(0.94),
			probes.FirstAnswer: one(1.04), probes.TPOT: one(0.02), probes.ITL: four, probes.ChunkGap: four,
			probes.E2E: one(1.08), probes.E2EFromDue: one(1.09), probes.SendLag: one(0.01), probes.ConnectSetup: one(0.06),
		},
		InputTokens: known(104), InputSource: probes.TokensServer, CachedTokens: known(64),
		OutputTokens: known(5), OutputSource: probes.TokensServer,
		RequestThroughput: known(0.5), InputThroughput: known(52.0), OutputThroughput: known(2.5),
		TotalThroughput: known(54.5), PeakOutputThroughput: known(5.0),
		Concurrency: known(0.54), PeakConcurrency: 1,
		OfferedRate: known(4.0), AchievedRate: known(4.0), SuccessRatio: known(1.0),
		Goodput: known(0.5), SLOAttainment: map[string]float64{"fast": 1},
		Input:        probes.InputLengths{N: 1, MeanRequested: 100, MeanServer: 104, MaxDeviation: 0.04, Off: 1},
		AcceptLength: known(2.5), AcceptSource: probes.AcceptRequests,
		Client: probes.Client{Coalesced: known(0.0)},
	}
	if diff := cmp.Diff(want, Summarize(in), approx); diff != "" {
		t.Errorf("Summarize (-want +got):\n%s", diff)
	}
}

// TestTenValues has the percentiles of ten times to first token.
func TestTenValues(t *testing.T) {
	var records []probes.Record
	for _, ttft := range []time.Duration{10, 11, 12, 13, 14, 15, 16, 17, 18, 100} {
		records = append(records, answer(0, 0, 1, 1, ttft*ms))
	}
	s := summarize(records...)
	got := s.Distribution(probes.TTFT)
	want := probes.Distribution{
		N: 10, Mean: 0.0226, Stddev: 0.025916018212680747, Min: 0.010,
		P50: 0.0145, P90: 0.0262, P95: 0.0631, P99: 0.09262, Max: 0.1,
	}
	if diff := cmp.Diff(want, got, approx); diff != "" {
		t.Errorf("TTFT (-want +got):\n%s", diff)
	}
	if got.Enough(probes.StatP99) {
		t.Error("10 samples are enough for a p99, want not")
	}
}

// TestFirstTokenStaysOutOfTheGaps: a five-token answer that stopped early. The
// divisor of TPOT is what came, not the 128 that were asked for.
func TestFirstTokenStaysOutOfTheGaps(t *testing.T) {
	r := answer(0, 0, 5, 0, every(1000*ms, 20*ms, 5)...)
	r.RequestedOutput, r.FinishReason = 128, "stop"
	s := summarize(r)
	samples(t, &s, map[probes.Signal]int{
		probes.TTFT: 1, probes.TTFTFromDue: 1, probes.TTFTAfterConnect: 1, probes.FirstAnswer: 1,
		probes.TPOT: 1, probes.ChunkGap: 4, probes.E2E: 1, probes.E2EFromDue: 1, probes.SendLag: 1,
	})
	if got := s.Distribution(probes.TPOT).Mean; got != 0.02 {
		t.Errorf("TPOT = %v, want 0.02", got)
	}
	if d := s.Distribution(probes.ChunkGap); d.Mean != 0.02 || d.Max != 0.02 {
		t.Errorf("chunk gaps = %+v, want all 0.02", d)
	}
	if got := s.Distribution(probes.TTFT).Mean; got != 1 {
		t.Errorf("TTFT = %v, want 1", got)
	}
}

// TestFourTokensAChunk keeps per-token latency and chunk gap apart.
func TestFourTokensAChunk(t *testing.T) {
	r := answer(0, 0, 41, 4, every(100*ms, 40*ms, 11)...)
	r.Chunks[0].Tokens = 1
	s := summarize(r)
	itl, gap := s.Distribution(probes.ITL), s.Distribution(probes.ChunkGap)
	if itl.N != 40 || math.Abs(itl.Mean-0.01) > 1e-15 || gap.N != 10 || math.Abs(gap.Mean-0.04) > 1e-15 {
		t.Errorf("got ITL %d x %v, chunk gap %d x %v; want 40 x 0.01 and 10 x 0.04", itl.N, itl.Mean, gap.N, gap.Mean)
	}
	wantFloat(t, "output throughput", s.OutputThroughput, known(82.0))
	wantFloat(t, "peak output throughput", s.PeakOutputThroughput, known(41.0))
}

// TestGapsPoolRequestsThatDiffer: per-token latencies come from the requests
// that know them, chunk gaps from all.
func TestGapsPoolRequestsThatDiffer(t *testing.T) {
	one := answer(0, 0, 3, 1, every(100*ms, 10*ms, 3)...)
	four := answer(0, 0, 9, 4, every(100*ms, 40*ms, 3)...)
	four.Chunks[0].Tokens = 1
	silent := answer(0, 0, 4, 0, every(100*ms, 30*ms, 4)...)
	s := summarize(one, four, silent)
	if itl := s.Distribution(probes.ITL); itl.N != 10 || itl.Max != 0.01 {
		t.Errorf("ITL = %+v, want 10 samples of at most 0.01", itl)
	}
	if gap := s.Distribution(probes.ChunkGap); gap.N != 7 || gap.Max != 0.04 {
		t.Errorf("chunk gap = %+v, want 7 samples of at most 0.04", gap)
	}
}

func TestEveryRequestFails(t *testing.T) {
	var records []probes.Record
	for i := range 5 {
		at := time.Duration(i) * 100 * ms
		r := failure(probes.Connect, at, at+2*ms)
		r.Connection.Connect = known(2 * ms) // how long it took to be refused
		records = append(records, r)
	}
	s := Summarize(Input{Records: records, Spec: &probes.Spec{SLOs: []probes.SLO{{Name: "up", Objective: 0.9}}}})
	want := probes.Summary{
		Duration: 402 * ms, Requests: 5, Sent: 5, Failed: 5,
		Outcomes:          map[probes.Outcome]int{probes.Connect: 5},
		Flags:             map[string]int{},
		Latency:           map[probes.Signal]probes.Distribution{probes.SendLag: {N: 5}},
		RequestThroughput: known(0.0), PeakConcurrency: 1, SuccessRatio: known(0.0),
		Goodput: known(0.0), SLOAttainment: map[string]float64{"up": 0},
	}
	if diff := cmp.Diff(want, s, approx); diff != "" {
		t.Errorf("Summarize (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(s.Distribution(probes.TTFT))
	if err != nil || string(text) != "null" {
		t.Errorf("TTFT in JSON = %s, %v; want null", text, err)
	}
}

func TestNoRequest(t *testing.T) {
	want := probes.Summary{
		Outcomes: map[probes.Outcome]int{}, Flags: map[string]int{}, Latency: map[probes.Signal]probes.Distribution{},
	}
	if diff := cmp.Diff(want, summarize()); diff != "" {
		t.Errorf("Summarize (-want +got):\n%s", diff)
	}
}

// TestRefusingWorkLooksFast: one server serves all slowly, the other refuses 60
// of 100 within 5 ms.
func TestRefusingWorkLooksFast(t *testing.T) {
	spec := &probes.Spec{SLOs: []probes.SLO{{
		Name: "ttft", Objective: 0.99, Bounds: map[probes.Signal]time.Duration{probes.TTFT: 3 * time.Second},
	}}}
	var slow, refusing []probes.Record
	for i := range 100 {
		slow = append(slow, answer(0, 0, 2, 1, 2000*ms, 4000*ms))
		if i < 60 {
			refusing = append(refusing, failure(probes.HTTP5xx, 0, 5*ms))
		} else {
			refusing = append(refusing, answer(0, 0, 2, 1, 500*ms, 4000*ms))
		}
	}
	a := Summarize(Input{Spec: spec, Records: slow})
	b := Summarize(Input{Spec: spec, Records: refusing})

	if d := b.Distribution(probes.TTFT); d.N != 40 || d.Min != 0.5 || d.Max != 0.5 {
		t.Errorf("TTFT beside refusals = %+v, want 40 samples of 0.5", d)
	}
	if d := b.Distribution(probes.E2E); d.N != 40 || d.Min != 4 {
		t.Errorf("E2E beside refusals = %+v, want 40 samples of 4", d)
	}
	wantFloat(t, "success ratio", b.SuccessRatio, known(0.4))
	// Both runs last 4 s: 100 and 40 good requests.
	wantFloat(t, "goodput of the slow one", a.Goodput, known(25.0))
	wantFloat(t, "goodput of the refusing one", b.Goodput, known(10.0))
	if a.SLOAttainment["ttft"] != 1 || b.SLOAttainment["ttft"] != 0.4 {
		t.Errorf("attainment = %v and %v, want 1 and 0.4", a.SLOAttainment["ttft"], b.SLOAttainment["ttft"])
	}
}

// TestCutByTheWindow: A is completed with 100 tokens, B has 120 when time is up.
func TestCutByTheWindow(t *testing.T) {
	a := answer(0, 0, 100, 1, every(100*ms, 10*ms, 100)...)
	b := answer(4*time.Second, 4*time.Second, 120, 1, every(4100*ms, 40*ms, 120)...)
	b.Outcome, b.End = probes.Cancelled, known(10*time.Second)
	b.OutputTokens, b.OutputSource = probes.Optional[int]{}, ""
	window := Input{Spec: &probes.Spec{}, Start: known(time.Duration(0)), End: known(10 * time.Second)}

	window.Records = []probes.Record{a, b}
	s := Summarize(window)
	wantFloat(t, "output throughput", s.OutputThroughput, known(22.0))
	wantFloat(t, "request throughput", s.RequestThroughput, known(0.1))
	wantFloat(t, "input throughput", s.InputThroughput, known(10.0))
	wantFloat(t, "success ratio", s.SuccessRatio, known(1.0))
	wantFloat(t, "peak output throughput", s.PeakOutputThroughput, known(90.0)) // A's chunks from 100 to 990 ms
	if s.OutputTokens != known(220) || s.Completed != 1 || s.Cancelled != 1 || s.Failed != 0 || s.UnknownOutputs != 0 {
		t.Errorf("got output %v, completed %d, cancelled %d, failed %d, unknown %d; want 220, 1, 1, 0, 0",
			s.OutputTokens, s.Completed, s.Cancelled, s.Failed, s.UnknownOutputs)
	}
	if s.Duration != 10*time.Second {
		t.Errorf("duration = %v, want 10s", s.Duration)
	}
	for signal, d := range s.Latency {
		if per := map[probes.Signal]int{probes.ITL: 99, probes.ChunkGap: 99, probes.SendLag: 2}[signal]; d.N != max(per, 1) {
			t.Errorf("%s has %d samples, want %d", signal, d.N, max(per, 1))
		}
	}

	t.Run("chunks_of_unknown_size", func(t *testing.T) {
		silent := b
		silent.Chunks = nil
		for i := range 30 { // the run's other chunks held 4 tokens each
			silent.Chunks = append(silent.Chunks, probes.Chunk{At: 4100*ms + time.Duration(i)*ms})
		}
		fours := answer(0, 0, 100, 0, every(100*ms, 10*ms, 25)...)
		window.Records = []probes.Record{fours, silent}
		s := Summarize(window)
		wantFloat(t, "output throughput", s.OutputThroughput, known(22.0))
		wantFloat(t, "peak output throughput", s.PeakOutputThroughput, known(120.0))
	})
	t.Run("chunks_after_the_window", func(t *testing.T) {
		late := b
		late.Chunks = slices.Clone(b.Chunks)
		for i := 60; i < 120; i++ {
			late.Chunks[i].At = 10*time.Second + time.Duration(i)
		}
		window.Records = []probes.Record{a, late}
		wantFloat(t, "output throughput", Summarize(window).OutputThroughput, known(16.0))
	})
	t.Run("nothing_delivered", func(t *testing.T) {
		silent := b
		silent.Chunks = nil
		window.Records = []probes.Record{silent}
		s := Summarize(window)
		wantFloat(t, "output throughput", s.OutputThroughput, known(0.0))
		wantFloat(t, "peak output throughput", s.PeakOutputThroughput, probes.Optional[float64]{})
	})
	t.Run("one_body_and_an_unknown_rest", func(t *testing.T) {
		whole, silent := a, b
		whole.Chunks, whole.Flags = nil, probes.NotStreamed
		silent.Chunks = []probes.Chunk{{At: 5 * time.Second}}
		window.Records = []probes.Record{whole, silent}
		s := Summarize(window)
		wantFloat(t, "output throughput", s.OutputThroughput, probes.Optional[float64]{})
		if s.OutputTokens != known(100) {
			t.Errorf("output = %v, want 100", s.OutputTokens)
		}
	})
	t.Run("chunks_before_the_window", func(t *testing.T) {
		later := window
		later.Start, later.Records = known(500*ms), []probes.Record{a}
		wantFloat(t, "peak output throughput", Summarize(later).PeakOutputThroughput, known(60.0)) // 500 to 1090 ms
	})
	t.Run("nothing_to_estimate_from", func(t *testing.T) {
		silent := b
		silent.Chunks = []probes.Chunk{{At: 5 * time.Second}}
		window.Records = []probes.Record{silent}
		s := Summarize(window)
		if s.OutputTokens.IsKnown() || s.OutputThroughput.IsKnown() {
			t.Errorf("output = %v, %v tok/s; want unknown", s.OutputTokens, s.OutputThroughput)
		}
	})
}

// TestInputLengths: 1000 tokens asked, four other lengths served.
func TestInputLengths(t *testing.T) {
	var records []probes.Record
	for _, n := range []int{1000, 1013, 1061, 1042} {
		r := answer(0, 0, 16, 1, every(100*ms, 10*ms, 16)...)
		r.RequestedInput, r.PromptTokens = 1000, known(n)
		records = append(records, r)
	}
	s := summarize(records...)
	want := probes.InputLengths{N: 4, MeanRequested: 1000, MeanServer: 1029, MaxDeviation: 0.061, Off: 3}
	if diff := cmp.Diff(want, s.Input); diff != "" {
		t.Errorf("input lengths (-want +got):\n%s", diff)
	}
	if s.InputTokens != known(4116) || s.InputSource != probes.TokensServer {
		t.Errorf("input = %v %s, want 4116 server", s.InputTokens, s.InputSource)
	}
	for _, edit := range []func(*probes.Record){
		func(r *probes.Record) { r.Images = 1 },                            // the text alone was asked for
		func(r *probes.Record) { r.RequestedInput = 0 },                    // nothing was asked for
		func(r *probes.Record) { r.PromptTokens = probes.Optional[int]{} }, // the server does not say
	} {
		r := answer(0, 0, 16, 1, every(100*ms, 10*ms, 16)...)
		r.RequestedInput, r.PromptTokens = 1000, known(3000)
		edit(&r)
		records = append(records, r)
	}
	if diff := cmp.Diff(want, inputLengths(records)); diff != "" {
		t.Errorf("input lengths with requests that say nothing of them (-want +got):\n%s", diff)
	}
}

func TestInputWithoutServerCount(t *testing.T) {
	counted := answer(0, 0, 1, 1, 100*ms)
	counted.PromptTokens = known(110)
	silent := answer(0, 0, 1, 1, 100*ms)
	for _, tt := range []struct {
		workload probes.Workload
		want     probes.TokenSource
	}{
		{probes.Workload{Tokenizer: "approx"}, probes.TokensApprox},
		{probes.Workload{Tokenizer: "approx", TokenIDs: true}, probes.TokensClient},
		{probes.Workload{Tokenizer: "server"}, probes.TokensClient},
	} {
		s := Summarize(Input{Spec: &probes.Spec{Workload: tt.workload}, Records: []probes.Record{counted, silent}})
		if s.InputTokens != known(210) || s.InputSource != tt.want || s.Input.N != 1 {
			t.Errorf("%+v: input = %v %s of %d compared, want 210 %s of 1", tt.workload, s.InputTokens, s.InputSource, s.Input.N, tt.want)
		}
	}
}

// TestUnknownOutput: a sum that lacks a term must not become a rate.
func TestUnknownOutput(t *testing.T) {
	a := answer(0, 0, 10, 1, every(100*ms, 100*ms, 10)...)
	b := answer(0, 0, 10, 0, every(100*ms, 100*ms, 10)...)
	b.OutputTokens, b.OutputSource = probes.Optional[int]{}, ""
	s := summarize(a, b)
	if s.OutputTokens != known(10) || s.UnknownOutputs != 1 || s.OutputSource != probes.TokensServer {
		t.Errorf("output = %v (%s), %d unknown; want 10 (server), 1 unknown", s.OutputTokens, s.OutputSource, s.UnknownOutputs)
	}
	none := probes.Optional[float64]{}
	wantFloat(t, "output throughput", s.OutputThroughput, none)
	wantFloat(t, "total throughput", s.TotalThroughput, none)
	wantFloat(t, "peak output throughput", s.PeakOutputThroughput, none)
	wantFloat(t, "request throughput", s.RequestThroughput, known(2.0))
	if s := summarize(b); s.OutputTokens.IsKnown() {
		t.Errorf("output = %v, want unknown", s.OutputTokens)
	}
}

// TestSilentChunks: what the talking chunks leave of ten tokens is shared by the
// silent ones, and only those of the first second are in the peak.
func TestSilentChunks(t *testing.T) {
	r := answer(0, 0, 10, 0, 100*ms, 200*ms, 1500*ms)
	r.Chunks[0].Tokens = 4
	wantFloat(t, "peak output throughput", summarize(r).PeakOutputThroughput, known(7.0))
}

func TestSentAtTheEndOfThePlan(t *testing.T) {
	in := Input{Spec: &probes.Spec{}, PlannedSpan: known(time.Second), Records: []probes.Record{
		answer(0, 0, 1, 1, 2*time.Second), answer(900*ms, 1000*ms, 1, 1, 2*time.Second),
		{Outcome: probes.Dropped, Due: 500 * ms},
	}}
	wantFloat(t, "achieved rate", Summarize(in).AchievedRate, known(1.0))
}

func TestOutputSourceIsTheLeastTrusted(t *testing.T) {
	r := answer(0, 0, 1, 1, 100*ms)
	for _, tt := range []struct {
		sources []probes.TokenSource
		want    probes.TokenSource
	}{
		{[]probes.TokenSource{probes.TokensServer, probes.TokensServer}, probes.TokensServer},
		{[]probes.TokenSource{probes.TokensServer, probes.TokensClient, probes.TokensServer}, probes.TokensClient},
		{[]probes.TokenSource{probes.TokensApprox, probes.TokensClient}, probes.TokensApprox},
	} {
		var records []probes.Record
		for _, source := range tt.sources {
			r.OutputSource = source
			records = append(records, r)
		}
		if got := summarize(records...).OutputSource; got != tt.want {
			t.Errorf("source of %v = %s, want %s", tt.sources, got, tt.want)
		}
	}
}

// TestShortOutput: 11 of 64 forced tokens. The series of a fixed length must not
// silently change its length.
func TestShortOutput(t *testing.T) {
	short := answer(0, 0, 11, 1, every(200*ms, 10*ms, 11)...)
	short.ExactOutput, short.RequestedOutput, short.Flags = true, 64, probes.ShortOutput
	full := answer(0, 0, 64, 1, every(200*ms, 10*ms, 64)...)
	full.ExactOutput, full.RequestedOutput = true, 64
	s := summarize(short, full)
	samples(t, &s, map[probes.Signal]int{
		probes.TTFT: 2, probes.TTFTFromDue: 2, probes.TTFTAfterConnect: 2, probes.FirstAnswer: 2, probes.SendLag: 2,
		probes.TPOT: 1, probes.ITL: 63, probes.ChunkGap: 63, probes.E2E: 1, probes.E2EFromDue: 1,
	})
	if s.Flags["short_output"] != 1 || s.Completed != 2 || s.OutputTokens != known(75) {
		t.Errorf("flagged %d, completed %d, output %v; want 1, 2, 75", s.Flags["short_output"], s.Completed, s.OutputTokens)
	}
	// The short answer was in flight for 300 ms of the 830 ms all the same.
	wantFloat(t, "concurrency", s.Concurrency, known((0.3+0.83)/0.83))
}

// TestWaitingForASlot: due every 100 ms, one slot, 500 ms of service. Both views.
func TestWaitingForASlot(t *testing.T) {
	var records []probes.Record
	for i := range 8 {
		due, sent := time.Duration(i)*100*ms, time.Duration(i)*500*ms
		records = append(records, answer(due, sent, 1, 1, sent+500*ms))
	}
	s := Summarize(Input{Spec: &probes.Spec{}, Records: records, OfferedRate: known(10.0), PlannedSpan: known(800 * ms)})
	got := map[string]float64{
		"e2e":      s.Distribution(probes.E2E).P99,
		"due mean": s.Distribution(probes.E2EFromDue).Mean,
		"due p50":  s.Distribution(probes.E2EFromDue).P50,
		"due p99":  s.Distribution(probes.E2EFromDue).P99,
		"lag mean": s.Distribution(probes.SendLag).Mean,
		"lag max":  s.Distribution(probes.SendLag).Max,
	}
	want := map[string]float64{"e2e": 0.5, "due mean": 1.9, "due p50": 1.9, "due p99": 3.272, "lag mean": 1.4, "lag max": 2.8}
	if diff := cmp.Diff(want, got, approx); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.PeakConcurrency != 1 {
		t.Errorf("peak concurrency = %d, want 1: a request takes over the slot of the one that ends", s.PeakConcurrency)
	}
	wantFloat(t, "concurrency", s.Concurrency, known(1.0))
	wantFloat(t, "achieved rate", s.AchievedRate, known(2.5)) // two of eight within 0.8 s
}

// TestDriftingSender: 200/s asked, but each send costs 0.45 ms on top of its gap.
func TestDriftingSender(t *testing.T) {
	in := Input{Spec: &probes.Spec{}, OfferedRate: known(200.0), PlannedSpan: known(10 * time.Second)}
	var exact []probes.Record
	for i := range 2000 {
		due := time.Duration(i) * 5 * ms
		in.Records = append(in.Records, answer(due, time.Duration(i)*5450*time.Microsecond, 1, 1, time.Minute))
		exact = append(exact, answer(due, due+time.Duration(i%5)*ms, 1, 1, time.Minute))
	}
	wantFloat(t, "achieved rate of the drifting sender", Summarize(in).AchievedRate, known(183.5))
	in.Records = exact
	wantFloat(t, "achieved rate of the exact sender", Summarize(in).AchievedRate, known(200.0))
}

func TestDroppedAndTimeouts(t *testing.T) {
	dropped := probes.Record{Outcome: probes.Dropped, Due: 5 * time.Second, Sent: 9 * time.Second}
	late := answer(200*ms, 200*ms, 5, 1, 400*ms, 500*ms)
	late.Outcome, late.End = probes.TimeoutTotal, known(700*ms)
	cut := answer(300*ms, 300*ms, 5, 1, 350*ms)
	cut.Outcome = probes.Truncated
	s := summarize(answer(0, 0, 1, 1, 50*ms), dropped, late, cut)
	samples(t, &s, map[probes.Signal]int{
		probes.TTFT: 2, probes.TTFTFromDue: 2, probes.TTFTAfterConnect: 2, // the TTFT before a timeout stays
		probes.FirstAnswer: 1, probes.E2E: 1, probes.E2EFromDue: 1, probes.SendLag: 3,
	})
	got := [...]int{s.Requests, s.Sent, s.Completed, s.Failed, s.Cancelled, s.Dropped}
	if want := [...]int{4, 3, 1, 2, 0, 1}; got != want {
		t.Errorf("requests, sent, completed, failed, cancelled, dropped = %v, want %v", got, want)
	}
	if s.OutputTokens != known(1) {
		t.Errorf("output = %v, want 1: what failed requests delivered does not count", s.OutputTokens)
	}
	wantFloat(t, "success ratio", s.SuccessRatio, known(1.0/3))
	wantFloat(t, "peak output throughput", s.PeakOutputThroughput, known(1.0))
	if s.Duration != 700*ms {
		t.Errorf("duration = %v, want 700ms", s.Duration)
	}
}

func TestConnectionSetup(t *testing.T) {
	fresh := answer(0, 0, 1, 1, 160*ms)
	fresh.Connection = probes.ConnectionTrace{Connect: known(15 * ms), TLS: known(45 * ms)}
	reused := answer(0, 0, 1, 1, 100*ms)
	refusedTLS := failure(probes.TLSError, 0, 60*ms)
	refusedTLS.Connection = probes.ConnectionTrace{Connect: known(15 * ms), TLS: known(45 * ms)}
	busy := failure(probes.HTTP5xx, 0, 60*ms)
	busy.Connection = probes.ConnectionTrace{DNS: known(5 * ms), Connect: known(15 * ms)}
	lookedUp := failure(probes.HTTP5xx, 0, 60*ms) // and then an idle connection was there
	lookedUp.Connection = probes.ConnectionTrace{Reused: true, DNS: known(5 * ms)}
	s := summarize(fresh, reused, refusedTLS, busy, lookedUp)
	if d := s.Distribution(probes.ConnectSetup); d.N != 2 || d.Min != 0.02 || d.Max != 0.06 {
		t.Errorf("connection set-up = %+v, want 0.02 and 0.06", d)
	}
	if d := s.Distribution(probes.TTFTAfterConnect); d.N != 2 || d.Min != 0.1 || d.Max != 0.1 {
		t.Errorf("TTFT after connect = %+v, want twice 0.1", d)
	}
}

func TestPeakConcurrency(t *testing.T) {
	type interval struct{ sent, end time.Duration }
	tests := []struct {
		name      string
		intervals []interval
		want      int
	}{
		{"none", nil, 0},
		{"one_after_the_other", []interval{{0, 5}, {5, 9}, {9, 10}}, 1},
		{"overlap", []interval{{0, 5}, {4, 9}, {4, 6}, {6, 7}}, 3},
		{"instantaneous", []interval{{3, 3}, {3, 3}}, 0},
		{"same_second_but_never_together", []interval{{0, 400 * ms}, {500 * ms, 900 * ms}}, 1},
	}
	for _, tt := range tests {
		var records []probes.Record
		for _, i := range tt.intervals {
			records = append(records, failure(probes.HTTP5xx, i.sent, i.end))
		}
		records = append(records, probes.Record{Outcome: probes.Dropped, Due: 0})
		if got := peakConcurrency(records); got != tt.want {
			t.Errorf("%s: peak = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPeakConcurrencyAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "n")
		records := make([]probes.Record, n)
		for i := range records {
			sent := time.Duration(rapid.IntRange(0, 20).Draw(t, "sent"))
			records[i] = failure(probes.HTTP5xx, sent, sent+time.Duration(rapid.IntRange(0, 6).Draw(t, "length")))
		}
		want := 0
		for at := range time.Duration(30) {
			inFlight := 0
			for i := range records {
				if end, _ := records[i].End.Get(); records[i].Sent <= at && at < end {
					inFlight++
				}
			}
			want = max(want, inFlight)
		}
		if got := peakConcurrency(records); got != want {
			t.Fatalf("peak = %d, want %d", got, want)
		}
	})
}

// TestAcceptLength: 100 tokens in 100 steps and 100 tokens in 25 steps are 200
// tokens in 125 steps, not the mean of 1 and 4.
func TestAcceptLength(t *testing.T) {
	slow, fast, silent := answer(0, 0, 100, 1, ms), answer(0, 0, 100, 1, ms), answer(0, 0, 500, 1, ms)
	slow.AcceptLength, fast.AcceptLength = known(1.0), known(4.0)
	failed := failure(probes.Truncated, 0, ms)
	failed.AcceptLength, failed.OutputTokens = known(9.0), known(100)
	broken := answer(0, 0, 100, 1, ms)
	broken.AcceptLength = known(math.NaN())
	wantFloat(t, "accept length", summarize(slow, fast, silent, failed, broken).AcceptLength, known(1.6))
	wantFloat(t, "accept length without reports", summarize(silent).AcceptLength, probes.Optional[float64]{})
}

// The server's counters outrank what came with the answers, which outranks its
// gauges.
func TestAcceptLengthSources(t *testing.T) {
	reported, silent := answer(0, 0, 100, 1, ms), answer(0, 0, 100, 1, ms)
	reported.AcceptLength = known(2.0)
	for _, tt := range []struct {
		name   string
		server probes.AcceptSource
		record probes.Record
		want   float64
		source probes.AcceptSource
	}{
		{"counters", probes.AcceptCounters, reported, 3, probes.AcceptCounters},
		{"requests before gauge", probes.AcceptGauge, reported, 2, probes.AcceptRequests},
		{"requests before lifetime", probes.AcceptLifetime, reported, 2, probes.AcceptRequests},
		{"gauge", probes.AcceptGauge, silent, 3, probes.AcceptGauge},
		{"lifetime", probes.AcceptLifetime, silent, 3, probes.AcceptLifetime},
	} {
		s := Summarize(Input{Records: []probes.Record{tt.record}, Spec: &probes.Spec{},
			Server: probes.ServerSummary{AcceptLength: known(3.0), AcceptSource: tt.server}})
		wantFloat(t, tt.name, s.AcceptLength, known(tt.want))
		if s.AcceptSource != tt.source || s.Server.AcceptSource != tt.server {
			t.Errorf("%s: source %q beside the server's %q, want %q beside %q", tt.name, s.AcceptSource, s.Server.AcceptSource, tt.source, tt.server)
		}
	}
}

// TestPooled: records of different runs have no time in common.
func TestPooled(t *testing.T) {
	records := []probes.Record{
		answer(0, 0, 4, 1, every(100*ms, 10*ms, 4)...),
		answer(0, 0, 4, 1, every(200*ms, 10*ms, 4)...),
	}
	spec := &probes.Spec{SLOs: []probes.SLO{{Name: "ok", Objective: 0.9}}}
	s := Summarize(Input{Spec: spec, Records: records, Pooled: true})
	if d := s.Distribution(probes.TTFT); d.N != 2 || d.Min != 0.1 || d.Max != 0.2 {
		t.Errorf("TTFT = %+v, want 0.1 and 0.2", d)
	}
	for name, got := range map[string]probes.Optional[float64]{
		"request throughput": s.RequestThroughput, "input throughput": s.InputThroughput,
		"output throughput": s.OutputThroughput, "total throughput": s.TotalThroughput,
		"peak": s.PeakOutputThroughput, "concurrency": s.Concurrency, "goodput": s.Goodput, "achieved rate": s.AchievedRate,
	} {
		wantFloat(t, name, got, probes.Optional[float64]{})
	}
	if s.Duration != 0 || s.PeakConcurrency != 0 || s.OutputTokens != known(8) || s.SLOAttainment["ok"] != 1 {
		t.Errorf("duration %v, peak %d, output %v, attainment %v; want 0, 0, 8, 1",
			s.Duration, s.PeakConcurrency, s.OutputTokens, s.SLOAttainment["ok"])
	}
}

// TestOrderDoesNotMatter: the load generator hands records over as they end.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []probes.Record
		for i := range rapid.IntRange(1, 12).Draw(t, "n") {
			due := time.Duration(i) * 50 * ms
			gap := time.Duration(rapid.IntRange(1, 60).Draw(t, "gap")) * ms
			r := answer(due, due+ms, 5, int32(rapid.IntRange(0, 3).Draw(t, "tokens")), every(due+100*ms, gap, 5)...)
			r.Outcome = rapid.SampledFrom([]probes.Outcome{probes.OK, probes.OK, probes.Cancelled, probes.TimeoutIdle}).Draw(t, "outcome")
			records = append(records, r)
		}
		in := Input{Spec: &probes.Spec{}, Records: records, PlannedSpan: known(time.Second)}
		want := Summarize(in)
		in.Records = rapid.Permutation(records).Draw(t, "order")
		if diff := cmp.Diff(want, Summarize(in), approx); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestGapsAddUp: the samples of a request add up to last minus first token event
// in either view.
func TestGapsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "chunks")
		at := time.Duration(0)
		var instants []time.Duration
		for range n {
			at += time.Duration(rapid.IntRange(0, 90_000).Draw(t, "gap")) * time.Microsecond
			instants = append(instants, at)
		}
		r := answer(0, 0, 100, 1, instants...)
		for i := range r.Chunks {
			r.Chunks[i].Tokens = int32(rapid.IntRange(1, 5).Draw(t, "tokens"))
		}
		s := summarize(r)
		want := (instants[n-1] - instants[0]).Seconds()
		for _, signal := range []probes.Signal{probes.ITL, probes.ChunkGap} {
			d := s.Distribution(signal)
			if sum := d.Mean * float64(d.N); math.Abs(sum-want) > 1e-9 {
				t.Fatalf("%s adds up to %v, want %v", signal, sum, want)
			}
		}
	})
}

func TestWindow(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := make([]Ended, 5)
	for i := range all {
		all[i] = Ended{Record: probes.Record{Index: i}, At: now.Add(time.Duration(i-4) * time.Minute)}
	}
	all[4].At = now.Add(time.Second) // the wall clock stepped back
	tests := []struct {
		name   string
		bounds probes.Window
		want   []int
	}{
		{"no_bounds", probes.Window{}, []int{0, 1, 2, 3, 4}},
		{"last_three", probes.Window{MinSamples: 3}, []int{2, 3, 4}},
		{"more_than_there_are", probes.Window{MinSamples: 9}, []int{0, 1, 2, 3, 4}},
		{"age_inclusive", probes.Window{MaxAge: 2 * time.Minute}, []int{2, 3, 4}},
		{"both", probes.Window{MinSamples: 4, MaxAge: time.Minute}, []int{3, 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := []int{}
			for _, r := range Records(Window(all, tt.bounds, now)) {
				got = append(got, r.Index)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
	all[3].At = now.Add(-time.Hour) // set right again after it had been wrong
	if got := Window(all, probes.Window{MaxAge: 2 * time.Minute}, now); len(got) != 2 || got[0].Record.Index != 2 {
		t.Errorf("kept %v, want the records 2 and 4", got)
	}
	if got := Window(all, probes.Window{MaxAge: time.Minute}, now.Add(time.Hour)); len(got) != 0 {
		t.Errorf("an hour later %d records are left, want 0", len(got))
	}
}

func BenchmarkSummarize(b *testing.B) {
	const requests, chunks = 1000, 200
	for _, bench := range []struct {
		name   string
		tokens int32
	}{{"token_a_chunk", 1}, {"tokens_unknown", 0}, {"three_a_chunk", 3}} {
		b.Run(bench.name, func(b *testing.B) {
			records := make([]probes.Record, requests)
			for i := range records {
				due := time.Duration(i) * 10 * ms
				at := make([]time.Duration, chunks)
				last := due + 200*ms + time.Duration(i*7919%1000)*100*time.Microsecond
				for j := range at {
					last += 15*ms + time.Duration((i*31+j*j*17)%9973)*time.Microsecond
					at[j] = last
				}
				records[i] = answer(due, due+ms, chunks*int(max(1, bench.tokens)), bench.tokens, at...)
			}
			in := Input{Spec: &probes.Spec{SLOs: []probes.SLO{{
				Name: "s", Objective: 0.99, Bounds: map[probes.Signal]time.Duration{probes.TTFT: time.Second, probes.TPOT: 60 * ms},
			}}}, Records: records}
			b.ReportAllocs()
			for b.Loop() {
				Summarize(in)
			}
		})
	}
}
