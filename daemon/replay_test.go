package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

func traceFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func replaySpec(dataset, file string) probes.Spec {
	return probes.Spec{
		Probe: "replay", Kind: probes.Replay, Arrivals: probes.Arrivals{Process: probes.FromTrace},
		Workload: probes.Workload{
			Name: "w", Dataset: dataset, Path: file, OutputTokens: 16, Tokenizer: "server", Cache: probes.CacheShared, Seed: 1,
			Sampling: probes.Sampling{IgnoreEOS: true, Stream: true},
		},
	}
}

// A recorded hour, told by the server's own scripted latencies: every request leaves
// at the trace's time, and a turn whose answer was late leaves with that answer.
func TestReplayLeavesAtTheTimesOfTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil) // TTFT 100, 101, … ms, then a token every 20 ms
		defer runner.Close()
		spec := replaySpec("trace", traceFile(t, strings.Join([]string{
			`{"timestamp": 5000, "prompt": "The first turn of a conversation.", "output_length": 11, "session_id": "a"}`,
			`{"timestamp": 5100, "messages": [{"role": "user", "content": "Somebody else."}], "output_length": 6}`,
			`{"timestamp": 5200, "prompt": "The second turn, asked before the first answer ended.", "output_length": 2, "session_id": "a"}`,
			`{"timestamp": 9000, "prompt": "The third turn, after a long time.", "output_length": 2, "session_id": "a"}`,
		}, "\n")))
		spec.Workload.Trace = probes.Trace{TimeUnit: "ms", Slowdown: 2}
		run := runner.Run(context.Background(), fakeTarget("vllm-chat"), spec, nil, Hooks{})
		if run.Result != probes.RunSuccess {
			t.Fatalf("result %s, error %q, validity %+v", run.Result, run.Error, run.Validity)
		}
		type instants struct{ Planned, Due, Sent, End time.Duration }
		got := make([]instants, len(run.Records))
		for _, r := range run.Records {
			got[r.Index] = instants{r.Planned.Or(-1), r.Due, r.Sent, r.End.Or(-1)}
		}
		const ms = time.Millisecond
		want := []instants{
			{0, 0, 0, (100 + 10*20) * ms},
			{200 * ms, 200 * ms, 200 * ms, (200 + 101 + 5*20) * ms},
			// Wanted at 400 ms; the first answer had ended at 300 ms by then.
			{400 * ms, 400 * ms, 400 * ms, (400 + 102 + 20) * ms},
			{8000 * ms, 8000 * ms, 8000 * ms, (8000 + 103 + 20) * ms},
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("instants (-want +got):\n%s", diff)
		}

		spec.Workload.Trace.Slowdown = 0.5 // now the second turn is wanted at 100 ms
		run = runner.Run(context.Background(), fakeTarget("vllm-chat"), spec, nil, Hooks{})
		for _, r := range run.Records {
			// The script has gone on: this run's TTFTs are 104, 105, … ms.
			if end := (104 + 10*20) * ms; r.Index == 2 && (r.Planned.Or(-1) != 100*ms || r.Due != end || r.Sent != end) {
				t.Errorf("second turn: planned %v, due %v, sent %v; want %v, then the end of the first answer at %v", r.Planned, r.Due, r.Sent, 100*ms, end)
			}
		}
		if rate, _ := run.Summary.OfferedRate.Get(); !near(rate, 3/2.0) {
			t.Errorf("offered rate %v, want 4 requests over 2 s of 3 gaps", rate)
		}
	})
}

