package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// onRequest is a target with probes that start only when asked, and some that /probe
// does not run.
const onRequest = `
web: {enable_probe: true}
workloads: {short: {input_tokens: 16, output_tokens: 4}}
probes:
  canary: {kind: canary, workload: short}
  busy: {kind: canary, every: 1h, workload: short}
  load: {kind: load, workload: short, num_prompts: 5, request_rate: 1, arrivals: constant, warmup: {requests: 0}}
  loop: {kind: load, workload: short, num_prompts: 5, max_concurrency: 1}
  peak: {kind: peak, workload: short, num_prompts: 5, max_concurrency: 2}
targets:
  - {name: t, environment: staging, backend: vllm, url: "http://10.0.0.1:8000", model: m, probes: [canary, load, loop, peak]}
  - {name: p, environment: production, backend: vllm, url: "http://10.0.0.1:8000", model: m, probes: [canary]}
`

// pullBubble is a daemon whose targets answer their first token after 100 ms, 101 ms
// and so on, and three more 20 ms apart.
func pullBubble(t *testing.T, text string) (*bubble, *fakellm.Engine) {
	t.Helper()
	engine, runner := scripted(t, nil)
	return inBubble(t, text, runner.Dial), engine
}

// probe asks for a run as a Prometheus that waits so many seconds.
func (b *bubble) probe(target, probe, seconds string) (code int, body string) {
	w := b.get("/probe?target="+target+"&probe="+probe, timeoutHeader, seconds)
	return w.Code, w.Body.String()
}

// samples are the lines of a page that are no comments, without their prefix and the
// labels that say whose they are.
func samples(page string) []string {
	var out []string
	for line := range strings.Lines(page) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "inferbeat_probe_")
		name, rest, labelled := strings.Cut(line, "{")
		if strings.HasPrefix(line, "#") || !labelled {
			continue
		}
		labels, value, _ := strings.Cut(rest, "}")
		own := slices.DeleteFunc(strings.Split(labels, ","), func(l string) bool {
			key, _, _ := strings.Cut(l, "=")
			return slices.Contains(catalog.Identity(), key)
		})
		if len(own) > 0 {
			name += "{" + strings.Join(own, ",") + "}"
		}
		out = append(out, name+value)
	}
	slices.Sort(out)
	return out
}

// One GET is one run, with all its numbers, which counts like any other.
func TestProbeRunsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, engine := pullBubble(t, onRequest)
		defer b.stop()
		b.at(10 * time.Second)
		code, body := b.probe("t", "canary", "10")
		if took := time.Since(b.began.Add(10 * time.Second)); took != 160*time.Millisecond {
			t.Errorf("the answer took %v, want the run's 160 ms", took)
		}
		want := []string{
			`duration_seconds 0.16`, `input_tokens 16`,
			`output_tokens 4`, `output_tokens_per_second 25`,
			`requests{outcome="cancelled"} 0`, `requests{outcome="dropped"} 0`, `requests{outcome="error"} 0`, `requests{outcome="success"} 1`,
			`result{result="aborted"} 0`, `result{result="failed"} 0`, `result{result="invalid"} 0`, `result{result="success"} 1`,
			`start_timestamp_seconds 9.4668481e+08`, `success 1`, `suspect 0`, `timed_out 0`,
		}
		for signal, value := range map[string]string{
			"ttft": "0.1", "ttft_from_due": "0.1", "e2e": "0.16", "e2e_from_due": "0.16", "tpot": "0.02", "itl": "0.02", "chunk_gap": "0.02",
		} {
			for _, stat := range []string{"max", "mean", "p50"} {
				want = append(want, fmt.Sprintf("latency_seconds{signal=%q,stat=%q} %s", signal, stat, value))
			}
		}
		slices.Sort(want)
		if d := cmp.Diff(want, samples(body)); d != "" || code != http.StatusOK {
			t.Errorf("status %d, answer (-want +got):\n%s", code, d)
		}
		synctest.Wait()
		b.wantSeries("afterwards",
			`inferbeat_runs_total{model="m",pool="t",probe="canary",result="success",target="t",target_env="staging"} 1`,
			`inferbeat_requests_total{model="m",outcome="success",pool="t",probe="canary",target="t",target_env="staging"} 1`,
			`inferbeat_scheduler_lag_seconds_count 0`) // nothing was planned, so nothing was late
		if got := engine.Stats().Received; got != 1 {
			t.Errorf("%d requests were sent, want 1", got)
		}
	})
}

// A target that does not answer well is a successful scrape without success.
func TestProbeOfASickTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, engine := pullBubble(t, onRequest)
		defer b.stop()
		if err := engine.SetFaults(fakellm.Fault{Kind: fakellm.Truncate, AfterTokens: 2}); err != nil {
			t.Fatal(err)
		}
		code, body := b.probe("t", "canary", "10")
		got := samples(body)
		for _, line := range []string{`success 0`, `result{result="failed"} 1`, `requests{outcome="error"} 1`, `timed_out 0`} {
			if code != http.StatusOK || !slices.Contains(got, line) {
				t.Errorf("status %d, the answer lacks %s:\n%s", code, line, strings.Join(got, "\n"))
			}
		}
	})
}

