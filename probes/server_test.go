package probes

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everyFact sets each field to something of its own.
func everyFact(t *testing.T) ServerFacts {
	t.Helper()
	var f ServerFacts
	v := reflect.ValueOf(&f).Elem()
	for i := range v.NumField() {
		switch p := v.Field(i).Addr().Interface().(type) {
		case *string:
			*p = "text " + v.Type().Field(i).Name
		case *Optional[int]:
			*p = Known(i + 1)
		case *Optional[bool]:
			*p = Known(false)
		default:
			t.Fatalf("%s has a type that this test does not know", v.Type().Field(i).Name)
		}
	}
	return f
}

func TestEveryFactIsShown(t *testing.T) {
	f := everyFact(t)
	fields := reflect.TypeFor[ServerFacts]().NumField()
	if got := len(f.All()); got != fields-1 { // all but the incarnation
		t.Errorf("%d facts are listed, want %d: %v", got, fields-1, f.All())
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, fact := range f.All() {
		if !strings.Contains(string(text), `"`+fact.Name+`":`) {
			t.Errorf("fact %s is not in %s under its name", fact.Name, text)
		}
	}
	if strings.Contains(string(text), "Incarnation") {
		t.Errorf("%s: the incarnation is nobody's business", text)
	}
	if text, _ := json.Marshal(ServerFacts{}); string(text) != "{}" {
		t.Errorf("nothing known is %s, want {}", text)
	}
	var none ServerFacts
	if none.Known() || !f.Known() {
		t.Errorf("known: %v without facts, %v with all; want false, true", none.Known(), f.Known())
	}
}

func TestFactsChanged(t *testing.T) {
	before := ServerFacts{Engine: "vllm", Version: "1", Quantization: "fp8", TensorParallel: Known(2), DType: "bfloat16", Incarnation: "a"}
	after := ServerFacts{Engine: "vllm", Version: "2", TensorParallel: Known(4), AttentionBackend: "fa3", DType: "bfloat16", Incarnation: "b"}
	if diff := cmp.Diff([]Fact{{"tensor_parallel", "4"}, {"version", "2"}}, before.Changed(&after)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if got := before.Changed(&before); len(got) != 0 {
		t.Errorf("changed against itself: %v", got)
	}
	unknown := ServerFacts{}
	if !before.Restarted(&after) || before.Restarted(&before) || before.Restarted(&unknown) || unknown.Restarted(&before) {
		t.Error("a restart is another incarnation where both are known")
	}
}

func TestFactsFillFrom(t *testing.T) {
	earlier := everyFact(t)
	silent := ServerFacts{Version: earlier.Version, DType: "int8"}
	want := earlier
	want.DType = "int8"
	if silent.FillFrom(&earlier); silent != want {
		t.Errorf("filled (-want +got):\n%s", cmp.Diff(want, silent))
	}
	for _, other := range []ServerFacts{{Version: "another"}, {Engine: "another"}} {
		got := other
		if got.FillFrom(&earlier); got != other {
			t.Errorf("%+v was filled from another server: %+v", other, got)
		}
	}
}

func TestServerSummaryKnown(t *testing.T) {
	if (&ServerSummary{Span: 5}).Known() {
		t.Error("a span alone is known")
	}
	for name, s := range map[string]ServerSummary{
		"restart": {Restarted: true}, "accept length": {AcceptLength: Known(1.0)}, "ratio": {AcceptanceRatio: Known(0.0)},
		"cache": {PrefixCache: PrefixCache{HitRatio: Known(0.0)}}, "queue": {Queue: Level{N: 1}}, "running": {Running: Level{N: 1}},
		"kv": {KVUsage: Level{N: 1}}, "preemptions": {Preemptions: Known(0)}, "ttft": {TTFT: ServerMean{N: 1}},
		"tpot": {TPOT: ServerMean{N: 1}}, "requests": {Requests: Known(0)},
	} {
		if !s.Known() {
			t.Errorf("%s alone is not known", name)
		}
	}
}

func TestServerSawOnlyUs(t *testing.T) {
	for _, tt := range []struct {
		sent    int
		counted Optional[int]
		want    bool
	}{
		{100, Known(100), true}, {100, Known(110), true}, {100, Known(111), false}, {100, Known(20), true},
		{100, Optional[int]{}, false}, {0, Known(0), false}, {1, Known(2), false},
	} {
		s := Summary{Sent: tt.sent, Server: ServerSummary{Requests: tt.counted}}
		if got := s.ServerSawOnlyUs(); got != tt.want {
			t.Errorf("%d sent, %v counted: only us is %v, want %v", tt.sent, tt.counted, got, tt.want)
		}
	}
}

func TestTTFTExcess(t *testing.T) {
	for _, tt := range []struct {
		ours   Distribution
		server ServerMean
		want   Optional[float64]
	}{
		{Distribution{N: 100, Mean: 0.75}, ServerMean{100, 0.5}, Known(0.25)},
		{Distribution{N: 100, Mean: 0.25}, ServerMean{90, 0.5}, Known(-0.25)},
		{Distribution{N: 100, Mean: 0.75}, ServerMean{110, 0.5}, Known(0.25)},
		{Distribution{N: 100, Mean: 0.75}, ServerMean{111, 0.5}, Optional[float64]{}}, // other traffic
		{Distribution{N: 100, Mean: 0.75}, ServerMean{89, 0.5}, Optional[float64]{}},
		{Distribution{N: 100, Mean: 0.75}, ServerMean{}, Optional[float64]{}},
		{Distribution{}, ServerMean{5, 0.5}, Optional[float64]{}},
	} {
		s := Summary{Latency: map[Signal]Distribution{TTFT: tt.ours}, Server: ServerSummary{TTFT: tt.server}}
		if got := s.TTFTExcess(); got != tt.want {
			t.Errorf("client %v of %d, server %v: excess %v, want %v", tt.ours.Mean, tt.ours.N, tt.server, got, tt.want)
		}
	}
}

func TestCacheHitRatio(t *testing.T) {
	server := ServerSummary{PrefixCache: PrefixCache{HitRatio: Known(0.9)}}
	for name, tt := range map[string]struct {
		s    Summary
		want Optional[float64]
	}{
		"answers":              {Summary{CachedTokens: Known(30), InputTokens: Known(120), InputSource: TokensServer, Server: server}, Known(0.25)},
		"server":               {Summary{InputTokens: Known(120), InputSource: TokensServer, Server: server}, Known(0.9)},
		"input counted by us":  {Summary{CachedTokens: Known(30), InputTokens: Known(120), InputSource: TokensClient, Server: server}, Known(0.9)},
		"neither":              {Summary{InputTokens: Known(120), InputSource: TokensServer}, Optional[float64]{}},
		"nothing was asked of": {Summary{CachedTokens: Known(0), InputTokens: Known(0), InputSource: TokensServer}, Optional[float64]{}},
	} {
		if got := tt.s.CacheHitRatio(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
