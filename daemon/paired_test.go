package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// asked is a request as it reached one of the two engines.
type asked struct {
	side   byte // A or B
	at     time.Time
	prompt string
}

// rivals are two engines behind one dialer.
type rivals struct {
	runner  *Runner
	engines [2]*fakellm.Engine
	mu      sync.Mutex
	log     []asked
}

// promptOf is the prompt of a request body of either dialect, empty for others.
func promptOf(body []byte) string {
	var request struct {
		Prompt   string
		Messages []struct{ Content string }
	}
	_ = json.Unmarshal(body, &request)
	if len(request.Messages) > 0 {
		return request.Messages[0].Content
	}
	return request.Prompt
}

// newRivals starts engines A and B.
func newRivals(t *testing.T, change func(side int, c *fakellm.Config)) *rivals {
	t.Helper()
	r := &rivals{}
	dials := map[string]func(context.Context, string, string) (net.Conn, error){}
	for side := range 2 {
		engine, own := scripted(t, func(c *fakellm.Config) { change(side, c) })
		own.Close()
		r.engines[side] = engine
		listener, dial := fakellm.NewPipeListener()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			q.Body = io.NopCloser(bytes.NewReader(body))
			if prompt := promptOf(body); prompt != "" && strings.HasSuffix(q.URL.Path, "completions") {
				r.mu.Lock()
				r.log = append(r.log, asked{"AB"[side], time.Now(), prompt})
				r.mu.Unlock()
			}
			engine.Handler().ServeHTTP(w, q)
		})}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { server.Close() })
		dials[addresses[side]] = dial
	}
	r.runner = &Runner{UserAgent: "inferbeat/test", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		return dials[address](ctx, network, address)
	}}
	return r
}

var addresses = [2]string{"10.0.0.1:8000", "10.0.0.2:8000"}

func rival(side int, backend string) probes.Target {
	t := fakeTarget(backend)
	t.Name, t.BaseURL = []string{"reference", "candidate"}[side], "http://"+addresses[side]
	return t
}

// runs gives the requests of each run; size of them in a row are one.
func (r *rivals) runs(size int) [][]asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(slices.Chunk(r.log, size))
}

// pairedSpec has runs of 20 requests, 10 each second.
func pairedSpec(pairs int) probes.Spec {
	spec := loadSpec()
	spec.Probe, spec.Requests, spec.Pairs = "paired", 20, pairs
	return spec
}

// firstTokens scripts the TTFT of the runs of one engine, of 20 requests each.
func firstTokens(c *fakellm.Config, ttfts ...time.Duration) {
	c.Script.TTFT = nil
	for _, ttft := range ttfts {
		for range 20 {
			c.Script.TTFT = append(c.Script.TTFT, ttft*time.Millisecond)
		}
	}
}

func threePairs(side int, c *fakellm.Config) {
	if side == 0 {
		firstTokens(c, 100, 200, 300)
	} else {
		firstTokens(c, 150, 210, 400)
		c.Script.ITL = 30 * time.Millisecond
	}
}

func metric(run *probes.Run, name string) probes.Contrast {
	for _, m := range run.Comparison.Metrics {
		if m.Name == name {
			return m
		}
	}
	return probes.Contrast{}
}

func wantContrast(t *testing.T, got, want probes.Contrast) {
	t.Helper()
	wantSame(t, want.Name+" ratio", got.Ratio.Or(0), want.Ratio.Or(0))
	got.Ratio = want.Ratio
	wantSame(t, want.Name, got, want)
}