// A target whose model nobody has configured keeps the one that it has named, also in
// the answers that tell that it is down.
func TestProbeKeepsTheIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := fleetOf(t, fakellm.VLLM)
		b := inBubble(t, strings.ReplaceAll(onRequest, "model: m, ", ""), servers.Dial)
		defer b.stop()
		for _, success := range []string{"1", "0"} {
			_, body := b.probe("t", "canary", "10")
			if want := `inferbeat_probe_success{model="m",pool="t",probe="canary",target="t",target_env="staging"} ` + success; !strings.Contains(body, want) {
				t.Errorf("the answer lacks %s:\n%s", want, body)
			}
			servers.fall("10.0.0.1:8000", nil)
		}
	})
}

// A scrape is answered in time, and the run goes on: what it turns out to be is what
// counts. Later scrapes share it.
func TestProbeOutlastsItsScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, engine := pullBubble(t, onRequest)
		defer b.stop()
		if err := engine.SetFaults(fakellm.Fault{Kind: fakellm.HangBeforeHeaders}); err != nil {
			t.Fatal(err)
		}
		b.at(time.Second)
		_, body := b.probe("t", "canary", "10")
		want := []string{`duration_seconds 9.5`, `start_timestamp_seconds 9.46684801e+08`, `success 0`, `timed_out 1`}
		if d := cmp.Diff(want, samples(body)); d != "" {
			t.Errorf("answer after 9.5 s (-want +got):\n%s", d)
		}
		b.at(20 * time.Second)
		_, body = b.probe("t", "canary", "20") // the first token is awaited for 30 s
		got := samples(body)
		if !slices.Contains(got, `start_timestamp_seconds 9.46684801e+08`) || !slices.Contains(got, `duration_seconds 30`) || !slices.Contains(got, `success 0`) {
			t.Errorf("answer at the end of the run:\n%s", strings.Join(got, "\n"))
		}
		synctest.Wait()
		b.wantSeries("afterwards", `inferbeat_request_errors_total{class="timeout_first_token",model="m",pool="t",probe="canary",target="t",target_env="staging"} 1`)
		if got := engine.Stats().Received; got != 1 {
			t.Errorf("%d requests were sent, want 1", got)
		}
	})
}

// Two Prometheus servers that scrape at once put no more load on the target than one.
func TestOverlappingScrapesShareARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, engine := pullBubble(t, onRequest)
		defer b.stop()
		bodies := make(chan string, 2)
		for range 2 {
			go func() {
				_, body := b.probe("t", "load", "10")
				bodies <- body
			}()
		}
		one, other := <-bodies, <-bodies
		if one != other || !strings.Contains(one, `outcome="success",pool="t",probe="load",target="t",target_env="staging"} 5`) {
			t.Errorf("two answers, want the same of five requests:\n%s\n%s", one, other)
		}
		if got := engine.Stats().Received; got != 5 {
			t.Errorf("%d requests were sent, want 5", got)
		}
	})
}

// What does not start says why, in a scrape that succeeds.
func TestProbeThatDoesNotStart(t *testing.T) {
	wantSkipped := func(t *testing.T, b *bubble, target, probe, environment string, reason probes.SkipReason) {
		t.Helper()
		code, body := b.probe(target, probe, "2")
		line := fmt.Sprintf(`inferbeat_probe_skipped{model="m",pool=%q,probe=%q,reason=%q,target=%q,target_env=%q} 1`, target, probe, reason, target, environment)
		if !strings.Contains(body, "\n"+line+"\n") || strings.Count(body, "\n") != 3 || code != http.StatusOK {
			t.Errorf("status %d, want only %s:\n%s", code, line, body)
		}
	}
	t.Run("target_busy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := pullBubble(t, onRequest)
			defer b.stop()
			over := make(chan struct{})
			go func() { defer close(over); b.probe("t", "load", "10") }()
			b.at(time.Second)
			wantSkipped(t, b, "t", "canary", "staging", probes.SkipTargetBusy)
			if took := time.Since(b.began); took != 2500*time.Millisecond {
				t.Errorf("the answer came after %v, want after waiting for 1.5 s", took)
			}
			<-over
		})
	})
	t.Run("paused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := pullBubble(t, onRequest)
			defer b.stop()
			b.Pause(true)
			wantSkipped(t, b, "t", "canary", "staging", probes.SkipPaused)
		})
	})
	t.Run("retry_after", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, engine := pullBubble(t, onRequest)
			defer b.stop()
			if err := engine.SetFaults(fakellm.Fault{Kind: fakellm.TooManyRequests, Delay: time.Minute}); err != nil {
				t.Fatal(err)
			}
			if _, body := b.probe("t", "canary", "2"); !strings.Contains(body, `outcome="error",pool="t",probe="canary",target="t",target_env="staging"} 1`) {
				t.Errorf("the first scrape:\n%s", body)
			}
			wantSkipped(t, b, "t", "canary", "staging", probes.SkipRetryAfter)
		})
	})
	// One request a second is what production allows, however often it is scraped.
	t.Run("load_budget", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, engine := pullBubble(t, onRequest)
			defer b.stop()
			for range 3 {
				b.probe("p", "canary", "2")
			}
			wantSkipped(t, b, "p", "canary", "production", probes.SkipLoadBudget)
			b.at(time.Second)
			if code, body := b.probe("p", "canary", "2"); code != http.StatusOK || !strings.Contains(body, catalog.PullSuccess) {
				t.Errorf("a second later: status %d\n%s", code, body)
			}
			if got := engine.Stats().Received; got != 2 {
				t.Errorf("%d requests were sent, want 2", got)
			}
		})
	})
}