// What a replayed mooncake trace finds in the prefix cache is what its hash ids say
// it could find, token for token, on a server with room for everything.
func TestReplayHasTheHitRatioOfItsTrace(t *testing.T) {
	const block = 512
	type row struct {
		Timestamp int   `json:"timestamp"`
		Input     int   `json:"input_length"`
		Output    int   `json:"output_length"`
		HashIDs   []int `json:"hash_ids"`
	}
	var text strings.Builder
	var cached, total int
	seen := map[int]bool{}
	known := [][]int{nil}
	for i := range 24 {
		// A conversation that goes on, or a new one: i*7%5 chooses where it starts from.
		chain := slices.Clone(known[i*7%min(len(known), 5)])
		for range i % 4 {
			chain = append(chain, 1000*(i+1)+len(chain))
		}
		known = append(known, chain)
		r := row{i * 1000, len(chain)*block + 50 + 13*i, 4, append(slices.Clone(chain), 1000*(i+1)+len(chain))}
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s\n", line)
		for _, id := range r.HashIDs {
			if !seen[id] {
				break
			}
			cached += block
		}
		for _, id := range r.HashIDs {
			seen[id] = true
		}
		total += r.Input
	}
	if cached == 0 {
		t.Fatal("the trace shares nothing, so that this proves nothing")
	}
	for _, backend := range []string{"vllm", "vllm-chat"} {
		for _, tokenIDs := range []bool{false, true} {
			if tokenIDs && backend != "vllm" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				_, runner := scripted(t, func(c *fakellm.Config) {
					c.Script, c.Cache, c.CacheReport = nil, fakellm.PrefixCache{Blocks: 1 << 20}, true
				})
				defer runner.Close()
				spec := replaySpec("mooncake", traceFile(t, text.String()))
				spec.Workload.TokenIDs = tokenIDs
				for range 2 { // a second run must not find what the first has left
					run := runner.Run(context.Background(), fakeTarget(backend), spec, nil, Hooks{})
					s := &run.Summary
					if run.Result != probes.RunSuccess || s.Completed != 24 || s.Input.Off != 0 {
						t.Fatalf("%s: result %s %q, %d completed, %d prompts off; %+v", backend, run.Result, run.Error, s.Completed, s.Input.Off, run.Validity)
					}
					gotCached, _ := s.CachedTokens.Get()
					gotTotal, _ := s.InputTokens.Get()
					if gotCached != cached || gotTotal != total {
						t.Errorf("%s: %d of %d tokens were cached, the trace's own ratio is %d of %d", backend, gotCached, gotTotal, cached, total)
					}
				}
			})
		}
	}
}

// Groups of prompts find their system prompt in the cache, and nothing else.
func TestGroupsFindTheirSystemPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, func(c *fakellm.Config) {
			c.Script, c.Cache, c.CacheReport = nil, fakellm.PrefixCache{Blocks: 1 << 20}, true
		})
		defer runner.Close()
		spec := loadSpec()
		spec.Requests = 40
		spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1}
		spec.Workload.Dataset, spec.Workload.Cache = "generated-shared-prefix", probes.CacheShared
		spec.Workload.Groups = probes.Groups{Count: 5, PromptsOfEach: 8, SystemTokens: 256, QuestionTokens: 40, OutputTokens: 4, RangeRatio: 1}
		for range 2 {
			run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
			if cached, _ := run.Summary.CachedTokens.Get(); cached != 5*7*256 || run.Summary.Input.Off != 0 {
				t.Errorf("%d tokens were cached, want 7 of 8 system prompts in 5 groups: %d; %d prompts off", cached, 5*7*256, run.Summary.Input.Off)
			}
		}
	})
}

// Pictures cost the server tokens that no text has; they are shown apart.
func TestImageTokensAreShownApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		spec := loadSpec()
		spec.Requests = 3
		spec.Workload.Dataset = "image"
		spec.Workload.Images = probes.ImageShape{Count: 2, Resolution: "64x64", Format: "png", Content: "blank"}
		run := runner.Run(context.Background(), fakeTarget("vllm-chat"), spec, nil, Hooks{})
		s := &run.Summary
		want := 3 * 2 * fakellm.ImageTokens
		if pictures, _ := s.ImageTokens.Get(); pictures != want || s.TextTokens() != probes.Known(3*64) || s.InputTokens != probes.Known(3*64+want) {
			t.Errorf("%v tokens: %v of text and %v of images, want %d of text and %d of images", s.InputTokens, s.TextTokens(), s.ImageTokens, 3*64, want)
		}
		if s.Input.N != 0 {
			t.Errorf("%d prompts are compared with a length that only the text has", s.Input.N)
		}
	})
}

// Rows that cannot be used are counted in the run, and end it unless asked to be left out.
func TestBadRowsAreCountedInTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		row := `{"timestamp": 0, "input_length": 40, "output_length": 2}` + "\n"
		spec := replaySpec("mooncake", traceFile(t, strings.Repeat(row, 40)+"broken\n"+row))
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		if run.Result != probes.RunFailed || !strings.Contains(run.Error, "trace.jsonl:41: ") {
			t.Errorf("result %s, error %q, want the file and line", run.Result, run.Error)
		}
		spec.Workload.SkipBadRows = true
		run = runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		if len(run.Records) != 41 || run.SkippedRows != 1 || run.Error != "" {
			t.Errorf("%d records, %d skipped, error %q", len(run.Records), run.SkippedRows, run.Error)
		}
	})
}

// sent is a web server with one file.
type sent struct{ content string }

