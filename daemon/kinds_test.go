package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// carry runs a spec in virtual time.
func carry(t *testing.T, spec probes.Spec, engine func(*fakellm.Config), check func(*probes.Run)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, engine)
		defer runner.Close()
		check(runner.Run(context.Background(), fakeTarget("vllm"), spec, &loadgen.Progress{}, Hooks{}))
	})
}

func roles(run *probes.Run) (out []string) {
	for _, p := range run.Parts {
		out = append(out, p.Role)
	}
	return out
}

func wantSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// Three runs of which each is wholly slower or faster than the others: every
// number of the result is that of the middle one.
func TestRepeatsGiveTheMedian(t *testing.T) {
	spec := loadSpec()
	spec.Repeats = 3
	carry(t, spec, func(c *fakellm.Config) {
		c.Script.TTFT = nil
		for _, ttft := range []time.Duration{100, 300, 200} {
			for range 100 {
				c.Script.TTFT = append(c.Script.TTFT, ttft*time.Millisecond)
			}
		}
	}, func(run *probes.Run) {
		if run.Result != probes.RunSuccess || run.Validity.State != probes.Valid || !run.Complete {
			t.Fatalf("result %s, %+v, error %q; want a valid success", run.Result, run.Validity, run.Error)
		}
		wantSame(t, "roles", roles(run), []string{"repeat 1", "repeat 2", "repeat 3"})
		s := &run.Summary
		wantSame(t, "ttft", s.Distribution(probes.TTFT), probes.Distribution{N: 100, Mean: 0.2, Min: 0.2, P50: 0.2, P90: 0.2, P95: 0.2, P99: 0.2, Max: 0.2})
		wantSame(t, "duration", s.Duration, 9900*time.Millisecond+200*time.Millisecond+2*time.Second)
		if got, _ := s.RequestThroughput.Get(); !near(got, 100/12.1) {
			t.Errorf("request throughput = %v, want %v", got, 100/12.1)
		}
		wantSame(t, "counts", []int{s.Repeats.Runs, s.Repeats.Used, s.Completed, len(run.Records)}, []int{3, 3, 100, 100})
		spread := map[string]probes.Spread{}
		for _, x := range s.Repeats.Spread {
			spread[x.Name] = x
		}
		wantSame(t, "spread of ttft p99", spread["ttft_p99_seconds"], probes.Spread{Name: "ttft_p99_seconds", N: 3, Median: 0.2, Min: 0.1, Max: 0.3})
		wantSame(t, "spread of throughput", spread["output_throughput"],
			probes.Spread{Name: "output_throughput", N: 3, Median: 10100 / 12.1, Min: 10100 / 12.2, Max: 10100 / 12.0})
		for _, trap := range run.Traps {
			if trap.Code == "single_run" {
				t.Error("three runs are told to be a single one")
			}
		}
	})
}

// A cut of the second repeat leaves one of three: no result.
func TestRepeatsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		spec := loadSpec()
		spec.Repeats = 3
		run := runner.Run(ctx, fakeTarget("vllm"), spec, &loadgen.Progress{}, Hooks{})
		wantSame(t, "roles", roles(run), []string{"repeat 1", "repeat 2"})
		if run.Result != probes.RunAborted || run.Validity.State != probes.Invalid {
			t.Errorf("result %s, validity %+v; want aborted and invalid", run.Result, run.Validity)
		}
		if got := run.Summary.Repeats; got.Runs != 3 || got.Used != 1 {
			t.Errorf("%d of %d repeats used, want 1 of 3", got.Used, got.Runs)
		}
	})
}

// A server that runs 8 sequences at 10 ms a step gives each 100 tokens a second
// at most, so the ceiling is 800 and doubling past 8 workers gains nothing.
func peakSpec() probes.Spec {
	spec := loadSpec()
	spec.Kind, spec.Requests, spec.Workload.OutputTokens = probes.Peak, 8, 101
	spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 256}
	return spec
}

func eightAtOnce(c *fakellm.Config) {
	c.Script, c.MaxBatch, c.DecodeBase = nil, 8, 10*time.Millisecond
	c.PrefillTokensPerSecond = 1e9
}

func TestPeakFindsTheCeiling(t *testing.T) {
	carry(t, peakSpec(), eightAtOnce, func(run *probes.Run) {
		if run.Result != probes.RunSuccess || run.Error != "" {
			t.Fatalf("result %s, error %q", run.Result, run.Error)
		}
		wantSame(t, "roles", roles(run), []string{"concurrency 1", "concurrency 2", "concurrency 4", "concurrency 8", "concurrency 16"})
		got, _ := run.Summary.OutputThroughput.Get()
		if got < 780 || got > 808 {
			t.Errorf("ceiling = %v tokens per second, want 8 x 100 less what filling and draining cost", got)
		}
		for i, part := range run.Parts[:4] {
			want, _ := run.Parts[0].Run.Summary.OutputThroughput.Get()
			if tokens, _ := part.Run.Summary.OutputThroughput.Get(); tokens < 0.95*want*float64(int(1)<<i) {
				t.Errorf("%s gives %v tokens per second, want twice as many as half the workers", part.Role, tokens)
			}
		}
		for _, r := range run.Validity.Reasons {
			if r.Code == "not_saturated" {
				t.Errorf("%s: %s", r.Code, r.Text)
			}
		}
	})
}

