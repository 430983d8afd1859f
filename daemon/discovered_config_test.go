package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/discovery"
)

const discoveredHead = `workloads: {w: {input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 30s, workload: w}}
`

func loadText(t *testing.T, env []string, texts ...string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for i, text := range texts {
		file := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	c, err := LoadConfig(config.Source{Files: files, Env: env})
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	return c, err
}

// Mistakes inside of service discovery are told like all others: all at once, with
// their file and line.
func TestDiscoveryMistakesHaveFileAndLine(t *testing.T) {
	_, err := loadText(t, []string{"TOKEN=hunter2hunter2", "PORT=eight"}, discoveredHead+`targets:
  - name: fleet
    environment: staging
    backend: sglang
    url: http://also:1
    probes: [canary, nightly]
    file_sd_configs:
      - {files: [targets.json], refresh_intervall: 5m}
      - files:
          - targets.txt
    http_sd_configs: [{url: "http://me:secret99@inventory"}, {url: "http://a", basic_auth: "${TOKEN}"}]
    dns_sd_configs:
      - names: [a]
        type: A
        port: ${PORT}
    kubernetes_sd_configs: {role: pod}
    relabel_configs:
      - source_labels: [x]
        target_labl: ${1}
  - {name: rules, backend: sglang, url: "http://h:1", probes: [], relabel_configs: [{action: labeldrop, regex: x}]}
  - {name: none, backend: sglang, probes: []}
  - {name: other, backend: sglang, probes: [], consul_sd_configs: [{server: x}]}
comparisons:
  - {name: c, a: fleet, b: flet-10.0.0.1, workload: w}
`)
	want := `0.yaml:7: targets[fleet].url: must not be written beside service discovery, which gives the addresses
0.yaml:8: targets[fleet].probes: there is no probe "nightly"
0.yaml:10: targets[fleet].file_sd_configs: unknown key refresh_intervall, did you mean "refresh_interval"?
0.yaml:11: targets[fleet].file_sd_configs: path name "targets.txt" is not valid for file discovery
0.yaml:13: targets[fleet].http_sd_configs: holds a string where Prometheus wants a mapping or another kind of value
0.yaml:13: targets[fleet].http_sd_configs: must not hold a user or a password in url: send them with basic_auth
0.yaml:17: targets[fleet].dns_sd_configs: holds a string where Prometheus wants a number
0.yaml:18: targets[fleet].kubernetes_sd_configs: must be a list, not a mapping
0.yaml:21: targets[fleet].relabel_configs: unknown key target_labl, did you mean "target_label"?
0.yaml:22: targets[rules].relabel_configs: has no effect without service discovery: add one of file_sd_configs, http_sd_configs, dns_sd_configs, kubernetes_sd_configs
0.yaml:23: targets[none]: needs url
0.yaml:24: targets[other]: needs url
0.yaml:24: targets[other].consul_sd_configs: unknown key
0.yaml:26: comparisons[c].b: there is no target "flet-10.0.0.1"`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// The limits of the entry's environment hold for what is discovered: a load that they do
// not allow is refused before anything is.
func TestDiscoveryCannotRaiseLimits(t *testing.T) {
	_, err := loadText(t, nil, `workloads: {w: {input_tokens: 32, output_tokens: 8}}
probes: {bench: {kind: load, request_rate: 8, num_prompts: 100, workload: w}}
targets: [{name: fleet, backend: sglang, probes: [bench], dns_sd_configs: [{names: [a]}]}]
comparisons: [{name: c, a: fleet, b: fleet/x, probe: bench}]
`)
	for _, want := range []string{
		"probe bench exceeds environment production: kind load is not among its kinds [canary]",
		"probe bench exceeds environment production: request_rate 8, max_rate is 1",
		"comparisons[c].a: exceeds environment production: kind load is not among its kinds [canary]",
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// Variables are replaced in what finds targets and not in the rules, where ${1} is a
// group. Nothing secret is printed, and what is printed can be loaded.
func TestDiscoveryIsPrintedWithoutSecrets(t *testing.T) {
	env := []string{"HOST=inventory.internal", "TOKEN=hunter2hunter2", "SECONDS=30"}
	text := discoveredHead + `targets:
  - name: fleet
    backend: sglang
    probes: [canary]
    http_sd_configs: &sd
      - url: https://${HOST}/llm?key=${TOKEN}
        refresh_interval: ${SECONDS}s
        authorization: {credentials: "${TOKEN}"}
    relabel_configs: &rules
      - {source_labels: [a], regex: "(.+)", target_label: target, replacement: "x-${1}"}
  - {name: fleet2, backend: sglang, probes: [canary], http_sd_configs: *sd, relabel_configs: *rules, file_sd_configs: [{files: [t.json]}]}
`
	c, err := loadText(t, env, text)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(printed), "hunter2") || strings.Contains(fmt.Sprintf("%v %+v", c.Entries(), c.Entries()), "hunter2") {
		t.Errorf("a secret is shown:\n%s", printed)
	}
	for _, want := range []string{"url: https://${HOST}/llm?<secret>", "refresh_interval: 30s", "credentials: <secret>", "replacement: x-${1}", "/t.json"} {
		if !strings.Contains(string(printed), want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
	again, err := loadText(t, env, string(printed))
	if err != nil {
		t.Fatalf("load what was printed: %v", err)
	}
	if got, want := again.SHA256(), c.SHA256(); got != want {
		t.Errorf("loaded again it is another configuration:\n%s", printed)
	}
	entries, err := entriesOf(c)
	if err != nil || len(entries) != 2 {
		t.Fatalf("got %d entries, %v", len(entries), err)
	}
	// A later file replaces a list as a whole.
	c, err = loadText(t, env, text, "targets: [{name: fleet, http_sd_configs: [{url: \"http://b\"}]}]\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Entries()[0].Sections[0].YAML.Reveal(); got != "- url: \"http://b\"\n" {
		t.Errorf("got %q, want the second file's list", got)
	}
}

func found(entry string, addresses ...string) (out []discovery.Found) {
	for _, a := range addresses {
		out = append(out, discovery.Found{Entry: entry, Address: a, URL: "http://" + a})
	}
	return out
}

func namesOf(c *config.Config) string {
	var out []string
	for _, t := range c.Targets() {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

// Who has a name keeps it, whoever comes with it later.
func TestFirstStays(t *testing.T) {
	c, err := loadText(t, nil, discoveredHead+`targets: [{name: f, backend: sglang, probes: [canary], dns_sd_configs: [{names: [a]}]}]
`)
	if err != nil {
		t.Fatal(err)
	}
	list := []discovery.Found{{Entry: "f", Name: "n", Address: "a:1", URL: "http://a:1"}, {Entry: "f", Name: "n", Address: "b:1", URL: "http://b:1"}}
	for url, there := range map[string]map[string]string{
		"http://a:1": nil,
		"http://b:1": {"http://b:1": "n"},
	} {
		next, rejected := expand(c, list, there, Shard{})
		if len(next.Targets()) != 1 || next.Targets()[0].BaseURL != url || len(rejected) != 1 {
			t.Errorf("with %v there: got %+v and %+v", there, next.Targets(), rejected)
		}
	}
}

// Beyond the limit of series whole targets are rejected, the last by name, whatever the
// order in which they come.
func TestSeriesLimitRejectsWholeTargets(t *testing.T) {
	load := func(most int) *config.Config {
		c, err := loadText(t, nil, fmt.Sprintf("metrics: {max_series: %d}\n", most)+discoveredHead+`targets:
  - {name: z, backend: sglang, url: "http://z:1", probes: [canary]}
  - {name: f, backend: sglang, model: m, probes: [canary], dns_sd_configs: [{names: [a]}]}
`)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	list := found("f", "c:1", "a:1", "b:1", "d:1")
	whole, _ := expand(load(1e6), list, nil, Shard{})
	if got, want := namesOf(whole), "f-a:1 f-b:1 f-c:1 f-d:1 z"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	one := NewPlan(load(1e6), time.Now(), 0).Series
	all := NewPlan(whole, time.Now(), 0).Series
	perTarget := (all - one) / 4
	for most, want := range map[int]string{
		all:               "f-a:1 f-b:1 f-c:1 f-d:1 z",
		all - 1:           "f-a:1 f-b:1 f-c:1 z",
		one + perTarget:   "f-a:1 z",
		one + perTarget/2: "z",
		one:               "z",
	} {
		next, rejected := expand(load(most), list, nil, Shard{})
		if got := namesOf(next); got != want || len(next.Targets())+len(rejected) != 5 || len(next.Pairs()) != len(next.Targets()) {
			t.Errorf("limit %d: got %q and %d rejected, want %q", most, got, len(rejected), want)
		}
		for _, r := range rejected {
			if r.Entry != "f" || r.Reason != beyondMaxSeries {
				t.Errorf("limit %d: got %+v", most, r)
			}
		}
	}
}

// Every target is in one shard, and none has much more than its share.
func TestShardsShareTargets(t *testing.T) {
	c, err := loadText(t, nil, discoveredHead+`targets:
  - {name: static, backend: sglang, url: "http://z:1", probes: [canary]}
  - {name: f, backend: sglang, probes: [canary], dns_sd_configs: [{names: [a]}]}
comparisons: [{name: c, a: static, b: f, workload: w}]
`)
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for i := range 300 {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d:8000", i))
	}
	seen, comparisons := map[string]int{}, 0
	for i := range 3 {
		next, rejected := expand(c, found("f", addresses...), nil, Shard{Index: i, Of: 3})
		for _, target := range next.Targets() {
			seen[target.Name]++
		}
		if n := len(next.Targets()); n < 80 || n > 120 || len(rejected) > 0 {
			t.Errorf("shard %d has %d targets, %d rejected, want about 100", i, n, len(rejected))
		}
		comparisons += len(next.Comparisons())
	}
	if len(seen) != 301 || comparisons != 1 {
		t.Errorf("got %d targets and %d comparisons, want 301 and 1", len(seen), comparisons)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is in %d shards", name, n)
		}
	}
}

// A variable and a flag may hold a section too.
func TestDiscoveryFromTheEnvironment(t *testing.T) {
	text := discoveredHead + `targets: [{name: f, backend: sglang, probes: [canary], dns_sd_configs: [{names: [a]}]}]
`
	c, err := loadText(t, []string{"INFERBEAT_TARGETS__F__DNS_SD_CONFIGS=[{names: [b], port: 8000, type: A}]"}, text)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Entries()[0].Sections[0].YAML.Reveal(); got != "- names:\n    - b\n  port: 8000\n  type: A\n" {
		t.Errorf("got %q", got)
	}
	_, err = loadText(t, []string{"INFERBEAT_TARGETS__F__DNS_SD_CONFIGS=[{nams: [b]}]"}, text)
	want := "environment variable INFERBEAT_TARGETS__F__DNS_SD_CONFIGS: targets[f].dns_sd_configs: unknown key nams, did you mean \"names\"?"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
