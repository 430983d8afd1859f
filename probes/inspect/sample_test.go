package inspect

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func known[T comparable](v T) probes.Optional[T] { return probes.Known(v) }

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// counts fills the counters of a wanted sample.
func counts(values map[quantity]float64) (c [quantities]probes.Optional[float64]) {
	for q, v := range values {
		c[q] = known(v)
	}
	return c
}

var sampleDiff = cmp.Options{cmp.AllowUnexported(Sample{}), cmpopts.EquateApprox(0, 1e-12)}

// Every figure is added up by hand from the page.
func TestPages(t *testing.T) {
	for _, tt := range []struct {
		page string
		want Sample
	}{
		{"pages/vllm.prom", Sample{
			Engine: VLLM, Running: known(8.0), Waiting: known(7.0), KVUsage: known(0.5), KVPeak: known(0.75),
			started: known(1796055120.0), positions: map[int]float64{0: 360, 1: 240, 2: 120},
			tiers:  map[string]float64{"device": 1000, "external": 200},
			labels: map[string]string{"kv_cache_dtype": "fp8_e4m3", "prefix_caching": "True"},
			counters: counts(map[quantity]float64{
				queriedTokens: 4000, hitTokens: 1200, generated: 1200, preemptions: 2, requests: 10,
				drafts: 400, draftTokens: 1200, accepted: 720, ttftSum: 1.75, ttftCount: 10, tpotSum: 0.09, tpotCount: 9,
			}),
		}},
		{"pages/vllm_v0.prom", Sample{
			Engine: VLLM, Running: known(2.0), Waiting: known(5.0), KVUsage: known(0.5), KVPeak: known(0.5),
			counters: counts(map[quantity]float64{draftTokens: 300, accepted: 150, emitted: 250, tpotSum: 4, tpotCount: 200}),
		}},
		// Four tensor ranks in two data ranks: the former repeat, the latter add.
		{"pages/sglang_dp.prom", Sample{
			Engine: SGLang, Running: known(10.0), Waiting: known(6.0), KVUsage: known(0.4), KVPeak: known(0.6), accept: known(2.5),
			tiers: map[string]float64{"device": 250, "host": 100, "storage": 50},
			counters: counts(map[quantity]float64{
				queriedTokens: 1000, hitTokens: 400, generated: 310, requests: 10, verifySteps: 120, preemptions: 3,
				ttftSum: 2, ttftCount: 10, tpotSum: 6, tpotCount: 300,
			}),
		}},
		{"pages/lmdeploy.prom", Sample{
			Engine: LMDeploy, Running: known(2.0), Waiting: known(7.0), KVUsage: known(0.3), KVPeak: known(0.3),
			positions: map[int]float64{0: 9},
			counters: counts(map[quantity]float64{
				queriedTokens: 500, hitTokens: 50, generated: 70, drafts: 10, draftTokens: 30, accepted: 15,
				ttftSum: 1, ttftCount: 4, tpotSum: 2, tpotCount: 100,
			}),
		}},
		{"pages/trtllm.prom", Sample{
			Engine: TRTLLM, Running: known(2.0), Waiting: known(1.0), KVUsage: known(0.4), KVPeak: known(0.4), accept: known(1.75),
			labels: map[string]string{"dtype": "torch.bfloat16", "accelerator": "NVIDIA H100", "quantization": "FP8"},
			counters: counts(map[quantity]float64{
				hitBlocks: 30, missedBlocks: 70, requests: 8, draftTokens: 40, accepted: 10,
				ttftSum: 0.5, ttftCount: 8, tpotSum: 0.08, tpotCount: 8,
			}),
		}},
		{"pages/tgi.prom", Sample{
			Engine: TGI, Running: known(16.0), Waiting: known(6.0),
			counters: counts(map[quantity]float64{requests: 12, tpotSum: 0.36, tpotCount: 12}),
		}},
		{"llama-server/get_metrics.txt", Sample{
			Engine: LlamaCPP, Running: known(0.0), Waiting: known(0.0),
			counters: counts(map[quantity]float64{queriedTokens: 2274, tpotSum: 0.136, tpotCount: 431}),
		}},
		{"llama-server-speculative/get_metrics.txt", Sample{
			Engine: LlamaCPP, Running: known(0.0), Waiting: known(0.0),
			counters: counts(map[quantity]float64{queriedTokens: 2274, tpotSum: 0.89, tpotCount: 420}),
		}},
	} {
		t.Run(tt.page, func(t *testing.T) {
			tt.want.counted = true
			if diff := cmp.Diff(tt.want, parsePage(file(t, tt.page)), sampleDiff); diff != "" {
				t.Errorf("sample (-want +got):\n%s", diff)
			}
		})
	}
}