// A has first tokens after 100, 200 and 300 ms, B after 150, 210 and 400: the median
// of the differences (50, 10, 100) is 50, which is not the difference of the medians.
func TestCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, threePairs)
		defer r.runner.Close()
		run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm"), pairedSpec(3), &loadgen.Progress{}, Hooks{})
		if run.Result != probes.RunSuccess || run.Error != "" || run.Validity.State != probes.Valid {
			t.Fatalf("result %s, %+v, error %q; want a valid success", run.Result, run.Validity, run.Error)
		}
		wantSame(t, "roles", roles(run), []string{"pair 1 A", "pair 1 B", "pair 2 B", "pair 2 A", "pair 3 A", "pair 3 B"})
		wantSame(t, "pairs", []int{run.Comparison.Pairs, run.Comparison.Used}, []int{3, 3})
		wantSame(t, "models", []string{run.Comparison.Reference.Model, run.Target.Model}, []string{"m", "m"})
		wantContrast(t, metric(run, "ttft_p50_seconds"),
			probes.Contrast{Name: "ttft_p50_seconds", N: 3, Reference: 0.2, Candidate: 0.21, Difference: 0.05, Ratio: probes.Known(1.05)})
		wantContrast(t, metric(run, "tpot_mean_seconds"),
			probes.Contrast{Name: "tpot_mean_seconds", N: 3, Reference: 0.02, Candidate: 0.03, Difference: 0.01, Ratio: probes.Known(1.5)})
		// A run is 19 gaps of 0.1 s, a first token, and 100 gaps of tokens: 4, 4.1 and 4.2 s on
		// side A, 5.05, 5.11 and 5.3 s on side B. The third pair has the median difference.
		wantContrast(t, metric(run, "request_throughput"), probes.Contrast{
			Name: "request_throughput", N: 3, Reference: 20 / 4.1, Candidate: 20 / 5.11,
			Difference: 20/5.3 - 20/4.2, Ratio: probes.Known(4.1 / 5.11),
		})
		wantSame(t, "own ttft", run.Summary.Distribution(probes.TTFT).P50, 0.21)
		wantSame(t, "verdict", run.Verdict, verdict.Unjudged(run.Validity))
		if got := run.Verdict.Reasons[0].Code; run.Verdict.State != probes.Unknown || got != "not_judged" {
			t.Errorf("verdict %s with %s, want unknown with not_judged", run.Verdict.State, got)
		}
	})
}

// What reaches the engines: A B, B A, A B; in a pair the same prompts at the same
// times from its start, in another pair others.
func TestCompareAsksTheSame(t *testing.T) {
	for _, test := range []struct {
		name, a, b string
		change     func(*probes.Spec)
	}{
		{"same_dialect", "vllm", "vllm", func(*probes.Spec) {}},
		// The chat template of B adds tokens that A does not count.
		{"other_dialect", "vllm", "vllm-chat", func(*probes.Spec) {}},
		{"random_ids", "vllm", "vllm-chat", func(s *probes.Spec) { s.Workload.Dataset, s.Workload.VocabSize = "random-ids", 32000 }},
		{"poisson", "vllm-chat", "vllm", func(s *probes.Spec) { s.Arrivals = probes.Arrivals{Process: probes.Poisson, Rate: 5} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRivals(t, threePairs)
				defer r.runner.Close()
				spec := pairedSpec(3)
				test.change(&spec)
				run := r.runner.Compare(context.Background(), rival(0, test.a), rival(1, test.b), spec, &loadgen.Progress{}, Hooks{})
				if run.Error != "" {
					t.Fatal(run.Error)
				}
				runs := r.runs(20)
				var order string
				for _, one := range runs {
					order += string(one[0].side)
				}
				if order != "ABBAAB" {
					t.Fatalf("order %s, want ABBAAB", order)
				}
				seen := map[string]bool{}
				for pair := range 3 {
					first, second := runs[2*pair], runs[2*pair+1]
					if seen[first[0].prompt] {
						t.Errorf("pair %d has the prompts of an earlier one", pair+1)
					}
					for i := range first {
						seen[first[i].prompt] = true
						if first[i].prompt != second[i].prompt {
							t.Errorf("pair %d, request %d: the sides got different prompts", pair+1, i)
						}
						if got, want := second[i].at.Sub(second[0].at), first[i].at.Sub(first[0].at); got != want {
							t.Errorf("pair %d, request %d: due %s after the first on one side and %s on the other", pair+1, i, got, want)
						}
						if first[i].side == second[i].side {
							t.Errorf("pair %d: both runs went to %c", pair+1, first[i].side)
						}
					}
				}
				if len(seen) != 60 {
					t.Errorf("%d different prompts, want 60", len(seen))
				}
			})
		})
	}
}

