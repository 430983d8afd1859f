package catalog

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesFollowTheRules(t *testing.T) {
	word := regexp.MustCompile(`^inferbeat(_[a-z0-9]+)+$`)
	seen := map[string]bool{}
	for _, m := range All() {
		if !word.MatchString(m.Name) {
			t.Errorf("name %q: want inferbeat_ and lower-case words", m.Name)
		}
		if seen[m.Name] {
			t.Errorf("name %q is listed twice", m.Name)
		}
		seen[m.Name] = true
		if got, want := strings.HasSuffix(m.Name, "_total"), m.Kind == Counter; got != want {
			t.Errorf("%s: has suffix _total = %v, want %v for a %s", m.Name, got, want, m.Kind)
		}
		if got, want := strings.HasSuffix(m.Name, "_info"), m.Kind == Info; got != want {
			t.Errorf("%s: has suffix _info = %v, want %v for a %s", m.Name, got, want, m.Kind)
		}
		if !strings.HasPrefix(m.Help, "["+string(m.Stability)+"] ") || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: help %q, want its stability first and a full stop last", m.Name, m.Help)
		}
		if m.Updated == "" || m.Staleness == "" {
			t.Errorf("%s: updated %q, staleness %q, want both", m.Name, m.Updated, m.Staleness)
		}
		if got, want := len(m.Buckets) > 0, m.Kind == Histogram; got != want {
			t.Errorf("%s: has buckets = %v, want %v", m.Name, got, want)
		}
		if !slices.IsSorted(m.Buckets) || len(slices.Compact(slices.Clone(m.Buckets))) != len(m.Buckets) {
			t.Errorf("%s: buckets %v, want ascending", m.Name, m.Buckets)
		}
	}
}

func TestLabelsAreDocumented(t *testing.T) {
	known := map[string]bool{}
	for _, l := range Labels() {
		known[l.Name] = true
	}
	// These would come back as exported_* or be overwritten by the scraper.
	taken := []string{"job", "instance", "pod", "namespace", "service", "endpoint", "container", "node", "env", "cluster"}
	for _, m := range All() {
		for _, l := range m.Labels {
			if slices.Contains(taken, l) {
				t.Errorf("%s: label %s belongs to Prometheus or the operator", m.Name, l)
			}
			if m.Kind != Info && !known[l] {
				t.Errorf("%s: label %s is not documented", m.Name, l)
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(m.Labels)))) != len(m.Labels) {
			t.Errorf("%s: labels %v, want each once", m.Name, m.Labels)
		}
	}
}

func TestLookup(t *testing.T) {
	got, ok := Lookup(ResultLatency)
	if !ok {
		t.Fatalf("Lookup(%q) found nothing", ResultLatency)
	}
	want := Metric{
		Name: "inferbeat_result_latency_seconds", Kind: Gauge, Unit: "seconds", Stability: Beta,
		Help:    "[BETA] Exact latency statistic of the last valid result.",
		Labels:  []string{"target", "pool", "target_env", "model", "probe", "signal", "stat"},
		Updated: OnResult, Staleness: WithResult, Better: Lower,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Lookup(%q) (-want +got):\n%s", ResultLatency, d)
	}
	if m, ok := Lookup("inferbeat_result_latency"); ok {
		t.Errorf("Lookup of a name that does not exist = %+v, want nothing", m)
	}
}

func TestUnits(t *testing.T) {
	tests := map[string]string{
		TimeToFirstToken:            "seconds",
		InputTokens:                 "tokens",
		Requests:                    "requests",
		ResultSuccess:               "ratio",
		ResultOutputTokensPerSecond: "tokens_per_second",
		ResultRequestsPerSecond:     "requests_per_second",
		RunActive:                   "",
		BuildInfo:                   "",
	}
	for name, want := range tests {
		m, ok := Lookup(name)
		if !ok || m.Unit != want {
			t.Errorf("unit of %s = %q, %v, want %q", name, m.Unit, ok, want)
		}
	}
}

func TestPerPair(t *testing.T) {
	tests := map[string]bool{Requests: true, ResultLatency: true, RunActive: true,
		ConnectionPhase: false, RequestSendLag: false, TargetInfo: false, SchedulerLag: false}
	for name, want := range tests {
		m, _ := Lookup(name)
		if got := m.PerPair(); got != want {
			t.Errorf("%s: PerPair() = %v, want %v", name, got, want)
		}
	}
}

// A quantile of a cold start or a saturated server must not stick at the top bound.
func TestFirstTokenBucketsReachTenMinutes(t *testing.T) {
	m, _ := Lookup(TimeToFirstToken)
	if got := m.Buckets[len(m.Buckets)-1]; got < 600 {
		t.Errorf("top bucket of %s = %g s, want at least 600", m.Name, got)
	}
}

func TestAllIsACopy(t *testing.T) {
	All()[0].Name = "changed"
	if got := All()[0].Name; got != TimeToFirstToken {
		t.Errorf("first metric = %q after a caller changed its copy, want %q", got, TimeToFirstToken)
	}
}

func TestPageIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Markdown(), string(got)); d != "" {
		t.Errorf("METRICS.md is not what the catalogue prints; run go generate ./exporters/catalog (-want +got):\n%s", d)
	}
}