// The names of one page under every spelling mean the same.
func TestSpellings(t *testing.T) {
	page := file(t, "pages/vllm.prom")
	want := parsePage(page)
	for _, prefix := range []string{"vllm_", "kserve_vllm:", "ray_vllm_", "my:vllm:"} {
		spelled := bytes.ReplaceAll(page, []byte("vllm:"), []byte(prefix))
		if diff := cmp.Diff(want, parsePage(spelled), sampleDiff); diff != "" {
			t.Errorf("%s: sample (-want +got):\n%s", prefix, diff)
		}
		// A page that has both spellings has one server, not two.
		both := append(slices.Clone(page), spelled...)
		if diff := cmp.Diff(want, parsePage(both), sampleDiff); diff != "" {
			t.Errorf("vllm: and %s: sample (-want +got):\n%s", prefix, diff)
		}
	}
	bare := bytes.ReplaceAll(page, []byte("_total"), nil)
	if diff := cmp.Diff(want, parsePage(bare), sampleDiff); diff != "" {
		t.Errorf("without _total (-want +got):\n%s", diff)
	}
}

func TestNamesThatMeanNothing(t *testing.T) {
	for _, name := range []string{
		"vllm:num_requests_running_total", "vllm:spec_decode_num_drafts_created", "xvllm:num_requests_running", "vllm",
		"vllm:", "vllmnum_requests_running", "sglang:num_running_reqs_bucket", "sglang_router_requests_total",
		"http_requests_total", "vllm:time_to_first_token_seconds_bucket", "trtllm_spec_decode_acceptance_length_total",
	} {
		if engine, found := recognise([]byte(name)); found != nil {
			t.Errorf("%s means %v of %s, want nothing", name, found, engine)
		}
	}
}

// A front end shows its own load beside the engine's; the engine's is the one.
func TestFrontEndGivesWayToTheEngine(t *testing.T) {
	front := "dynamo_frontend_inflight_requests{model=\"m\"} 9\ndynamo_frontend_queued_requests{model=\"m\"} 4\n"
	if s := parsePage([]byte(front)); s.Engine != Dynamo || s.Running != known(9.0) || s.Waiting != known(4.0) {
		t.Errorf("front end alone: %s running %v waiting %v, want dynamo 9 and 4", s.Engine, s.Running, s.Waiting)
	}
	if s := parsePage([]byte(front + "sglang:num_running_reqs 3\n")); s.Engine != SGLang || s.Running != known(3.0) || s.Waiting.IsKnown() {
		t.Errorf("with engine: %s running %v waiting %v, want sglang 3 and unknown", s.Engine, s.Running, s.Waiting)
	}
}

// Pages as gateways and careless exporters make them: what is there is read.
func TestFlawedPages(t *testing.T) {
	for _, tt := range []struct {
		name, page string
		waiting    probes.Optional[float64]
	}{
		{"joined pages of two replicas", "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\"} 2\n" +
			"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\"} 3\n", known(5.0)},
		{"a broken line before", "vllm:num_requests_waiting{engine=\"0 1\nfoo bar baz\n\xff\xfe 3\nvllm:num_requests_waiting 4\n", known(4.0)},
		{"an exemplar and a timestamp", "vllm:num_requests_waiting{engine=\"0\"} 6 1796055120000 # {trace_id=\"a\"} 0.1\n# EOF\n", known(6.0)},
		{"braces, quotes and line ends in a label", `vllm:num_requests_waiting{model_name="a}\"{\n\\",engine="0"} 7`, known(7.0)},
		{"carriage returns", "vllm:num_requests_waiting 8\r\n", known(8.0)},
		{"no value", "vllm:num_requests_waiting \nvllm:num_requests_waiting{}\n", probes.Optional[float64]{}},
		{"NaN", "vllm:num_requests_waiting NaN\n", probes.Optional[float64]{}},
		{"infinite", "vllm:num_requests_waiting +Inf\n", probes.Optional[float64]{}},
		{"less than nothing", "vllm:num_requests_waiting -7\n", probes.Optional[float64]{}},
		{"half a label", "vllm:num_requests_waiting{engine} 3\n", probes.Optional[float64]{}},
		{"an HTML page", "<!doctype html><html><body>vllm:num_requests_waiting 3</body></html>", probes.Optional[float64]{}},
		{"JSON", `[{"iter":1,"numQueuedRequests":3}]`, probes.Optional[float64]{}},
		{"empty", "", probes.Optional[float64]{}},
	} {
		s := parsePage([]byte(tt.page))
		if s.Waiting != tt.waiting || s.Readable() != tt.waiting.IsKnown() {
			t.Errorf("%s: waiting %v, readable %v, want %v", tt.name, s.Waiting, s.Readable(), tt.waiting)
		}
	}
}

