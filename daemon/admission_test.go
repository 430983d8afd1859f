package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// bubble is a whole daemon in virtual time. Its page is asked without a socket, which
// would hold the clock still.
type bubble struct {
	*App
	t     *testing.T
	file  string
	began time.Time
	stop  func()
}

// inBubble starts one at a full hour of 2000-01-01, when virtual time begins; change may
// alter it before it runs.
func inBubble(t *testing.T, text string, dial dialer, change ...func(*App)) *bubble {
	t.Helper()
	file := configFile(t, text)
	app, _ := appInBubble(t, Options{ConfigFiles: []string{file}, Version: "test", Dial: dial, LogTo: t.Output()})
	for _, c := range change {
		c(app)
	}
	b := &bubble{App: app, t: t, file: file, began: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with: %v", err)
		}
	}
	synctest.Wait()
	return b
}

// at sleeps until so long after the start, and until everything due then is done.
func (b *bubble) at(after time.Duration) {
	time.Sleep(time.Until(b.began.Add(after)))
	synctest.Wait()
}

func (b *bubble) get(path string, header ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.server.Handler.ServeHTTP(w, r)
	return w
}

// wantSeries checks lines of /metrics, each "name{labels} value" with the labels of one
// pair left out.
func (b *bubble) wantSeries(when string, want ...string) {
	b.t.Helper()
	page := b.get("/metrics").Body.String()
	for _, line := range want {
		if !strings.Contains("\n"+page, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			var got []string
			for have := range strings.Lines(page) {
				if strings.HasPrefix(have, name+"{") || strings.HasPrefix(have, name+" ") {
					got = append(got, have)
				}
			}
			b.t.Errorf("%s: want %s, have\n%s", when, line, strings.Join(got, ""))
		}
	}
}

// canaryOn is a series of the probe canary on target t.
func canaryOn(name, value string, labels ...string) string {
	all := append(labels, `model="m"`, `pool="t"`, `probe="canary"`, `target="t"`, `target_env="production"`)
	slices.Sort(all)
	return fmt.Sprintf("%s{%s} %s", name, strings.Join(all, ","), value)
}

func skips(reason probes.SkipReason, n string) string {
	return canaryOn(catalog.RunSkips, n, `reason="`+string(reason)+`"`)
}

func runs(result probes.RunResult, n string) string {
	return canaryOn(catalog.Runs, n, `result="`+string(result)+`"`)
}

// oneTarget is a target in production with a canary every 10 s.
const oneTarget = `
workloads: {short: {input_tokens: 16, output_tokens: 4, tokenizer: approx}}
probes: {canary: {kind: canary, every: 10s, workload: short}}
targets: [{name: t, environment: production, backend: vllm, url: "http://10.0.0.1:8000", model: m, probes: [canary]}]
`

// A server that asks to be left alone for 25 s is not asked by the canary's next two
// starts, which the page and the metrics say; a reload does not forget it.
func TestRetryAfterOutlivesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := fleetOf(t, fakellm.VLLM)
		b := inBubble(t, oneTarget, servers.Dial)
		defer b.stop()
		first := b.Pairs()[0].NextStart.Sub(b.began)
		b.at(first + 9*time.Second)
		b.wantSeries("after the first run", runs(probes.RunSuccess, "1"), skips(probes.SkipRetryAfter, "0"))
		if err := servers.engines["10.0.0.1:8000"].SetFaults(fakellm.Fault{Kind: fakellm.TooManyRequests, Delay: 25 * time.Second}); err != nil {
			t.Fatal(err)
		}
		b.at(first + 11*time.Second)
		if err := servers.engines["10.0.0.1:8000"].SetFaults(); err != nil {
			t.Fatal(err)
		}
		held := b.Pairs()[0].Held
		if held == nil || held.Reason != probes.SkipRetryAfter || !held.Until.Equal(b.began.Add(first+35*time.Second)) {
			t.Fatalf("held = %+v, want by retry_after until 25 s after the answer at %v", held, first+10*time.Second)
		}
		if page := b.get("/").Body.String(); !strings.Contains(page, "held for 24 s: the server&#39;s Retry-After") {
			t.Errorf("the page does not say that runs are held:\n%s", page)
		}
		var pairs []struct {
			Held struct {
				Reason string    `json:"reason"`
				Until  time.Time `json:"until"`
			} `json:"held"`
		}
		if err := json.Unmarshal(b.get("/api/v1/pairs").Body.Bytes(), &pairs); err != nil || len(pairs) != 1 || pairs[0].Held.Reason != "retry_after" || !pairs[0].Held.Until.Equal(held.Until) {
			t.Errorf("the API says %+v, %v, want retry_after until %v", pairs, err, held.Until)
		}
		if err := b.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.at(first + 39*time.Second)
		b.wantSeries("while held", runs(probes.RunSuccess, "1"), runs(probes.RunFailed, "1"), skips(probes.SkipRetryAfter, "2"),
			canaryOn(catalog.Requests, "1", `outcome="error"`))
		b.at(first + 49*time.Second)
		b.wantSeries("afterwards", runs(probes.RunSuccess, "2"), runs(probes.RunFailed, "1"), skips(probes.SkipRetryAfter, "2"))
		if held := b.Pairs()[0].Held; held != nil {
			t.Errorf("held by %+v after its end", held)
		}
	})
}