// What cannot be run this way is refused in one line, and nothing is sent.
func TestProbeRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, engine := pullBubble(t, onRequest)
		defer b.stop()
		for _, c := range []struct {
			query, timeout string
			code           int
			text           string
		}{
			{"target=t", "10", 400, "needs the names of a target and a probe of the configuration: /probe?target=T&probe=P"},
			{"probe=canary", "10", 400, "needs the names of a target and a probe of the configuration: /probe?target=T&probe=P"},
			{"target=http://10.0.0.1:8000&probe=canary", "10", 404, `target "http://10.0.0.1:8000" has no probe "canary" in the configuration`},
			{"target=p&probe=load", "10", 404, `target "p" has no probe "load" in the configuration`},
			{"target=t&probe=peak", "10", 400, "probe peak is a peak; /probe runs canaries, and loads whose duration is known"},
			{"target=t&probe=loop", "10", 400, "how long probe loop takes is not known beforehand: give it a request_rate or a duration, also of its warm-up"},
			{"target=t&probe=load", "5", 400, "probe load takes 5s by its plan, and the scrape waits for 4.5s: raise its scrape_timeout, or ask less"},
			{"target=t&probe=canary", "soon", 400, "read X-Prometheus-Scrape-Timeout-Seconds: must be a number of seconds above 0"},
			{"target=t&probe=canary", "NaN", 400, "read X-Prometheus-Scrape-Timeout-Seconds: must be a number of seconds above 0"},
		} {
			w := b.get("/probe?"+c.query, timeoutHeader, c.timeout)
			if w.Code != c.code || w.Body.String() != c.text+"\n" {
				t.Errorf("%s: %d %q, want %d %q", c.query, w.Code, w.Body.String(), c.code, c.text)
			}
		}
		if got := engine.Stats().Received; got != 0 {
			t.Errorf("%d requests were sent, want none", got)
		}
	})
}

// A shutdown answers the scrapes that wait for their turn, ends the run that goes on, and waits
// for it.
func TestShutdownEndsPulledRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := pullBubble(t, onRequest)
		bodies := make(chan string, 2)
		ask := func(probe string) {
			_, body := b.probe("t", probe, "60")
			bodies <- body
		}
		go ask("load")
		b.at(time.Second)
		go ask("canary")
		b.at(2 * time.Second)
		b.stop()
		for range 2 {
			body := <-bodies
			if !strings.Contains(body, `reason="paused"`) && !strings.Contains(body, `result="aborted",target="t",target_env="staging"} 1`) {
				t.Errorf("answer at the shutdown:\n%s", body)
			}
		}
		if took := time.Since(b.began); took != 2*time.Second {
			t.Errorf("the shutdown was over after %v, want at once", took)
		}
	})
}

// On a real socket: behind the exporter toolkit's passwords, as OpenMetrics, from the
// first to the last byte.
func TestProbeOverASocket(t *testing.T) {
	_, url := engineAt(t, nil)
	folder := folderOf(t, map[string]string{
		"web.yml":        "basic_auth_users: {prometheus: $2a$04$dwU/eFDVycGczdUb./qf0eJzmzj8ezQMzlflzw2/KvdsO6LwMieLi}",
		"inferbeat.yaml": strings.ReplaceAll(strings.Replace(onRequest, "enable_probe: true", "enable_probe: true, config_file: web.yml", 1), "http://10.0.0.1:8000", url),
	})
	d := daemonWith(t, Options{ConfigFiles: []string{filepath.Join(folder, "inferbeat.yaml")}, Version: "test"})
	ask := func(password string) (int, string, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL()+"/probe?target=t&probe=canary", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("prometheus", password)
		r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		r.Header.Set(timeoutHeader, "15")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Content-Type"), string(body)
	}
	if code, _, _ := ask("guess"); code != http.StatusUnauthorized {
		t.Errorf("with a wrong password: status %d, want 401", code)
	}
	code, kind, body := ask("scrape")
	want := `inferbeat_probe_success{model="m",pool="t",probe="canary",target="t",target_env="staging"} 1.0`
	if code != http.StatusOK || !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.Contains(body, want) || !strings.HasSuffix(body, "# EOF\n") {
		t.Errorf("status %d, %s, want %s:\n%s", code, kind, want, body)
	}
}