// A share of more than everything is none.
func TestUsageIsAShare(t *testing.T) {
	for page, want := range map[string][2]probes.Optional[float64]{
		`vllm:kv_cache_usage_perc{engine="0"} 0.5` + "\n" + `vllm:kv_cache_usage_perc{engine="1"} 1`:    {known(0.75), known(1.0)},
		`vllm:kv_cache_usage_perc{engine="0"} 0.5` + "\n" + `vllm:kv_cache_usage_perc{engine="1"} 1e20`: {},
	} {
		s := parsePage([]byte(page + "\nvllm:num_requests_running 1\n"))
		if got := [2]probes.Optional[float64]{s.KVUsage, s.KVPeak}; got != want || s.Running != known(1.0) {
			t.Errorf("%s: usage and peak %v with %v running, want %v with 1", page, got, s.Running, want)
		}
	}
}

// What the parser of Prometheus reads from a sound page, scan reads too.
func TestScanAgreesWithPrometheus(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab }{\"\\\n,=#é0")))
	name := rapid.StringMatching(`[a-z_:][a-z0-9_:]{0,8}`)
	labelName := rapid.StringMatching(`[a-z_][a-z0-9_]{0,4}`)
	value := rapid.OneOf(rapid.Float64(), rapid.Just(math.Inf(1)), rapid.Just(math.NaN()))
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]float64{}
		var page bytes.Buffer
		for metric, number := range rapid.MapOfN(name, value, 0, 5).Draw(t, "metrics") {
			labels := rapid.MapOfN(labelName, text, 0, 3).Draw(t, "labels")
			m := &dto.Metric{Untyped: &dto.Untyped{Value: &number}}
			key := metric
			for _, l := range slices.Sorted(maps.Keys(labels)) {
				m.Label = append(m.Label, &dto.LabelPair{Name: new(l), Value: new(labels[l])})
				key += "|" + l + "=" + labels[l]
			}
			want[key] = number
			family := &dto.MetricFamily{Name: &metric, Help: new(text.Draw(t, "help")), Type: dto.MetricType_UNTYPED.Enum(), Metric: []*dto.Metric{m}}
			if _, err := expfmt.MetricFamilyToText(&page, family); err != nil {
				t.Fatal(err)
			}
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		if _, err := parser.TextToMetricFamilies(bytes.NewReader(page.Bytes())); err != nil {
			t.Fatalf("the page is not sound: %v\n%s", err, page.Bytes())
		}
		unescape := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
		got := map[string]float64{}
		scan(page.Bytes(), func(name, labels, number []byte) {
			key := string(name)
			if !eachLabel(labels, func(n, v []byte) { key += "|" + string(n) + "=" + unescape.Replace(string(v)) }) {
				t.Fatalf("labels %q are not read", labels)
			}
			v, ok := parseNumber(number)
			if !ok {
				v = math.NaN() // infinities and what is negative too
			}
			got[key] = v
		})
		for key, v := range want {
			if math.IsInf(v, 0) || v < 0 {
				want[key] = math.NaN()
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("samples (-prometheus +scan):\n%s\n%s", diff, page.Bytes())
		}
	})
}

func FuzzPage(f *testing.F) {
	for _, seed := range []string{"vllm:num_requests_waiting{a=\"b\"} 1\n", "a{b=\"\\", "{} 1", "a{,} 1 # {", "sglang:token_usage{tp_rank=\"0\"} 1e309"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		s := parsePage(page)
		for _, v := range []probes.Optional[float64]{s.Running, s.Waiting, s.KVUsage, s.KVPeak} {
			if f, ok := v.Get(); ok && (!s.Readable() || math.IsNaN(f)) {
				t.Errorf("%q: value %v, readable %v", page, f, s.Readable())
			}
		}
	})
}