// When the tokens of the day are used up runs are skipped, and a restart does not forget
// what was used.
func TestTokensOfTheDayAreUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := fleetOf(t, fakellm.VLLM)
		// Asked of a cron schedule, the plan counts one run a day.
		text := strings.NewReplacer("every: 10s", `schedule: "* * * * *"`).Replace(oneTarget) +
			fmt.Sprintf("environments: {production: {tokens_per_day: 70}}\nstorage: {path: %q}\n", t.TempDir())
		b := inBubble(t, text, servers.Dial)
		b.at(4*time.Minute + time.Second)
		b.wantSeries("after four minutes", runs(probes.RunSuccess, "3"), skips(probes.SkipLoadBudget, "1"))
		if held := b.Pairs()[0].Held; held == nil || held.Reason != probes.SkipLoadBudget || !held.Until.Equal(b.began.Add(24*time.Hour)) {
			t.Errorf("held = %+v, want by load_budget until midnight", held)
		}
		if page := b.get("/").Body.String(); !strings.Contains(page, "held for 23 h: token budget of the day") {
			t.Errorf("the page does not say that runs are held:\n%s", page)
		}
		b.stop()
		b = inBubble(t, text, servers.Dial)
		defer b.stop()
		b.at(2 * time.Minute)
		b.wantSeries("after a restart", runs(probes.RunSuccess, "0"), skips(probes.SkipLoadBudget, "2"))
	})
}

// Whatever a run is made of, each of its requests counts once, for the target that it was
// sent to.
func TestEachExchangeOfARun(t *testing.T) {
	record := func(prompt, output int) probes.Record {
		return probes.Record{Outcome: probes.OK, PromptTokens: probes.Known(prompt), OutputTokens: probes.Known(output), End: probes.Known(time.Second)}
	}
	run := func(target string, records ...probes.Record) *probes.Run {
		return &probes.Run{Target: probes.Target{Name: target}, Records: records}
	}
	compared := run("b", record(1000, 1000)) // those of its typical part
	compared.Parts = []probes.Part{{Role: "pair 1 A", Run: run("a", record(1, 2))}, {Role: "pair 1 B", Run: run("b", record(10, 20), record(100, 200))}}
	swept := run("s")
	swept.Steps = []probes.Step{{Records: []probes.Record{record(1, 1)}, Warmup: []probes.Record{record(2, 2)}}, {Records: []probes.Record{record(3, 3)}}}
	warm := run("w", record(5, 5))
	warm.Warmup = []probes.Record{record(7, 7)}
	for _, c := range []struct {
		name string
		run  *probes.Run
		want map[string]float64
	}{
		{"with warm-up", warm, map[string]float64{"w": 24}},
		{"of two targets", compared, map[string]float64{"a": 3, "b": 330}},
		{"of steps", swept, map[string]float64{"s": 12}},
		{"by what was asked for", run("u",
			probes.Record{Outcome: probes.OK, RequestedInput: 8, RequestedOutput: 4, FirstToken: probes.Known(time.Second)},
			probes.Record{Outcome: probes.HTTP5xx, RequestedInput: 8, RequestedOutput: 4}, // no token came
			probes.Record{Outcome: probes.Dropped, RequestedInput: 8, RequestedOutput: 4},
		), map[string]float64{"u": 8 + 4 + 8}},
	} {
		used := map[string]float64{}
		eachExchange(c.run, func(target string, r *probes.Record, _ time.Time) { used[target] += tokensOf(r) })
		wantSame(t, c.name, used, c.want)
	}
}

// A comparison waits for the Retry-After of either side, and says so.
func TestRetryAfterHoldsComparisonsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, fakellm.VLLM, fakellm.VLLM)
		b := inBubble(t, `
environments: {production: {max_rate: 100}}
workloads: {short: {input_tokens: 16, output_tokens: 4, tokenizer: approx}}
probes: {canary: {kind: canary, schedule: "* * * * *", workload: short}}
targets:
  - {name: a, environment: production, backend: vllm, url: "http://10.0.0.1:8000", model: m, probes: [canary]}
  - {name: b, environment: production, backend: vllm, url: "http://10.0.0.2:8000", model: m, probes: []}
comparisons: [{name: gate, a: a, b: b, workload: short, num_prompts: 2, pairs: 5, schedule: "*/2 * * * *"}]
`, f.Dial)
		defer b.stop()
		b.at(30 * time.Second)
		if err := f.engines["10.0.0.1:8000"].SetFaults(fakellm.Fault{Kind: fakellm.TooManyRequests, Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		b.at(2*time.Minute + 30*time.Second)
		c := b.Comparisons()[0]
		if c.Last != nil || c.Skips[probes.SkipRetryAfter] != 1 || f.engines["10.0.0.2:8000"].Stats().Received != 0 {
			t.Errorf("run %v, skips %v, want one for retry_after and no request to the other side", c.Last, c.Skips)
		}
	})
}