func TestPeakThatMayNotGoFarEnough(t *testing.T) {
	spec := peakSpec()
	spec.Arrivals.MaxConcurrency, spec.StartConcurrency = 4, 2
	carry(t, spec, eightAtOnce, func(run *probes.Run) {
		wantSame(t, "roles", roles(run), []string{"concurrency 2", "concurrency 4"})
		last := run.Validity.Reasons[len(run.Validity.Reasons)-1]
		wantSame(t, "doubt", last, probes.Reason{Code: "not_saturated", Text: "throughput had grown by 100 % at 4 workers, the most that are allowed"})
	})
}

func TestPeakBesideTheEngineAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offline.jsonl")
	for _, test := range []struct {
		offline, verdict string
		flagged          bool
	}{
		{"880", "pass", false}, // 10 %: what a server costs
		{"1200", "warn", true},
	} {
		line := `{"backend":"engine","successful_requests":9,"total_latency":1,"output_throughput":` + test.offline + "}\n"
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		spec := peakSpec()
		spec.OfflineResult = file
		carry(t, spec, eightAtOnce, func(run *probes.Run) {
			own, _ := run.Summary.OutputThroughput.Get()
			offline, _ := run.Summary.Offline.Throughput.Get()
			gap, _ := run.Summary.Offline.Gap.Get()
			if gap != 1-own/offline || run.Summary.Offline.Source != "bench_offline_throughput" {
				t.Errorf("gap of %v against %v = %v from %s", own, offline, gap, run.Summary.Offline.Source)
			}
			if got := string(run.Verdict.State); got != test.verdict {
				t.Errorf("verdict %s %+v, want %s", got, run.Verdict.Reasons, test.verdict)
			}
		})
	}
	spec := peakSpec()
	spec.OfflineResult = filepath.Join(t.TempDir(), "none")
	carry(t, spec, eightAtOnce, func(run *probes.Run) {
		if !strings.Contains(run.Error, "open offline result") || len(run.Parts) != 0 {
			t.Errorf("error %q after %d parts, want a refusal before anything is sent", run.Error, len(run.Parts))
		}
	})
}

func batchSpec(size int) probes.Spec {
	spec := loadSpec()
	spec.Kind, spec.Requests, spec.Workload.OutputTokens = probes.Batch, size, 11
	spec.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	return spec
}

func TestBatchTimes(t *testing.T) {
	spec := batchSpec(4)
	carry(t, spec, func(c *fakellm.Config) {
		c.Script.TTFT = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond}
	}, func(run *probes.Run) {
		if run.Validity.State != probes.Valid {
			t.Errorf("validity %+v, want valid", run.Validity)
		}
		// The last first token comes at 400 ms and the last token ten steps later.
		wantSame(t, "batch", run.Summary.Batch, probes.BatchTimes{
			Size: 4, Prefill: probes.Known(0.4), DecodeStep: probes.Known(0.02), Latency: probes.Known(0.6),
			InputThroughput: probes.Known(640.0), DecodeThroughput: probes.Known(44 / 0.2),
			StepThroughput: probes.Known(200.0), OverallThroughput: probes.Known(500.0),
		})
	})
}

// Where a chunk holds several tokens nobody can see the steps; a failed request
// leaves no batch at all.
func TestBatchTimesThatAreUnknown(t *testing.T) {
	carry(t, batchSpec(4), func(c *fakellm.Config) { c.Script.TokensPerEvent = 2 }, func(run *probes.Run) {
		b := run.Summary.Batch
		if b.DecodeStep.IsKnown() || b.StepThroughput.IsKnown() || !b.Prefill.IsKnown() {
			t.Errorf("batch = %+v, want a prefill and no step", b)
		}
	})
	carry(t, batchSpec(4), func(c *fakellm.Config) {
		c.Faults = []fakellm.Fault{{Kind: fakellm.Unavailable, Requests: []int{2}}}
	}, func(run *probes.Run) {
		wantSame(t, "batch", run.Summary.Batch, probes.BatchTimes{Size: 4})
	})
}

// canarySpec asks two questions one after the other.
func canarySpec() probes.Spec {
	spec := loadSpec()
	spec.Kind, spec.Requests, spec.Workload.OutputTokens = probes.Canary, 2, 5
	spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1}
	spec.Window = probes.Window{MinSamples: 100, MaxAge: time.Hour}
	return spec
}

func TestFirstAndSecondRequest(t *testing.T) {
	carry(t, canarySpec(), func(c *fakellm.Config) {
		c.Script.TTFT = []time.Duration{250 * time.Millisecond, 100 * time.Millisecond}
	}, func(run *probes.Run) {
		s := &run.Summary
		first, second, both := s.Distribution(probes.TTFTFirst), s.Distribution(probes.TTFTSecond), s.Distribution(probes.TTFT)
		wantSame(t, "first, second and all", []float64{first.Mean, float64(first.N), second.Mean, float64(second.N), both.Mean}, []float64{0.25, 1, 0.1, 1, 0.175})
	})
	spec := canarySpec()
	spec.Requests = 1
	carry(t, spec, nil, func(run *probes.Run) {
		if n := run.Summary.Distribution(probes.TTFTFirst).N; n != 0 {
			t.Errorf("a canary of one request has %d first ones, want none: there is no second to compare with", n)
		}
	})
}