func (s sent) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(s.content)), Request: r}, nil
}

// A dataset with a URL is fetched before the run, once, and only the content that
// was written down is used.
func TestDatasetIsFetchedBeforeTheRun(t *testing.T) {
	content := `{"timestamp": 0, "input_length": 40, "output_length": 2}` + "\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		runner.fetched.Transport, runner.fetched.Dir = sent{content}, folder
		spec := replaySpec("mooncake", "")
		spec.Workload.URL, spec.Workload.SHA256 = "https://data.test/trace.jsonl", sum
		if run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{}); len(run.Records) != 1 || run.Spec.Workload.Path != "" {
			t.Errorf("%d records, error %q, path %q", len(run.Records), run.Error, run.Spec.Workload.Path)
		}
		runner.fetched.Transport = sent{"changed"}
		if run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{}); len(run.Records) != 1 {
			t.Errorf("the second run has %d records, error %q; want the file that was kept", len(run.Records), run.Error)
		}
		spec.Workload.SHA256 = strings.Repeat("0", 64)
		if run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{}); run.Result != probes.RunFailed || !strings.Contains(run.Error, "its sha256 is") {
			t.Errorf("result %s, error %q, want it refused", run.Result, run.Error)
		}
	})
}

// Turns of the rounds of a session never overlap and their prompts come out of the cache.
func TestRoundsOfASessionFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		spec := replaySpec("mooncake", traceFile(t, `{"timestamp": 0, "input_length": 100, "output_length": 6, "hash_ids": [1]}`))
		spec.Workload.Trace.Rounds = 3
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		slices.SortFunc(run.Records, func(a, b probes.Record) int { return cmp.Compare(a.Index, b.Index) })
		var at time.Duration
		for i, r := range run.Records {
			if want := 100 + i*(6+64); r.Due != at || r.RequestedInput != want || r.PromptTokens != probes.Known(want) {
				t.Errorf("round %d: due %v with %v tokens, want %v with %d", i, r.Due, r.PromptTokens, at, want)
			}
			at = r.End.Or(-1)
		}
		if len(run.Records) != 3 {
			t.Errorf("%d records, want 3", len(run.Records))
		}
	})
}

// Rounds of a mooncake session with a chat backend are a conversation with the answers
// that the server really gave. Nobody else gets to see them.
func TestRoundsCarryTheRealAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := engineOf(t, fakellm.Config{Engine: fakellm.VLLM})
		var bodies [][]probes.Message
		_, runner := newServed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "completions") {
				text, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(text)))
				var body struct{ Messages []probes.Message }
				if err := json.Unmarshal(text, &body); err != nil {
					t.Error(err)
				}
				bodies = append(bodies, body.Messages)
			}
			engine.Handler().ServeHTTP(w, r)
		}))
		defer runner.Close()
		spec := replaySpec("mooncake", traceFile(t, `{"timestamp": 0, "input_length": 100, "output_length": 6, "hash_ids": [1]}`))
		spec.Workload.Trace.Rounds = 3
		shown := 0
		run := func(keep bool) *probes.Run {
			spec.KeepText = keep
			return runner.Run(context.Background(), fakeTarget("vllm-chat"), spec, nil, Hooks{Record: func(_ string, r *probes.Record) {
				if r.Text != "" {
					shown++
				}
			}})
		}
		kept := run(true)
		if kept.Result != probes.RunSuccess || len(bodies) != 3 || shown != 3 {
			t.Fatalf("result %s, %d requests, %d texts", kept.Result, len(bodies), shown)
		}
		for i, messages := range bodies {
			if len(messages) != 2*i+1 {
				t.Fatalf("turn %d has %d messages, want %d", i+1, len(messages), 2*i+1)
			}
			for k := 1; k < len(messages); k += 2 {
				if got, want := messages[k], kept.Records[k/2].Text; got.Role != "assistant" || got.Content != want || want == "" {
					t.Errorf("turn %d, message %d: %+v, want the answer %q", i+1, k+1, got, want)
				}
			}
			if last := messages[len(messages)-1]; last.Role != "user" || last.Content == "" {
				t.Errorf("turn %d ends with %+v", i+1, last)
			}
		}
		shown, bodies = 0, nil
		for _, r := range run(false).Records {
			if r.Text != "" {
				t.Errorf("request %d keeps an answer that nobody asked for", r.Index)
			}
		}
		if shown != 0 || len(bodies[2]) != 5 {
			t.Errorf("%d texts shown, %d messages; want none and 5", shown, len(bodies[2]))
		}
	})
}
