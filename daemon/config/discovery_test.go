package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
)

const discoveredFleet = `
environments: {lab: {class: staging, max_in_flight: 2}}
workloads: {w: {input_tokens: 32, output_tokens: 8}}
probes:
  canary: {kind: canary, every: 30s, workload: w, timeouts: {total: 7s}}
targets:
  - {name: static, environment: development, backend: vllm, url: "http://static:1", probes: [canary]}
  - name: fleet
    environment: lab
    backend: sglang
    api_key: hunter2
    probes: [canary]
    labels: {gpu: h100}
    timeouts: {connect: 3s}
    metrics_url: ":9000"
    http_sd_configs: [{url: "http://inventory"}]
  - {name: fleet-b, environment: lab, backend: sglang, probes: [canary], pool: p, model: m, dns_sd_configs: [{names: [b]}]}
comparisons:
  - {name: any, a: static, b: fleet, workload: w}
  - {name: default-name, a: "fleet-10.0.0.2:8000", b: static, workload: w}
  - {name: own-name, a: fleet-b/replica-7, b: static, workload: w}
  - {name: static-only, a: static, b: static2, workload: w}
`

func targetNames(c *Config) string {
	var out []string
	for _, t := range c.Targets() {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

func comparisonNames(c *Config) string {
	var out []string
	for _, x := range c.Comparisons() {
		out = append(out, fmt.Sprintf("%s(%s,%s)", x.Spec.Probe, x.Reference.Name, x.Candidate.Name))
	}
	return strings.Join(out, " ")
}

// A discovered target is the entry's in everything but its address and what its labels
// say: no label can raise a limit or change who is asked with what key.
func TestDiscoveredTargetsAreTheirEntrys(t *testing.T) {
	text := strings.Replace(discoveredFleet, "  - {name: static-only, a: static, b: static2, workload: w}\n", "", 1)
	c := mustLoad(t, Source{}, text)
	if got, want := targetNames(c), "static"; got != want {
		t.Errorf("before discovery: got targets %q, want %q", got, want)
	}
	if got := comparisonNames(c); got != "" {
		t.Errorf("before discovery: got comparisons %q", got)
	}
	entries := c.Entries()
	if len(entries) != 2 || entries[0].Name != "fleet" || fmt.Sprint(entries[0].Mechanisms()) != "[http]" || fmt.Sprint(entries[1].Mechanisms()) != "[dns]" {
		t.Fatalf("got entries %+v", entries)
	}
	next, rejected := c.With([]Discovered{
		{Entry: "fleet", Address: "10.0.0.2:8000", URL: "http://10.0.0.2:8000", Labels: map[string]string{
			"gpu": "toaster", "rack": "7", "environment": "development", "target_env": "development", "probe": "x", "__hidden": "x", "a-b": "x", "long": strings.Repeat("x", 201),
		}},
		{Entry: "fleet-b", Name: "replica-7", Address: "10.0.1.7:8000/v1", URL: "http://10.0.1.7:8000/v1", Pool: "q", Model: "n"},
	}, nil)
	if len(rejected) > 0 {
		t.Errorf("rejected %+v", rejected)
	}
	if got, want := targetNames(next), "fleet-10.0.0.2:8000 replica-7 static"; got != want {
		t.Fatalf("got targets %q, want %q", got, want)
	}
	want := []probes.Target{
		{Name: "fleet-10.0.0.2:8000", Pool: "fleet", Site: "lab", Environment: probes.Staging, Backend: "sglang", BaseURL: "http://10.0.0.2:8000",
			MetricsURL: "http://10.0.0.2:9000/metrics", Labels: map[string]string{"gpu": "h100", "rack": "7", "environment": "development"}},
		{Name: "replica-7", Pool: "q", Site: "lab", Environment: probes.Staging, Backend: "sglang", BaseURL: "http://10.0.1.7:8000/v1", Model: "n"},
	}
	if diff := cmp.Diff(want, next.Targets()[:2], cmpopts.IgnoreFields(probes.Target{}, "Connection", "Timeouts")); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if got := next.Targets()[0].Connection.APIKey.Reveal(); got != "hunter2" {
		t.Errorf("got key %q, want the entry's", got)
	}
	pair := next.Pairs()[0]
	if pair.Target.Name != "fleet-10.0.0.2:8000" || pair.Spec.Probe != "canary" || pair.Target.Timeouts.Total.Seconds() != 7 || pair.Target.Timeouts.Connect.Seconds() != 3 {
		t.Errorf("got pair %+v", pair)
	}
	if got, want := comparisonNames(next), "any(static,fleet-10.0.0.2:8000) default-name(fleet-10.0.0.2:8000,static) own-name(replica-7,static)"; got != want {
		t.Errorf("got comparisons %q, want %q", got, want)
	}
	if got := next.EntryOf("replica-7"); got != "fleet-b" || next.EntryOf("static") != "" {
		t.Errorf("replica-7 is of entry %q", got)
	}
	if got, want := next.SHA256(), c.SHA256(); got != want {
		t.Error("what is discovered has changed the hash of the configuration")
	}
	if got := targetNames(c); got != "static" {
		t.Errorf("the configuration itself has changed: %q", got)
	}
	without := next.Without(map[string]bool{"replica-7": true})
	if got, want := targetNames(without)+"; "+comparisonNames(without), "fleet-10.0.0.2:8000 static; any(static,fleet-10.0.0.2:8000) default-name(fleet-10.0.0.2:8000,static)"; got != want || len(without.Pairs()) != 2 {
		t.Errorf("without one: got %q, want %q", got, want)
	}
}

// The first by name stands for the entry in a comparison.
func TestComparisonWithAnEntry(t *testing.T) {
	c := mustLoad(t, Source{}, strings.Replace(discoveredFleet, "  - {name: static-only, a: static, b: static2, workload: w}\n", "", 1))
	next, _ := c.With([]Discovered{{Entry: "fleet", Name: "z", URL: "http://z:1"}, {Entry: "fleet", Name: "y", URL: "http://y:1"}}, func(name string) bool { return name != "z" })
	if got, want := comparisonNames(next)+"; "+targetNames(next), "any(static,y); static y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRejectedTargets(t *testing.T) {
	c := mustLoad(t, Source{}, strings.Replace(discoveredFleet, "  - {name: static-only, a: static, b: static2, workload: w}\n", "", 1))
	next, rejected := c.With([]Discovered{
		{Entry: "fleet", Name: "a", URL: "http://first:1"},
		{Entry: "fleet-b", Name: "a", URL: "http://second:1"},
		{Entry: "fleet", Name: "static", URL: "http://third:1"},
		{Entry: "fleet", Name: "no good", URL: "http://fourth:1"},
		{Entry: "fleet", Name: "b", URL: "http://me:hunter2@fifth:1"},
		{Entry: "fleet", Address: "10.0.0.1", URL: "ftp://10.0.0.1"},
		{Entry: "fleet", Name: strings.Repeat("x", 201), URL: "http://sixth:1"},
		{Entry: "fleet", Address: "[::1]:8000", URL: "http://[::1]:8000"},
		{Entry: "unknown", Name: "c", URL: "http://seventh:1"},
	}, nil)
	if got, want := targetNames(next), "a fleet--::1-:8000 static"; got != want {
		t.Errorf("got targets %q, want %q", got, want)
	}
	if got := next.Targets()[0].BaseURL; got != "http://first:1" {
		t.Errorf("the first of two has gone: %s", got)
	}
	twice := "another target has that name: let relabel_configs write one of its own into the label target"
	name := "its name must match ^[a-zA-Z0-9][a-zA-Z0-9_.:/-]*$ and have at most 200 letters: see the label target of relabel_configs"
	want := []Rejected{
		{"fleet-b", "a", twice},
		{"fleet", "static", twice},
		{"fleet", "no-good", name},
		{"fleet", "b", "its address gives no URL: must not hold a user, a password, a query or a fragment: send credentials with api_key_file or headers"},
		{"fleet", "fleet-10.0.0.1", "its address gives no URL: must start with http:// or https://"},
		{"fleet", strings.Repeat("x", 200), name},
	}
	if diff := cmp.Diff(want, rejected); diff != "" {
		t.Errorf("rejected (-want +got):\n%s", diff)
	}
}