// truth is what the simulated server answers greedily to a prompt.
func truth(t *testing.T, prompt string) (answer string) {
	t.Helper()
	spec := canarySpec()
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		client, err := runner.client(fakeTarget("vllm"), "truth")
		if err != nil {
			t.Fatal(err)
		}
		record := client.backend.Do(context.Background(), probes.Clock{Start: time.Now()}, &probes.Request{ID: "x", Prompt: prompt, MaxOutputTokens: 8,
			Sampling: probes.Sampling{Stream: spec.Workload.Sampling.Stream}, KeepText: true}, 0)
		answer = strings.TrimSpace(record.Text)
	})
	if answer == "" {
		t.Fatal("the simulated server says nothing")
	}
	return answer
}

func TestPinnedAnswer(t *testing.T) {
	// The simulated tokenizer knows these words from the start, so that no earlier
	// prompt changes their ids and with them the answer.
	const prompt = "what is the name of the world"
	answer := truth(t, prompt)
	sum := sha256.Sum256([]byte(answer))
	part := probes.Secret(answer[:len(answer)/2])
	for _, test := range []struct {
		name   string
		expect probes.Expect
		want   probes.Answer
		result probes.RunResult
		state  probes.VerdictState
	}{
		{"equals", probes.Expect{Equals: probes.Secret(" " + answer + "\n")}, probes.AnswerRight, probes.RunSuccess, probes.Pass},
		{"contains", probes.Expect{Contains: part}, probes.AnswerRight, probes.RunSuccess, probes.Pass},
		{"sha256", probes.Expect{SHA256: strings.ToUpper(hex.EncodeToString(sum[:]))}, probes.AnswerRight, probes.RunSuccess, probes.Pass},
		{"equals_a_part", probes.Expect{Equals: part}, probes.AnswerWrong, probes.RunFailed, probes.Fail},
		{"contains_something_else", probes.Expect{Contains: "\x00"}, probes.AnswerWrong, probes.RunFailed, probes.Fail},
		{"other_digest", probes.Expect{SHA256: strings.Repeat("0", 64)}, probes.AnswerWrong, probes.RunFailed, probes.Fail},
	} {
		spec := canarySpec()
		spec.Requests, spec.Workload.Sampling.Temperature = 1, 0.9 // which the question does not share
		spec.Expect = test.expect
		spec.Expect.Prompt, spec.Expect.MaxTokens = prompt, 8
		carry(t, spec, nil, func(run *probes.Run) {
			if run.Summary.Answer != test.want || run.Result != test.result || run.Verdict.State != test.state {
				t.Errorf("%s: answer %s, result %s, verdict %+v; want %s, %s, %s", test.name,
					run.Summary.Answer, run.Result, run.Verdict, test.want, test.result, test.state)
			}
			if len(run.Records) != 1 {
				t.Errorf("%s: %d records, want the question to leave none", test.name, len(run.Records))
			}
			var w window
			result := w.add(run, run.End)
			if test.want == probes.AnswerWrong && result != nil {
				t.Errorf("%s: the window shows how fast a wrong answer came", test.name)
			}
			line, err := jsonl.Encode(run, jsonl.Options{Details: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{prompt, answer, string(part)} {
				if strings.Contains(string(line)+fmt.Sprintf("%+v %#v", run.Spec, run.Spec), secret) {
					t.Errorf("%s: the line or the printed spec holds %q", test.name, secret)
				}
			}
		})
	}
}

// Right answers before do not hide the wrong one now, and an unanswered question
// is a warning.
func TestWrongAnswerInAWindow(t *testing.T) {
	spec := canarySpec()
	spec.Requests = 1
	spec.Expect = probes.Expect{Prompt: "x", Contains: "\x00", MaxTokens: 8}
	carry(t, spec, nil, func(wrong *probes.Run) {
		right := *wrong
		right.Summary.Answer = probes.AnswerRight
		var w window
		w.add(&right, right.End)
		result := w.add(wrong, wrong.End)
		if result == nil || result.Verdict.State != probes.Fail || result.Summary.Completed != 1 {
			t.Errorf("result = %+v, want the one good request and a failed verdict", result)
		}
	})
	carry(t, spec, func(c *fakellm.Config) { c.Faults = []fakellm.Fault{{Kind: fakellm.Unavailable, Requests: []int{2}}} }, func(run *probes.Run) {
		if run.Summary.Answer != probes.AnswerMissing || run.Verdict.State != probes.Warn || run.Result != probes.RunSuccess {
			t.Errorf("answer %s, verdict %+v, result %s; want missing, a warning and a success", run.Summary.Answer, run.Verdict, run.Result)
		}
	})
}
