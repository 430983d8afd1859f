package prom

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/probes"
)

// pulledRun is one whose numbers are those of a result.
func pulledRun(result probes.RunResult, n int) *probes.Run {
	return &probes.Run{
		Result: result, Validity: probes.Validity{State: probes.Valid},
		Summary: probes.Summary{
			Completed: 3, Failed: 2, InputTokens: probes.Known(90), OutputTokens: probes.Known(12), OutputThroughput: probes.Known(6.5),
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: n, Mean: 0.2, Stddev: 0.01, Min: 0.1, P50: 0.25, P90: 0.3, P95: 0.35, P99: 0.4, Max: 0.5}},
		},
	}
}

// pulledFamilies are those of an answer about a run, and of one about none.
func pulledFamilies(t *testing.T, s *stage) []*dto.MetricFamily {
	t.Helper()
	ran, err := s.gatherPulled(Pulled{Pair: canaryOnA, Start: epoch, Elapsed: time.Second, Run: pulledRun(probes.RunSuccess, 200)})
	if err != nil {
		t.Fatal(err)
	}
	skipped, err := s.gatherPulled(Pulled{Pair: canaryOnA, Skipped: probes.SkipOverlap})
	if err != nil {
		t.Fatal(err)
	}
	return append(ran, skipped...)
}

// values are the samples of an answer, without the labels of its pair.
func values(t *testing.T, h http.Handler) []string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/probe", nil))
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, pair := range []string{`model="llama-3",`, `pool="llama",`, `probe="canary",`, `target="a",`, `,target_env="production"`, `target_env="production"`} {
			line = strings.Replace(line, pair, "", 1)
		}
		out = append(out, strings.TrimPrefix(strings.TrimSpace(line), "inferbeat_probe_"))
	}
	return out
}

func TestAnswerSaysWhatBecameOfTheRun(t *testing.T) {
	s := newStage(t, nil, canary())
	unbelieved := pulledRun(probes.RunInvalid, 200)
	unbelieved.Validity.State = probes.Invalid
	requests := []string{`requests{outcome="cancelled"} 0`, `requests{outcome="dropped"} 0`, `requests{outcome="error"} 2`, `requests{outcome="success"} 3`}
	results := func(had string) (out []string) {
		for _, r := range []string{"aborted", "failed", "invalid", "success"} {
			value := "0"
			if r == had {
				value = "1"
			}
			out = append(out, `result{result="`+r+`"} `+value)
		}
		return out
	}
	concat := func(parts ...[]string) (out []string) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		pulled Pulled
		want   []string
	}{
		{"skipped", Pulled{Skipped: probes.SkipProberBusy}, []string{`skipped{reason="prober_busy"} 1`}},
		{"not over", Pulled{Start: epoch, Elapsed: 9500 * time.Millisecond}, []string{
			"duration_seconds{} 9.5", "start_timestamp_seconds{} 1.8e+09", "success{} 0", "timed_out{} 1",
		}},
		{"success of five requests", Pulled{Start: epoch, Elapsed: time.Second, Run: pulledRun(probes.RunSuccess, 5)}, concat(
			[]string{"duration_seconds{} 1", "input_tokens{} 90",
				`latency_seconds{signal="ttft",stat="max"} 0.5`, `latency_seconds{signal="ttft",stat="mean"} 0.2`, `latency_seconds{signal="ttft",stat="p50"} 0.25`,
				"output_tokens{} 12", "output_tokens_per_second{} 6.5"},
			requests, results("success"), []string{"start_timestamp_seconds{} 1.8e+09", "success{} 1", "suspect{} 0", "timed_out{} 0"})},
		{"failure of 20", Pulled{Start: epoch, Elapsed: time.Second, Run: pulledRun(probes.RunFailed, 20)}, concat(
			[]string{"duration_seconds{} 1", "input_tokens{} 90",
				`latency_seconds{signal="ttft",stat="max"} 0.5`, `latency_seconds{signal="ttft",stat="mean"} 0.2`, `latency_seconds{signal="ttft",stat="p50"} 0.25`,
				`latency_seconds{signal="ttft",stat="p90"} 0.3`, `latency_seconds{signal="ttft",stat="p95"} 0.35`, `latency_seconds{signal="ttft",stat="stddev"} 0.01`,
				"output_tokens{} 12", "output_tokens_per_second{} 6.5"},
			requests, results("failed"), []string{"start_timestamp_seconds{} 1.8e+09", "success{} 0", "suspect{} 0", "timed_out{} 0"})},
		// It says nothing about the target, so there is no success, and no latency.
		{"invalid", Pulled{Start: epoch, Elapsed: time.Second, Run: unbelieved}, concat(
			[]string{"duration_seconds{} 1"}, requests, results("invalid"), []string{"start_timestamp_seconds{} 1.8e+09", "timed_out{} 0"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pulled.Pair = canaryOnA
			got := values(t, s.Answer(c.pulled))
			slices.Sort(got)
			slices.Sort(c.want)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
		})
	}
}
