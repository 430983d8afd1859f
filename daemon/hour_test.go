// Three hours of streams and of Prometheus's engine take minutes under the race
// detector; the other tests of the daemon run under it.
//go:build !race

package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"

	"github.com/inferbeat/inferbeat/alerts/scenario"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// hourConfig is a daemon as it runs in an office: three replicas in production under a
// canary, two in staging under a canary and a load, and a release that is compared with
// production.
const hourConfig = `
environments:
  production: {max_in_flight: 2, max_rate: 100, max_output_tokens: 128, tokens_per_day: 200M}
  staging: {max_in_flight: 64}
workloads:
  short: {dataset: random, input_tokens: 128, output_tokens: 104}
  chat: {dataset: random, input_tokens: 256, output_tokens: 104}
probes:
  canary:
    kind: canary
    every: 30s
    workload: short
    num_prompts: 3
    arrivals: constant
    request_rate: 2
    max_concurrency: 2
    slos: [{name: ttft, objective: 99%, ttft: 500ms}]
    limits: {ttft: {p99: 400ms, mean: {info: 150ms, warning: 200ms}, tail_ratio: {info: 4, warning: 5}}, tpot: {p50: {warning: 25ms, critical: 100ms}}}
  load:
    kind: load
    every: 10m
    workload: chat
    num_prompts: 120
    request_rate: 8
    max_concurrency: 32
    warmup: {requests: 4}
    slos: [{name: answered, objective: 99%, e2e: 5s}]
    limits: {ttft: {p99: 1s}, e2e: {p99: 5s}}
targets:
  - {name: prod-a, pool: prod, environment: production, backend: sglang, url: "http://10.0.0.1:8000", model: m, probes: [canary]}
  - {name: prod-b, pool: prod, environment: production, backend: sglang, url: "http://10.0.0.2:8000", model: m, probes: [canary]}
  - {name: prod-c, pool: prod, environment: production, backend: sglang, url: "http://10.0.0.3:8000", model: m, probes: [canary]}
  - {name: next-a, pool: next, environment: staging, backend: vllm, url: "http://10.0.0.4:8000", model: m, probes: [canary, load]}
  - {name: next-b, pool: next, environment: staging, backend: sglang-oai-chat, url: "http://10.0.0.5:8000", model: m, probes: [canary, load]}
comparisons:
  - {name: gate, a: prod-a, b: next-b, workload: short, pairs: 5, num_prompts: 10, every: 20m}
`

// sickness is what becomes of replicas by their addresses: they have faults, or with
// none nothing listens there any more.
type sickness map[string][]fakellm.Fault

const (
	hour         = time.Hour
	sickAt       = 20 * time.Minute
	scrapesEvery = 30 * time.Second
)

// playHour runs a whole daemon in virtual time on networks of its own, and gives what
// its page of metrics was at each scrape.
func playHour(t *testing.T, s sickness) (pages []scenario.Page) {
	t.Helper()
	file := configFile(t, hourConfig)
	synctest.Test(t, func(t *testing.T) {
		servers := fleetOf(t, fakellm.SGLang, fakellm.SGLang, fakellm.SGLang, fakellm.VLLM, fakellm.SGLang)
		app, _ := appInBubble(t, Options{ConfigFiles: []string{file}, Version: "test", Dial: servers.Dial, LogTo: t.Output()})

		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- app.Run(ctx) }()
		for at := scrapesEvery; at <= hour; at += scrapesEvery {
			time.Sleep(time.Until(began.Add(at)))
			if at == sickAt {
				for address, faults := range s {
					servers.fall(address, faults)
				}
			}
			synctest.Wait()
			w := httptest.NewRecorder()
			app.server.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if w.Code != http.StatusOK {
				t.Fatalf("metrics at %v: %d", at, w.Code)
			}
			pages = append(pages, scenario.Page{At: time.Now(), Text: w.Body.Bytes()})
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with: %v", err)
		}
	})
	return pages
}

// told are the changes of alerts' states with the time since the daemon began and the
// labels that say who it is about.
func told(t *testing.T, pages []scenario.Page) (out []string) {
	t.Helper()
	text, err := os.ReadFile("../alerts/rules/inferbeat.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := scenario.Watch(groups, labels.FromStrings("job", "inferbeat", "instance", "10.0.1.1:9114"), pages)
	if err != nil {
		t.Fatal(err)
	}
	began := pages[0].At.Add(-scrapesEvery)
	for _, c := range changes {
		line := fmt.Sprintf("%s %s %s", c.At.Sub(began), c.State, strings.TrimPrefix(c.Alert.Get(labels.AlertName), "Inferbeat"))
		for _, name := range []string{"severity", "target", "pool", "probe", "slo", "signal", "stat", "reason", "comparison", "metric"} {
			if v := c.Alert.Get(name); v != "" && (name != "pool" || c.Alert.Get("target") == "") {
				line += " " + v
			}
		}
		out = append(out, line)
	}
	return out
}

// beats is the one alert that fires when all is well: from the first evaluation on.
var beats = "1m0s " + rules.StateFiring.String() + " Heartbeat none"

// Nobody hears of an hour in which nothing is wrong; not even a pending alert.
func TestHealthyHourIsQuiet(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{beats}, told(t, playHour(t, nil))); diff != "" {
		t.Errorf("alerts of a healthy hour (-want +got):\n%s", diff)
	}
}

// The same hour with one sick replica tells exactly what is wrong with it, and when.
func TestSickHourTells(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		sick sickness
		want []string
	}{
		// A window of 100 samples has a sick median after half of it, and an alert about
		// latency waits for another ten or fifteen minutes. What is down is known after
		// three runs of the canary and two of the load.
		{"one in production is slow, one in staging is down", sickness{
			"10.0.0.3:8000": {{Kind: fakellm.Slow, Factor: 3}}, "10.0.0.5:8000": nil,
		}, []string{
			beats,
			"23m0s firing TargetFailing warning next-b canary",
			"26m0s firing SLOBudgetBurnFast warning next canary ttft",
			"36m0s firing SLOBudgetExhausted warning next canary ttft",
			"37m0s firing SLOBudgetBurnSlow warning next canary ttft",
			"39m0s firing LatencyHigh warning prod-c canary tpot p50",
			"39m0s firing TargetFailing warning next-b load",
			"40m0s firing ProbeStale warning next-b canary",
			"44m0s firing ReplicaOutlier warning prod-c canary tpot p50",
			"44m0s firing ReplicaOutlier warning prod-c canary ttft p50",
		}},
		// A third of the requests of production: somebody is woken.
		{"one in production truncates", sickness{"10.0.0.3:8000": {{Kind: fakellm.Truncate, AfterTokens: 8}}}, []string{
			beats,
			"23m0s firing TargetFailing warning prod-c canary",
			"28m0s firing SLOBudgetBurnFast critical prod canary ttft",
			"36m0s firing SLOBudgetExhausted warning prod canary ttft",
			"37m0s firing SLOBudgetBurnSlow warning prod canary ttft",
			"40m0s firing ProbeStale warning prod-c canary",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			changes := slices.DeleteFunc(told(t, playHour(t, test.sick)), func(c string) bool {
				return strings.Contains(c, " "+rules.StatePending.String()+" ") // each of them fires
			})
			if diff := cmp.Diff(test.want, changes); diff != "" {
				t.Errorf("alerts that fire or end (-want +got):\n%s", diff)
			}
		})
	}
}