// Where completions add one token, the chat template adds five.
func TestCompareMarksOtherLengths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, threePairs)
		defer r.runner.Close()
		run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm-chat"), pairedSpec(1), &loadgen.Progress{}, Hooks{})
		wantContrast(t, metric(run, "input_tokens"), probes.Contrast{
			Name: "input_tokens", N: 1, Reference: 20 * 64, Candidate: 20 * 68, Difference: 80, Ratio: probes.Known(68.0 / 64),
		})
		want := probes.Reason{Code: verdict.UnequalWork, Text: "input tokens of a run: 1280 on side A and 1360 on side B, by each side's own count"}
		if !slices.Contains(run.Validity.Reasons, want) || run.Validity.State != probes.Suspect {
			t.Errorf("validity %+v, want suspect with %+v", run.Validity, want)
		}
	})
}

// A cut in the second pair leaves the first, which is half and so too little.
func TestCompareCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, threePairs)
		defer r.runner.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
		defer cancel()
		run := r.runner.Compare(ctx, rival(0, "vllm"), rival(1, "vllm"), pairedSpec(2), &loadgen.Progress{}, Hooks{})
		wantSame(t, "roles", roles(run), []string{"pair 1 A", "pair 1 B", "pair 2 B"})
		wantSame(t, "used", run.Comparison.Used, 1)
		if run.Result != probes.RunAborted || run.Validity.State != probes.Invalid || run.Complete {
			t.Errorf("result %s, validity %s, complete %t; want aborted, invalid, false", run.Result, run.Validity.State, run.Complete)
		}
	})
}

// A side that is down is no comparison, and the other side goes on being measured.
func TestCompareWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, threePairs)
		defer r.runner.Close()
		if err := r.engines[1].SetFaults(fakellm.Fault{Kind: fakellm.Unavailable}); err != nil {
			t.Fatal(err)
		}
		run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm"), pairedSpec(2), &loadgen.Progress{}, Hooks{})
		if run.Result == probes.RunSuccess || len(run.Parts) != 4 {
			t.Errorf("result %s after %d parts, want no success after 4", run.Result, len(run.Parts))
		}
		if m := metric(run, "ttft_p50_seconds"); m.N != 0 {
			t.Errorf("TTFT is compared although side B has none: %+v", m)
		}
	})
}

func TestComparable(t *testing.T) {
	for _, test := range []struct {
		name, a, b string
		change     func(*probes.Spec)
		want       string
	}{
		{"token_ids", "vllm", "vllm-chat", func(s *probes.Spec) { s.Workload.TokenIDs = true }, "backend vllm-chat takes no token ids"},
		{"token_ids_of_the_reference", "vllm-chat", "vllm", func(s *probes.Spec) { s.Workload.TokenIDs = true }, "backend vllm-chat takes no token ids"},
		{"images", "vllm-chat", "vllm", func(s *probes.Spec) { s.Workload.Dataset = "image" }, "backend vllm takes no images"},
		{"adapter", "vllm", "llamacpp", func(s *probes.Spec) { s.Workload.Sampling.LoRA = "sql" }, `choose lora adapter "sql": this server knows adapters by number, its id in GET /lora-adapters`},
		{"template", "vllm", "vllm-chat", func(s *probes.Spec) { s.Workload.ApplyChatTemplate = true }, "backend vllm-chat applies the chat template itself"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := pairedSpec(1)
			test.change(&spec)
			err := Comparable(rival(0, test.a), rival(1, test.b), spec)
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	one, other := rival(0, "vllm"), rival(1, "vllm-chat")
	other.BaseURL = one.BaseURL
	spec := pairedSpec(1)
	if err := Comparable(one, other, spec); err == nil || !strings.Contains(err.Error(), "prefix cache") {
		t.Errorf("one server without a flush: %v, want a word on its prefix cache", err)
	}
	spec.FlushCache = true
	if err := Comparable(one, other, spec); err != nil {
		t.Errorf("one server with a flush: %v", err)
	}
	spec.FlushCache, spec.Workload.Cache = false, probes.CacheWarm
	if err := Comparable(one, other, spec); err != nil {
		t.Errorf("one server, warm on purpose: %v", err)
	}
}
