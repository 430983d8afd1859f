package cli

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/inferbeat/inferbeat/daemon/selftest"
)

// TestMain lets the test binary be the processes that a self test starts.
func TestMain(m *testing.M) {
	if worker, err := selftest.Worker(context.Background(), os.Environ()); worker {
		if err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestSelftest(t *testing.T) {
	t.Parallel()
	got := call(t.Context(), nil, "selftest", "--streams", "2", "--rounds", "1", "--format", "json")
	var report selftest.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("code %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	if len(report.Levels) != 1 || report.Levels[0].Streams != 2 || report.Levels[0].Failed != 0 || report.Levels[0].Events != 100 || !report.Offered.IsKnown() {
		t.Errorf("report: %+v", report)
	}
	// Whether a busy machine keeps its promise is not this test's business; that
	// the status says so is.
	want := exitPass
	if report.Best() == 0 {
		want = exitFail
	}
	if got.code != want || got.stderr != "measuring: inferbeat, 2 streams\nmeasuring: offered rate\n" {
		t.Errorf("code %d (want %d), stderr %q", got.code, want, got.stderr)
	}
}

func TestSelftestMistakes(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--format", "xml"}, "inferbeat selftest: --format: \"xml\" is neither text nor json\n"},
		{[]string{"--streams", "8,4", "--rounds", "0", "--backend", "tgi"}, "inferbeat selftest: 3 problems\n" +
			"--streams: [8 4] must rise, between 1 and 20000\n--rounds: 0 is not between 1 and 1000\n--backend: \"tgi\" is neither openai nor vllm\n"},
	}
	for _, tc := range tests {
		got := call(t.Context(), nil, append([]string{"selftest"}, tc.args...)...)
		if got.code != exitUsage || got.stderr != tc.want || got.stdout != "" {
			t.Errorf("%v: code %d, stderr %q, want %q", tc.args, got.code, got.stderr, tc.want)
		}
	}
}

func TestSelftestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := call(ctx, nil, "selftest"); got.code != exitUnknown || got.stdout != "" {
		t.Errorf("code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
}
