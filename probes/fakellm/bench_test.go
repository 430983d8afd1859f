package fakellm

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkEmit measures token events through a loopback port, the client
// (which only drains) included: events/s and CPU per event of both together.
func BenchmarkEmit(b *testing.B) {
	script := Config{Script: &Script{TTFT: []time.Duration{0}}}
	for _, tt := range []struct {
		name, path, body string
		config           Config
	}{
		{"native", "/generate", generateBody(words(9), 256), script},
		{"chat", "/v1/chat/completions", chatBody(words(9), 256), script},
		// Bound by its steps of 1 ms: the CPU time is what matters.
		{"batching", "/v1/chat/completions", chatBody(words(9), 256), Config{DecodeBase: time.Millisecond, MaxBatch: 64}},
	} {
		for _, streams := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/streams=%d", tt.name, streams), func(b *testing.B) {
				e, err := New(tt.config)
				if err != nil {
					b.Fatal(err)
				}
				url, stop := serve(b, e)
				defer stop()
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
				b.ReportAllocs()
				before := cpu()
				for b.Loop() {
					var wg sync.WaitGroup
					for range streams {
						wg.Go(func() {
							resp, err := client.Post(url+tt.path, "application/json", strings.NewReader(tt.body))
							if err != nil {
								b.Error(err)
								return
							}
							defer resp.Body.Close()
							if _, err := io.Copy(io.Discard, resp.Body); err != nil {
								b.Error(err)
							}
						})
					}
					wg.Wait()
				}
				events := float64(b.N * streams * 256)
				b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64(cpu()-before)/1e3/events, "cpu-us/event")
			})
		}
	}
}

// cpu is the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRender measures one token event without HTTP: it must not allocate.
func BenchmarkRender(b *testing.B) {
	for _, tt := range renderings {
		b.Run(tt.name, func(b *testing.B) {
			const tokens = 256
			x := renderExchange(b, tt, tokens)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%(tokens-1) == 0 {
					b.StopTimer()
					x.out = newRenderer(x, "id")
					x.buf = x.out.event(x.buf[:0], 1, false)
					b.StartTimer()
				}
				x.buf = x.out.event(x.buf[:0], 1, false)
			}
		})
	}
}

// renderings are the shapes that are measured.
var renderings = []struct{ name, engine, pattern string }{
	{"native", SGLang, "POST /generate"},
	{"completions", SGLang, "POST /v1/completions"},
	{"chat", SGLang, "POST /v1/chat/completions"},
	{"lmdeploy", LMDeploy, "POST /generate"},
	{"triton", Triton, "POST /v2/models/{model}/generate_stream"},
	{"trtllm", TRTLLM, "POST /v1/chat/completions"},
	{"truss", Truss, "POST /v1/models/model:predict"},
	{"tgi", TGI, "POST /v1/chat/completions"},
	{"llamacpp", LlamaCPP, "POST /completion"},
	{"llamacpp-chat", LlamaCPP, "POST /v1/chat/completions"},
	{"ollama", Ollama, "POST /api/chat"},
	{"ollama-chat", Ollama, "POST /v1/chat/completions"},
	{"dynamo", Dynamo, "POST /v1/chat/completions"},
	{"anthropic", Anthropic, "POST /v1/messages"},
	{"openai-chat", OpenAIResponses, "POST /v1/chat/completions"},
	// These two keep the whole text for their ends.
	{"tgi-native", TGI, "POST /generate_stream"},
	{"openai-responses", OpenAIResponses, "POST /v1/responses"},
}

func TestRenderDoesNotAllocate(t *testing.T) {
	// Where the whole text is kept, it grows.
	for _, tt := range renderings[1 : len(renderings)-2] {
		x := renderExchange(t, tt, 1000)
		x.buf = x.out.event(x.buf[:0], 1, false)
		if n := testing.AllocsPerRun(100, func() { x.buf = x.out.event(x.buf[:0], 1, false) }); n != 0 {
			t.Errorf("%s: got %v allocations per token event, want 0", tt.name, n)
		}
	}
}

// renderExchange is an exchange with nobody behind it.
func renderExchange(t testing.TB, shape struct{ name, engine, pattern string }, tokens int) *exchange {
	e, err := New(Config{Engine: shape.engine})
	if err != nil {
		t.Fatal(err)
	}
	rt := e.flavour.routes[shape.pattern]
	a := &ask{body: body{Stream: true}, route: rt, path: "/v2/models/ensemble/generate_stream", prompt: run(0, 100), maxTokens: tokens, ignoreEOS: true, greedy: true}
	x := &exchange{e: e, route: rt, cfg: e.config(), w: httptest.NewRecorder(), ask: a, buf: make([]byte, 0, 1<<16)}
	x.seq = &sequence{received: time.Now(), prompt: a.prompt, answer: e.plan(x.cfg, a, 1)}
	x.out = newRenderer(x, "id")
	return x
}

// BenchmarkStep measures the batching model itself: one decode step of 64 sequences.
func BenchmarkStep(b *testing.B) {
	e, err := New(Config{MaxBatch: 64, Speculation: Speculation{DraftTokens: 3, AcceptLength: 2.5}})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 64 {
		s := renderExchange(b, renderings[0], 1<<40).seq
		s.ordinal, s.rng, s.ready = i+1, e.jitter, make(chan struct{}, 1)
		s.answer.lex = e.lex
		e.waiting = append(e.waiting, s)
	}
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		d, _ := e.begin()
		at = at.Add(d)
		e.end(at)
		for _, s := range e.running {
			for {
				if _, ok := s.take(); !ok {
					break
				}
			}
		}
	}
}
