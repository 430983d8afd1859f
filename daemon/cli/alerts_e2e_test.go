//go:build e2e

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// notification is an alert as a receiver got it.
type notification struct {
	at       time.Time
	receiver string
	status   string // firing or resolved
	alert    string
	labels   map[string]string
	began    time.Time
}

// inbox is the webhook of every receiver.
type inbox struct {
	mu  sync.Mutex
	all []notification
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Alerts []struct {
			Status   string
			Labels   map[string]string
			StartsAt time.Time
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range message.Alerts {
		b.all = append(b.all, notification{time.Now(), strings.Trim(r.URL.Path, "/"), a.Status, a.Labels["alertname"], a.Labels, a.StartsAt})
	}
}

// got finds the first notification that is wanted, since a time.
func (b *inbox) got(since time.Time, receiver, status, alert string) (notification, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.all {
		if n.at.After(since) && n.receiver == receiver && n.status == status && n.alert == alert {
			return n, true
		}
	}
	return notification{}, false
}

// rehearsal is a daemon, Prometheus and Alertmanager as they are shipped, with shortened
// rules, simulated engines and an inbox.
type rehearsal struct {
	*testing.T
	inbox      *inbox
	prometheus string
	daemon     *process
	serving    []string // the command of the daemon
	config     string   // its file
	engines    map[string]*fakellm.Engine
	standIn    *standIn
	line       []string
}

// rehearse starts everything, with rules that are shorter by a factor: of 60, what takes
// a minute takes a second.
func rehearse(t *testing.T, faster string) *rehearsal {
	dir := t.TempDir()
	binary := filepath.Join(dir, "inferbeat")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/inferbeat/inferbeat").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	r := &rehearsal{T: t, inbox: &inbox{}, engines: map[string]*fakellm.Engine{}}
	mail := httptest.NewServer(r.inbox)
	t.Cleanup(mail.Close)

	urls := map[string]string{}
	for _, name := range []string{"falls", "slows", "holds"} {
		engine, err := fakellm.New(fakellm.Config{Model: "m", Script: &fakellm.Script{TTFT: []time.Duration{10 * time.Millisecond}, ITL: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(engine.Handler())
		t.Cleanup(server.Close)
		r.engines[name], urls[name] = engine, server.URL
	}
	listen, config := freeAddress(t), filepath.Join(dir, "inferbeat.yaml")
	writeText(t, config, fmt.Sprintf(`
storage: {path: store}
environments: {production: {max_in_flight: 64, max_rate: inf, tokens_per_day: 4G}}
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8}}
probes:
  canary:
    kind: canary
    every: 1s
    workload: w
    num_prompts: 25
    request_rate: 50
    stale_after: 1m
    timeouts: {first_token: 2s, total: 3s}
    slos: [{name: fast, objective: 99%%, ttft: 1s}]
    limits: {ttft: {p99: {warning: 200ms, critical: 300ms}}}
targets:
  - {name: falls, pool: falls, environment: production, backend: vllm, url: %q, probes: [canary]}
  - {name: slows, pool: slows, environment: production, backend: vllm, url: %q, probes: [canary]}
  - {name: holds, pool: holds, environment: production, backend: vllm, url: %q, probes: [canary]}
`, urls["falls"], urls["slows"], urls["holds"]))
	r.config, r.serving = config, []string{binary, "serve", "--config", config, "--listen", listen}
	r.start()

	r.rules(binary, dir, listen, mail.URL, faster)
	r.serve(dir, listen)
	return r
}

// start starts the daemon.
func (r *rehearsal) start() {
	r.daemon = startProcess(r.T, r.serving[0], r.serving[1:]...)
	listen := r.serving[len(r.serving)-1]
	eventually(r.T, "the daemon is ready", func() bool { code, _ := fetch("http://" + listen + "/-/ready"); return code == 200 })
}

// rules writes the rules and the routes to the inbox.
func (r *rehearsal) rules(binary, dir, daemon, mail, faster string) {
	for _, args := range [][]string{
		{"--output-dir", dir, "--faster", faster, "--runbook-base-url", "http://" + daemon + "/runbooks"},
		{"--output-dir", dir, "--faster", faster, "--format", "alertmanager",
			"--webhook", fmt.Sprintf("default=%[1]s/default,pager=%[1]s/pager,deadman=%[1]s/deadman", mail)},
	} {
		if out, err := exec.Command(binary, append([]string{"alerts"}, args...)...).CombinedOutput(); err != nil {
			r.Fatalf("alerts %v: %v\n%s", args, err, out)
		}
	}
	for _, check := range [][]string{
		{tool(r.T, "E2E_PROMTOOL"), "check", "rules", filepath.Join(dir, "inferbeat.yml")},
		{tool(r.T, "E2E_AMTOOL"), "check-config", filepath.Join(dir, "alertmanager.yml")},
	} {
		if out, err := exec.Command(check[0], check[1:]...).CombinedOutput(); err != nil {
			r.Fatalf("%v: %v\n%s", check, err, out)
		}
	}
}

// serve starts Prometheus and Alertmanager on what has been written.
func (r *rehearsal) serve(dir, daemon string) {
	alertmanager := freeAddress(r.T)
	startProcess(r.T, tool(r.T, "E2E_ALERTMANAGER"), "--config.file="+filepath.Join(dir, "alertmanager.yml"), "--storage.path="+filepath.Join(dir, "am"),
		"--web.listen-address="+alertmanager, "--cluster.listen-address=")
	r.prometheus, r.standIn = freeAddress(r.T), &standIn{}
	prober := httptest.NewServer(r.standIn)
	r.Cleanup(prober.Close)
	config := filepath.Join(dir, "prometheus.yml")
	writeText(r.T, config, fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [inferbeat.yml]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs:
  # The machine of a test may be too busy to measure on. What doubt does to alerts is
  # rehearsed with the other prober.
  - {job_name: inferbeat, static_configs: [{targets: [%q]}],
     metric_relabel_configs: [{source_labels: [__name__], regex: "inferbeat_(client_saturated|selftest_.+)", action: drop}]}
  - {job_name: nightly, static_configs: [{targets: [%q]}]}
`, alertmanager, daemon, strings.TrimPrefix(prober.URL, "http://")))
	startProcess(r.T, tool(r.T, "E2E_PROMETHEUS"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+r.prometheus,
		"--rules.alert.resend-delay=2s")
	for _, address := range []string{alertmanager, r.prometheus} {
		eventually(r.T, address+" is ready", func() bool { code, _ := fetch("http://" + address + "/-/ready"); return code == 200 })
	}
}

// standIn is a second prober, whose nights and whose doubts are told and not waited for.
type standIn struct {
	mu                 sync.Mutex
	verdict, saturated int
}

func (p *standIn) says(verdict, saturated int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verdict, p.saturated = verdict, saturated
}

func (p *standIn) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const pair = `target="night",pool="night",target_env="staging",model="m",probe="nightly"`
	fmt.Fprintf(w, "inferbeat_regression_verdict{%s,metric=\"tpot_p50\"} %d\ninferbeat_client_saturated %d\n", pair, p.verdict, p.saturated)
	fmt.Fprintf(w, "inferbeat_result_timestamp_seconds{%s} %d\ninferbeat_probe_stale_after_seconds{%s} 3600\n", pair, time.Now().Unix(), pair)
}

// state is that of an alert in Prometheus: pending, firing or empty.
func (r *rehearsal) state(alert string) string {
	_, body := fetch("http://" + r.prometheus + "/api/v1/alerts")
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		r.Fatalf("read alerts of Prometheus: %v: %s", err, body)
	}
	best := ""
	for _, a := range answer.Data.Alerts {
		if a.Labels["alertname"] == alert && (best == "" || a.State == "firing") {
			best = a.State
		}
	}
	return best
}

// follow waits until an alert has gone all the way, and writes down when.
func (r *rehearsal) follow(what, alert, receiver string, since time.Time) notification {
	r.Helper()
	var pending, firing time.Duration
	eventually(r.T, alert+" is pending", func() bool { pending = time.Since(since); return r.state(alert) != "" })
	eventually(r.T, alert+" fires", func() bool { firing = time.Since(since); return r.state(alert) == "firing" })
	var n notification
	eventually(r.T, alert+" at "+receiver, func() (ok bool) { n, ok = r.inbox.got(since, receiver, "firing", alert); return ok })
	r.note("%-26s %-28s pending %5.1f s, firing %5.1f s, %s has it %5.1f s", what, alert, pending.Seconds(), firing.Seconds(), receiver, n.at.Sub(since).Seconds())
	return n
}

func (r *rehearsal) resolved(what, alert, receiver string, since time.Time) {
	r.Helper()
	var n notification
	eventually(r.T, alert+" is resolved at "+receiver, func() (ok bool) { n, ok = r.inbox.got(since, receiver, "resolved", alert); return ok })
	r.note("%-26s %-28s resolved at %s %5.1f s", what, alert, receiver, n.at.Sub(since).Seconds())
}

func (r *rehearsal) note(format string, args ...any) {
	r.line = append(r.line, fmt.Sprintf(format, args...))
}

func (r *rehearsal) timeline() {
	r.Helper()
	r.Log("timeline, from the fault, with shortened rules:\n" + strings.Join(r.line, "\n"))
}

// never checks that an alert which another one explains reached nobody.
func (r *rehearsal) never(since time.Time, receiver, alert, pool string) {
	r.Helper()
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	for _, n := range r.inbox.all {
		if n.at.After(since) && n.receiver == receiver && n.alert == alert && n.status == "firing" && n.labels["pool"] == pool {
			r.Errorf("%s of pool %s reached %s, want it inhibited", alert, pool, receiver)
		}
	}
}

// The whole way from a fault to somebody's pager, sixty times as fast as in earnest: an
// outage, a slow replica, a bad night and a dead prober each get through, end, and
// silence what they explain.
func TestE2EAlertsReachThePager(t *testing.T) {
	t.Parallel() // it waits more than it works
	r := rehearse(t, "60")
	eventually(t, "a heartbeat at the dead man's switch", func() bool { _, ok := r.inbox.got(time.Time{}, "deadman", "firing", "InferbeatHeartbeat"); return ok })
	eventually(t, "a result of every target", func() bool {
		v, ok := query(t, r.prometheus, `count(inferbeat_result_samples{signal="ttft"} >= 100)`)
		return ok && v == 3
	})
	quiet := time.Now()

	outage := time.Now()
	set(t, r.engines["falls"], fakellm.Fault{Kind: fakellm.Unavailable})
	down := r.follow("outage", "InferbeatPoolDown", "pager", outage)
	if down.labels["pool"] != "falls" || down.labels["severity"] != "critical" {
		t.Errorf("paged with %v, want pool falls, critical", down.labels)
	}

	slow := time.Now()
	set(t, r.engines["slows"], fakellm.Fault{Kind: fakellm.Slow, Factor: 40})
	if n := r.follow("slow first tokens", "InferbeatP99LatencyCritical", "pager", slow); n.labels["target"] != "slows" || n.labels["signal"] != "ttft" {
		t.Errorf("paged with %v, want target slows, signal ttft", n.labels)
	}

	night := time.Now()
	r.standIn.says(2, 0)
	if n := r.follow("bad night", "InferbeatRegression", "default", night); n.labels["metric"] != "tpot_p50" || n.labels["target"] != "night" {
		t.Errorf("told of %v, want metric tpot_p50 of target night", n.labels)
	}

	healed := time.Now()
	set(t, r.engines["falls"])
	set(t, r.engines["slows"])
	r.standIn.says(0, 0)
	r.resolved("outage over", "InferbeatPoolDown", "pager", healed)
	r.resolved("fast again", "InferbeatP99LatencyCritical", "pager", healed)
	r.never(quiet, "default", "InferbeatTargetFailing", "falls")
	r.never(quiet, "pager", "InferbeatPoolDown", "holds")
	r.never(quiet, "pager", "InferbeatP99LatencyCritical", "holds")

	// What a prober measures that cannot keep its own times wakes nobody.
	r.resolved("good night", "InferbeatRegression", "default", healed)
	r.standIn.says(0, 1)
	doubt := time.Now()
	r.follow("prober without CPU", "InferbeatClientSaturated", "default", doubt)
	r.standIn.says(2, 1)
	eventually(t, "the regression fires in Prometheus", func() bool { return r.state("InferbeatRegression") == "firing" })

	dead := time.Now()
	if err := r.daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.follow("dead prober", "InferbeatAbsent", "pager", dead)
	eventually(t, "the heartbeat to end in Prometheus", func() bool { return r.state("InferbeatHeartbeat") == "" })
	r.never(dead, "default", "InferbeatProbeStale", "holds")
	r.never(doubt, "default", "InferbeatRegression", "night")
	r.timeline()
}

func set(t *testing.T, engine *fakellm.Engine, faults ...fakellm.Fault) {
	t.Helper()
	if err := engine.SetFaults(faults...); err != nil {
		t.Fatal(err)
	}
}
