package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/truth"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMain lets the test binary be the child processes of a self test.
func TestMain(m *testing.M) {
	if is, err := Worker(context.Background(), os.Environ()); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("FAKE_BENCH_SERVING") != "" {
		os.Exit(fakeBenchServing(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// fakeBenchServing has the flags and the result file of bench_serving, and asks
// once more than it is told, as that does.
func fakeBenchServing(args []string) int {
	if slices.Contains(args, "--help") {
		fmt.Println("usage: [--output-details]")
		return 0
	}
	value := func(name string) string { return args[slices.Index(args, name)+1] }
	number := func(name string) int { n, _ := strconv.Atoi(value(name)); return n }
	l := load{Address: strings.TrimPrefix(value("--base-url"), "http://"), Streams: number("--max-concurrency"), Requests: number("--num-prompts"), Tokens: number("--random-output-len")}
	if _, err := os.Stat(filepath.Join(value("--tokenizer"), "tokenizer.json")); err != nil {
		fmt.Println("no tokenizer")
		return 1
	}
	clock := probes.NewClock()
	first := l
	first.Requests = 1
	if _, err := sendNaive(context.Background(), clock, first); err != nil {
		return 1
	}
	exchanges, err := sendNaive(context.Background(), clock, l)
	if err != nil {
		return 1
	}
	var d details
	for i, e := range exchanges {
		d.TTFTs, d.Errors = append(d.TTFTs, (e.At[0]-e.Sent).Seconds()), append(d.Errors, e.Error)
		// The server counts in the order of arrival, which is not that of sending;
		// any stream of the same length will do here.
		d.Texts = append(d.Texts, fmt.Sprintf("r%d tok", 2+i))
		var gaps []float64
		for k := 1; k < len(e.At); k++ {
			gaps = append(gaps, (e.At[k] - e.At[k-1]).Seconds())
		}
		d.ITLs = append(d.ITLs, gaps)
	}
	text, err := json.Marshal(d)
	text = bytes.Replace(text, []byte("{"), []byte(`{"request_rate": Infinity, "accept_length": NaN, `), 1)
	if err != nil || os.WriteFile(value("--output-file"), append(text, '\n'), 0o600) != nil {
		return 1
	}
	return 0
}

func at(ms ...float64) (out []time.Duration) {
	for _, v := range ms {
		out = append(out, time.Duration(v*1e6))
	}
	return out
}

// plainly looks into optional values, so that near reaches the numbers.
var plainly = cmp.Options{
	cmp.Transformer("spread", pointer[Spread]), cmp.Transformer("reading", pointer[Reading]), cmp.Transformer("float", pointer[float64]),
}

var near = cmp.Options{cmpopts.EquateApprox(0, 1e-12)}

func TestCompareByHand(t *testing.T) {
	const shift = 5 * time.Millisecond // the client's clock began 5 ms after the server's
	streams := []truth.Stream{
		{Ordinal: 1, RequestID: "b", Received: 10 * ms, Due: at(20, 40, 60), Sent: at(20, 41, 62)},
		{Ordinal: 2, RequestID: "a", Received: 11 * ms, Due: at(30, 50, 70), Sent: at(30, 50, 70)},
		{Ordinal: 3, RequestID: "c", Received: 12 * ms, Due: at(30), Cut: true},
	}
	exchanges := []Exchange{
		// Sent at 10 on the server's clock; lags of 1, 2 and 3 ms.
		{ID: "a", Reused: true, Sent: 5 * ms, At: at(26, 47, 68), Receiving: probes.Receiving{Reads: 3, Stamped: 3, Late: 1}},
		// Sent at 6, 2 ms of it for the connection; lags of 0, 20 and 0 ms: its last
		// two events seem to have come 1 ms apart instead of 21.
		{ID: "b", Sent: 1 * ms, Setup: 2 * ms, At: at(15, 56, 57), Receiving: probes.Receiving{Reads: 2, Stamped: 1}},
		{ID: "c", Error: "truncated: gone", At: at(30)},
		{ID: "d", At: at(30)},
	}
	got := compare(exchanges, streams, shift)
	want := Figures{
		Requests: 4, Failed: 2, FirstError: "truncated: gone", Events: 6,
		EventsPerSecond: 5 / 0.050, // from 20 to 70
		// In order: 0, 0, 1, 2, 3, 20 ms.
		Lag:        probes.Known(Spread{N: 6, Min: 0, P50: 0.0015, P99: 0.003 + 0.95*0.017, Max: 0.020}),
		ReadsLate:  probes.Known(0.25),
		TTFT:       probes.Known(Reading{N: 1, ReportedP50: 0.021, TrueP50: 0.019, ReportedP99: 0.021, TrueP99: 0.019}),
		TTFTNew:    probes.Known(Reading{N: 1, ReportedP50: 0.012, TrueP50: 0.010, ReportedP99: 0.012, TrueP99: 0.010}),
		ITL:        probes.Known(Reading{N: 4, ReportedP50: 0.021, TrueP50: 0.0205, ReportedP99: 0.021 + 0.97*0.020, TrueP99: 0.021}),
		Collapsed:  probes.Known(0.25),
		ServerLate: probes.Known(Spread{N: 6, Min: 0, P50: 0, P99: 0.001 + 0.95*0.001, Max: 0.002}),
	}
	if diff := cmp.Diff(want, got, near, plainly); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	reading, _ := got.TTFT.Get()
	if p50, p99 := reading.RatioP50(), reading.RatioP99(); p50 != 0.021/0.019 || p99 != 0.021/0.019 {
		t.Errorf("ratios: got %v and %v, want %v", p50, p99, 0.021/0.019)
	}
}

func pointer[T comparable](o probes.Optional[T]) *T {
	if v, ok := o.Get(); ok {
		return &v
	}
	return nil
}

func TestCompareKnowsNothingOfNothing(t *testing.T) {
	got := compare([]Exchange{{ID: "a", Error: "connect: refused"}}, nil, 0)
	want := Figures{Requests: 1, Failed: 1, FirstError: "connect: refused"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestMismatches(t *testing.T) {
	tests := []struct {
		stream *truth.Stream
		want   string
	}{
		{nil, "the server knows no request x"},
		{&truth.Stream{Cut: true}, "the server could not finish request x"},
		{&truth.Stream{Sent: at(1)}, "the client saw another number of events than the server wrote"},
		{&truth.Stream{Sent: at(1, 2)}, ""},
	}
	for _, tc := range tests {
		if got := mismatch(&Exchange{ID: "x", At: at(1, 2)}, tc.stream); got != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.stream, got, tc.want)
		}
	}
}

func TestOffered(t *testing.T) {
	exchanges := []Exchange{{Due: 0, Sent: 1 * ms}, {Due: 100 * ms, Sent: 101 * ms, Error: "x"}, {Due: 200 * ms, Sent: 206 * ms}}
	got, ok := offered(exchanges, 10).Get()
	want := Offered{Asked: 10, Sent: 2 / 0.205, SendLag: Spread{N: 3, Min: 0.001, P50: 0.001, P99: 0.001 + 0.98*0.005, Max: 0.006}, Failed: 1}
	if diff := cmp.Diff(want, got, near); diff != "" || !ok {
		t.Errorf("known %t (-want +got):\n%s", ok, diff)
	}
	if diff := cmp.Diff(2/0.205/10-1, got.Error(), near); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if one, ok := offered(exchanges[:1], 10).Get(); ok {
		t.Errorf("one request has no rate, got %+v", one)
	}
}

func lagOf(low, p99 float64) Figures {
	return Figures{Lag: probes.Known(Spread{N: 100, Min: low, P99: p99})}
}

func TestCompareDetailsByHand(t *testing.T) {
	streams := []truth.Stream{
		{Ordinal: 1, Received: 0, Due: at(5), Sent: at(5)}, // the client's own test
		{Ordinal: 3, Received: 10 * ms, Due: at(20, 40, 60), Sent: at(20, 41, 62)},
		{Ordinal: 2, Received: 11 * ms, Due: at(30, 50, 70), Sent: at(30, 50, 70)},
		{Ordinal: 4, Received: 12 * ms, Due: at(30, 50), Sent: at(30), Cut: true},
	}
	d := details{
		TTFTs: []float64{0.020, 0.025, 0, 0.001}, ITLs: [][]float64{{0.02, 0.02}, {0.0005, 0.04}, {}, {}},
		Texts: []string{"r2 tok tok", " r3 tok tok", "", "r4"}, Errors: []string{"", "", "HTTP 500", "cut"},
	}
	want := Figures{
		Requests: 4, Failed: 2, FirstError: "HTTP 500", Events: 6, EventsPerSecond: 5 / 0.050,
		TTFTNew:    probes.Known(Reading{N: 2, ReportedP50: 0.0225, TrueP50: 0.0145, ReportedP99: 0.02495, TrueP99: 0.01891}),
		ITL:        probes.Known(Reading{N: 4, ReportedP50: 0.02, TrueP50: 0.0205, ReportedP99: 0.0394, TrueP99: 0.021}),
		Collapsed:  probes.Known(0.25),
		ServerLate: probes.Known(Spread{N: 6, P99: 0.001 + 0.95*0.001, Max: 0.002}),
	}
	if diff := cmp.Diff(want, compareDetails(d, streams), near, plainly); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestOtherProcesses(t *testing.T) {
	const before = "cpu  100 0 50 800 10 0 5 0 30 0\ncpu0 1 2 3\n"
	tests := []struct {
		name, after string
		ours        time.Duration
		want        probes.Optional[float64]
	}{
		// 200 ticks passed, 120 of them busy, of which 0.5 s are ours.
		{"busy", "cpu  180 10 70 870 20 5 10 0 60 0\n", 500 * ms, probes.Known(70.0 / 200)},
		{"only us", "cpu  120 0 50 880 10 0 5 0 30 0\n", 250 * ms, probes.Known(0.0)},
		{"no time passed", before, 0, probes.Optional[float64]{}},
		{"no such file", "", 0, probes.Optional[float64]{}},
		{"not numbers", "cpu a b c d e f g h\n", 0, probes.Optional[float64]{}},
	}
	for _, tc := range tests {
		if got := othersShare(before, tc.after, tc.ours); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestTrusted(t *testing.T) {
	failed := lagOf(0, 0)
	failed.Failed = 1
	tests := []struct {
		name    string
		figures Figures
		want    probes.Optional[float64]
	}{
		{"at the first bound", lagOf(0, 0.0001), probes.Known(0.0001)},
		{"above it", lagOf(0, 0.00011), probes.Known(0.001)},
		{"third", lagOf(0, 0.01), probes.Known(0.01)},
		{"above all", lagOf(0, 0.011), probes.Optional[float64]{}},
		{"stamps a little before their writes", lagOf(-0.00002, 0.0001), probes.Known(0.0001)},
		{"stamps before their writes", lagOf(-0.00003, 0.0001), probes.Optional[float64]{}},
		{"a request failed", failed, probes.Optional[float64]{}},
		{"nothing measured", Figures{}, probes.Optional[float64]{}},
	}
	for _, tc := range tests {
		if got := trusted(tc.figures); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A level that fails hides the ones above it: between them lies no promise.
func TestTrustIsUpToALevel(t *testing.T) {
	level := func(streams int, to float64) Level {
		l := Level{Streams: streams, Figures: Figures{EventsPerSecond: float64(50 * streams)}}
		if to > 0 {
			l.Trusted = probes.Known(to)
		}
		return l
	}
	levels := []Level{level(1, 0.0001), level(64, 0.01), level(256, 0.001), level(1000, 0)}
	want := []Trust{
		{0.0001, probes.Known(1), probes.Known(50.0)},
		{0.001, probes.Known(1), probes.Known(50.0)},
		{0.01, probes.Known(256), probes.Known(12800.0)},
	}
	got := trust(levels)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trust (-want +got):\n%s", diff)
	}
	if r := (&Report{Trust: got}); r.Best() != 256 {
		t.Errorf("best: got %d, want 256", r.Best())
	}
	if r := (&Report{Trust: trust(levels[3:])}); r.Best() != 0 {
		t.Errorf("best of nothing: got %d, want 0", r.Best())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := Run(t.Context(), Options{Streams: []int{64, 1}, Rounds: -1, Backend: "tgi", CPUQuota: -1})
	want := "--streams: [64 1] must rise, between 1 and 20000\n--rounds: -1 is not between 1 and 1000\n--backend: \"tgi\" is neither openai nor vllm\n" +
		"--cpu-quota: -1 is not between 0.01 and 1000 processors"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// exampleReport has a level of each sort.
func exampleReport() *Report {
	figures := func(streams int, lag float64) Figures {
		n := 150 * streams
		return Figures{
			Requests: 3 * streams, Events: n, EventsPerSecond: 50 * float64(streams),
			Lag:     probes.Known(Spread{N: n, P50: lag / 3, P99: lag, Max: 9 * lag}),
			TTFT:    probes.Known(Reading{N: 2 * streams, ReportedP50: 0.1002, TrueP50: 0.1, ReportedP99: 0.103, TrueP99: 0.1}),
			TTFTNew: probes.Known(Reading{N: streams, ReportedP50: 0.101, TrueP50: 0.1, ReportedP99: 0.125, TrueP99: 0.1}),
			ITL:     probes.Known(Reading{N: n, ReportedP50: 0.02, TrueP50: 0.02, ReportedP99: 0.0224, TrueP99: 0.022}), Collapsed: probes.Known(0.0125),
			ServerLate: probes.Known(Spread{N: n, P99: 0.0004}),
		}
	}
	own := func(streams int, lag float64) Level {
		l := Level{Client: clientOwn, Streams: streams, Figures: figures(streams, lag), CPUPerEvent: probes.Known(12e-6), GCPauses: 3, GCPauseMax: 0.0002, Throttled: probes.Known(0.0)}
		l.ReadsLate = probes.Known(0.0123)
		l.Trusted = trusted(l.Figures)
		return l
	}
	bad := own(1000, 0.3)
	bad.Failed, bad.FirstError, bad.Throttled = 2, "connect: refused", probes.Known(0.75)
	r := &Report{
		Host:   Host{OS: "linux", Arch: "amd64", CPUs: 2, GOMAXPROCS: 2, Go: "go1.26"},
		Script: Script{TTFT: 0.1, ITL: 0.02, Jitter: 0.1, Tokens: 50, Rounds: 3, Backend: "openai", CPUQuota: probes.Known(0.2)},
		Levels: []Level{own(1, 0.00008), own(64, 0.0009), bad, {Client: clientOwn, Streams: 20000, Skipped: "only 1024 files may be open"}},
		Others: []Level{
			{Client: clientNaive, Streams: 64, Figures: figures(64, 0.02), CPUPerEvent: probes.Known(24e-6)},
			{Client: clientFloor, Streams: 64, Figures: figures(64, 0.0007), CPUPerEvent: probes.Known(8e-6)},
		},
		Absent: map[string]string{clientBench: "python3 has no module sglang"}, Busy: probes.Known(0.42),
		Offered: probes.Known(Offered{Asked: 200, Sent: 199.8, SendLag: Spread{N: 400, P50: 0.0001, P99: 0.0012, Max: 0.02}}),
	}
	r.Trust = trust(r.Levels)
	return r
}

func TestReportAsText(t *testing.T) {
	var out bytes.Buffer
	if err := exampleReport().WriteText(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.golden.txt", out.Bytes())
}

func TestReportAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := exampleReport().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.golden.json", out.Bytes())
	if !json.Valid(out.Bytes()) {
		t.Error("the report is not JSON")
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// quick is a script that takes milliseconds. What it measures is not looked at.
var quick = script{Config: truth.Config{TTFT: 2 * ms, ITL: ms, Jitter: 0.5, Seed: 1, Thread: true}, tokens: 5, rate: 1000, requests: 20, short: 2}

// Every client reads every event of every stream, in processes of their own, and
// no stamp lies before its write.
func TestRunMeasuresEveryClient(t *testing.T) {
	fakePython(t, "FAKE_BENCH_SERVING=1 exec "+os.Args[0]+` "$@"`)
	for _, dialect := range []string{"openai", "vllm"} {
		var said []string
		r, err := Run(t.Context(), Options{
			Command: []string{os.Args[0]}, Streams: []int{1, 5}, Rounds: 2, Backend: dialect, Compare: true, script: quick,
			Progress: func(text string) { said = append(said, text) },
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string][]int{}
		for _, l := range append(r.Levels, r.Others...) {
			seen[l.Client] = append(seen[l.Client], l.Events)
			lag, known := l.Lag.Get()
			if l.Failed > 0 || known == (l.Client == clientBench) || lag.Min < clockDoubt.Seconds() || !l.CPUPerEvent.IsKnown() || l.Requests != 2*l.Streams {
				t.Errorf("%s at %d streams: %+v", l.Client, l.Streams, l)
			}
			if l.Client == clientBench {
				continue
			}
			open, _ := l.TTFT.Get()
			fresh, _ := l.TTFTNew.Get()
			if open.N != l.Streams || fresh.N != l.Streams {
				t.Errorf("%s at %d streams: got %d requests on open connections and %d on new ones, want each stream to open one", l.Client, l.Streams, open.N, fresh.N)
			}
		}
		want := map[string][]int{clientOwn: {10, 50}, clientNaive: {10, 50}, clientFloor: {10, 50}, clientBench: {10, 50}}
		if runtime.GOOS != "linux" {
			delete(want, clientFloor)
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%s: events by client (-want +got):\n%s", dialect, diff)
		}
		if o, ok := r.Offered.Get(); !ok || o.SendLag.N != 20 || o.Failed != 0 || o.Asked != 1000 {
			t.Errorf("%s: offered rate: got %+v", dialect, r.Offered)
		}
		if got := said[len(said)-1]; got != "offered rate" {
			t.Errorf("%s: last progress: got %q", dialect, got)
		}
	}
}

// fakePython puts a python3 first into the path.
func fakePython(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestBenchServingMayBeAbsent(t *testing.T) {
	tests := []struct{ name, python, want string }{
		{"not installed", "echo Traceback; echo 'No module named sglang' >&2; exit 1", "start python3 -m sglang.bench_serving: exit status 1: No module named sglang"},
		{"old", "echo usage:", "this version of bench_serving has no --output-details, without which it says nothing of single requests"},
		{"fails", `case "$*" in *--help*) echo --output-details;; *) echo no server; exit 3;; esac`, "run bench_serving: exit status 3: no server"},
		{"writes nothing", "echo --output-details", "read the result of bench_serving: open "},
	}
	for _, tc := range tests {
		fakePython(t, tc.python)
		r, err := Run(t.Context(), Options{Command: []string{os.Args[0]}, Streams: []int{1}, Rounds: 1, Compare: true, script: quick})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Absent[clientBench]; !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: absent because %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestRunWithoutAWorker(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		want    string
	}{
		{"none", nil, "no command given"},
		{"missing", []string{"/nonexistent/inferbeat"}, "start a process of the self test"},
		{"another program", []string{"/bin/sh", "-c", "echo not me >&2"}, "it ended without an answer: not me"},
	}
	for _, tc := range tests {
		_, err := Run(t.Context(), Options{Command: tc.command, Streams: []int{1}, script: quick})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want it to say %q", tc.name, err, tc.want)
		}
	}
}

func TestChildrenReportTheirFailures(t *testing.T) {
	tests := []struct {
		order order
		want  string
	}{
		{order{}, "the order is empty"},
		{order{Load: &load{Client: "nobody"}}, `there is no client "nobody"`},
		{order{Serve: &truth.Config{Jitter: 2}}, "configure truth server: Jitter 2 is not between 0 and 1"},
	}
	for _, tc := range tests {
		c, err := startChild(t.Context(), []string{os.Args[0]}, nil, tc.order)
		if err != nil {
			t.Fatal(err)
		}
		var got hello
		if err := c.answer(&got); err == nil || err.Error() != tc.want {
			t.Errorf("got %v, want %s", err, tc.want)
		}
		if err := c.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
}

func TestNobodyIsAWorkerUnasked(t *testing.T) {
	if is, err := Worker(t.Context(), []string{"HOME=/", workerVariable + "="}); is || err != nil {
		t.Errorf("got %t, %v, want false", is, err)
	}
}

// The time line of a process differs from the system's by what Start says.
func TestSystemStart(t *testing.T) {
	early := probes.NewClock()
	late := probes.Clock{Start: early.Start.Add(time.Hour)}
	a, err := systemStart(early)
	if err != nil {
		t.Fatal(err)
	}
	b, err := systemStart(late)
	if err != nil {
		t.Fatal(err)
	}
	// Each reading is bracketed; an interruption of all 64 would be needed to be off.
	if off := b - a - time.Hour; off.Abs() > ms {
		t.Errorf("two clocks an hour apart: got %s, want 1h", b-a)
	}
}
