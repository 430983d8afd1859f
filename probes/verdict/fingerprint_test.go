package verdict

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func fullSpec() (probes.Spec, probes.Target) {
	spec := sound().Spec
	spec.Workload.Sampling.ExtraBody = map[string]any{"a": 1, "b": map[string]any{"c": "d", "e": []any{1.5, true}}}
	target := sound().Target
	target.Pool, target.BaseURL = "llama", "http://10.0.0.5:8000"
	target.Connection = probes.Connection{Policy: probes.ConnectionReuse, Proxy: "none"}
	return spec, target
}

// TestFingerprintIsStable: a changed value ends every baseline on every
// installation. Change it on purpose only, with "v" in Fingerprint.
func TestFingerprintIsStable(t *testing.T) {
	spec, target := fullSpec()
	const want = "7a9d26cc1450e5e5"
	for range 20 { // maps have no order
		if got := Fingerprint(spec, target, probes.ServerFacts{}, "random-1"); got != want {
			t.Fatalf("fingerprint = %s, want %s", got, want)
		}
	}
}

// TestFingerprint changes one field at a time. Every field of the vocabulary is
// either part of the fingerprint or left out on purpose: a new one fails here
// until somebody has decided.
func TestFingerprint(t *testing.T) {
	type change func(*probes.Spec, *probes.Target)
	apart := map[string]change{ // these make runs incomparable
		"Spec.Kind":                  func(s *probes.Spec, _ *probes.Target) { s.Kind = probes.Canary },
		"Spec.Requests":              func(s *probes.Spec, _ *probes.Target) { s.Requests++ },
		"Spec.Duration":              func(s *probes.Spec, _ *probes.Target) { s.Duration = time.Minute },
		"Spec.StartConcurrency":      func(s *probes.Spec, _ *probes.Target) { s.StartConcurrency = 4 },
		"Spec.Profile":               func(s *probes.Spec, _ *probes.Target) { s.Profile = &probes.Profile{} },
		"Spec.FlushCache":            func(s *probes.Spec, _ *probes.Target) { s.FlushCache = true },
		"Warmup.Requests":            func(s *probes.Spec, _ *probes.Target) { s.Warmup.Requests++ },
		"Warmup.Duration":            func(s *probes.Spec, _ *probes.Target) { s.Warmup.Duration = time.Minute },
		"Arrivals.Process":           func(s *probes.Spec, _ *probes.Target) { s.Arrivals.Process = probes.Poisson },
		"Arrivals.Rate":              func(s *probes.Spec, _ *probes.Target) { s.Arrivals.Rate = math.Inf(1) },
		"Arrivals.CV":                func(s *probes.Spec, _ *probes.Target) { s.Arrivals.CV = 2 },
		"Arrivals.MaxConcurrency":    func(s *probes.Spec, _ *probes.Target) { s.Arrivals.MaxConcurrency = 7 },
		"Arrivals.Ramp":              func(s *probes.Spec, _ *probes.Target) { s.Arrivals.Ramp = time.Second },
		"Arrivals.StartTogether":     func(s *probes.Spec, _ *probes.Target) { s.Arrivals.StartTogether = true },
		"Workload.Dataset":           func(s *probes.Spec, _ *probes.Target) { s.Workload.Dataset = "sharegpt" },
		"Workload.InputTokens":       func(s *probes.Spec, _ *probes.Target) { s.Workload.InputTokens++ },
		"Workload.OutputTokens":      func(s *probes.Spec, _ *probes.Target) { s.Workload.OutputTokens++ },
		"Workload.RangeRatio":        func(s *probes.Spec, _ *probes.Target) { s.Workload.RangeRatio = 0.5 },
		"Workload.FixedOutputTokens": func(s *probes.Spec, _ *probes.Target) { s.Workload.FixedOutputTokens = 64 },
		"Workload.ContextTokens":     func(s *probes.Spec, _ *probes.Target) { s.Workload.ContextTokens = 4096 },
		"Workload.Tokenizer":         func(s *probes.Spec, _ *probes.Target) { s.Workload.Tokenizer = "approx" },
		"Workload.VocabSize":         func(s *probes.Spec, _ *probes.Target) { s.Workload.VocabSize = 32000 },
		"Workload.TokenIDs":          func(s *probes.Spec, _ *probes.Target) { s.Workload.TokenIDs = true },
		"Workload.ApplyChatTemplate": func(s *probes.Spec, _ *probes.Target) { s.Workload.ApplyChatTemplate = true },
		"Workload.Cache":             func(s *probes.Spec, _ *probes.Target) { s.Workload.Cache = probes.CacheWarm },
		"Workload.Groups":            func(s *probes.Spec, _ *probes.Target) { s.Workload.Groups.ZipfAlpha = 1 },
		"Workload.Images":            func(s *probes.Spec, _ *probes.Target) { s.Workload.Images.Format = "png" },
		"Workload.Trace":             func(s *probes.Spec, _ *probes.Target) { s.Workload.Trace.Slowdown = 2 },
		"Workload.Adapters":          func(s *probes.Spec, _ *probes.Target) { s.Workload.Adapters.Names = []string{"a", "b"} },
		"Workload.SkipBadRows":       func(s *probes.Spec, _ *probes.Target) { s.Workload.SkipBadRows = true },
		"Workload.Seed":              func(s *probes.Spec, _ *probes.Target) { s.Workload.Seed = 7 },
		"Sampling.Temperature":       func(s *probes.Spec, _ *probes.Target) { s.Workload.Sampling.Temperature = 0.7 },
		"Spec.Shard":                 func(s *probes.Spec, _ *probes.Target) { s.Shard.Of = 3 },
		"Sampling.TopP":              func(s *probes.Spec, _ *probes.Target) { s.Workload.Sampling.TopP = known(0.9) },
		"Sampling.IgnoreEOS":         func(s *probes.Spec, _ *probes.Target) { s.Workload.Sampling.IgnoreEOS = false },
		"Sampling.Stream":            func(s *probes.Spec, _ *probes.Target) { s.Workload.Sampling.Stream = false },
		"Sampling.ExtraBody": func(s *probes.Spec, _ *probes.Target) {
			s.Workload.Sampling.ExtraBody = map[string]any{"a": 2}
		},
		"Sampling.LoRA":       func(s *probes.Spec, _ *probes.Target) { s.Workload.Sampling.LoRA = "sql" },
		"Spec.Definitions":    func(s *probes.Spec, _ *probes.Target) { s.Definitions = probes.VLLMDefinitions },
		"Target.Model":        func(_ *probes.Spec, t *probes.Target) { t.Model = "llama-4" },
		"Target.Backend":      func(_ *probes.Spec, t *probes.Target) { t.Backend = "vllm" },
		"Target.Environment":  func(_ *probes.Spec, t *probes.Target) { t.Environment = probes.Production },
		"Connection.Policy":   func(_ *probes.Spec, t *probes.Target) { t.Connection.Policy = probes.ConnectionNew },
		"Connection.Protocol": func(_ *probes.Spec, t *probes.Target) { t.Connection.Protocol = probes.HTTP2 },
		"Connection.Proxy":    func(_ *probes.Spec, t *probes.Target) { t.Connection.Proxy = "http://proxy:3128" },
	}
	alike := map[string]change{ // these do not
		"Spec.Expect":        func(s *probes.Spec, _ *probes.Target) { s.Expect.Prompt = "2+2=" },
		"Spec.StopWhen":      func(s *probes.Spec, _ *probes.Target) { s.StopWhen.QueueAbove = 5 },
		"Spec.Pairs":         func(s *probes.Spec, _ *probes.Target) { s.Pairs = 7 },
		"Spec.Repeats":       func(s *probes.Spec, _ *probes.Target) { s.Repeats = 3 },
		"Spec.OfflineResult": func(s *probes.Spec, _ *probes.Target) { s.OfflineResult = "offline.jsonl" },
		"Spec.Probe":         func(s *probes.Spec, _ *probes.Target) { s.Probe = "renamed" },
		"Spec.Schedule":      func(s *probes.Spec, _ *probes.Target) { s.Schedule.Every = time.Hour },
		"Spec.SLOs":          func(s *probes.Spec, _ *probes.Target) { s.SLOs = []probes.SLO{{Name: "new"}} },
		"Spec.Limits":        func(s *probes.Spec, _ *probes.Target) { s.Limits = []probes.Limit{{Bound: 1}} },
		"Spec.Gate":          func(s *probes.Spec, _ *probes.Target) { s.Gate = &probes.Gate{Vary: []string{"model"}} },
		"Spec.Margins": func(s *probes.Spec, _ *probes.Target) {
			s.Margins = map[probes.RegressionMetric]float64{probes.MetricTTFTp50: 0.1}
		},
		"Spec.QueueLimits": func(s *probes.Spec, _ *probes.Target) {
			s.QueueLimits = []probes.QueueLimit{{Severity: probes.Info, Bound: 1}}
		},
		"Spec.Regression":       func(s *probes.Spec, _ *probes.Target) { s.Regression = probes.Regression{Enabled: true} },
		"Spec.FailureThreshold": func(s *probes.Spec, _ *probes.Target) { s.FailureThreshold = 5 },
		"Spec.Window":           func(s *probes.Spec, _ *probes.Target) { s.Window.MinSamples = 7 },
		"Spec.StaleAfter":       func(s *probes.Spec, _ *probes.Target) { s.StaleAfter = time.Hour },
		// Only sweeps have one; see TestFingerprintOfSweeps.
		"Spec.Sweep":                 func(s *probes.Spec, _ *probes.Target) { s.Sweep.MaxRate = 7 },
		"Spec.KeepText":              func(s *probes.Spec, _ *probes.Target) { s.KeepText = true },
		"Workload.Name":              func(s *probes.Spec, _ *probes.Target) { s.Workload.Name = "renamed" },
		"Workload.URL":               func(s *probes.Spec, _ *probes.Target) { s.Workload.URL = "https://mirror/trace" },
		"Workload.SHA256":            func(s *probes.Spec, _ *probes.Target) { s.Workload.SHA256 = "00" },
		"Workload.Path":              func(s *probes.Spec, _ *probes.Target) { s.Workload.Path = "/moved" },
		"Target.Name":                func(_ *probes.Spec, t *probes.Target) { t.Name = "renamed" },
		"Target.Pool":                func(_ *probes.Spec, t *probes.Target) { t.Pool = "renamed" },
		"Target.Site":                func(_ *probes.Spec, t *probes.Target) { t.Site = "fra1" },
		"Target.MetricsURL":          func(_ *probes.Spec, t *probes.Target) { t.MetricsURL = "http://10.0.0.6:8002/metrics" },
		"Target.MetricsCredentials":  func(_ *probes.Spec, t *probes.Target) { t.MetricsCredentials = true },
		"Target.BaseURL":             func(_ *probes.Spec, t *probes.Target) { t.BaseURL = "http://10.0.0.6:8000" },
		"Target.Path":                func(_ *probes.Spec, t *probes.Target) { t.Path = "/v2" },
		"Target.Labels":              func(_ *probes.Spec, t *probes.Target) { t.Labels = map[string]string{"gpu": "h100"} },
		"Target.Timeouts":            func(_ *probes.Spec, t *probes.Target) { t.Timeouts.Idle = time.Minute },
		"Connection.FollowRedirects": func(_ *probes.Spec, t *probes.Target) { t.Connection.FollowRedirects = true },
		"Connection.TLS":             func(_ *probes.Spec, t *probes.Target) { t.Connection.TLS.ServerName = "llm" },
		"Connection.APIKey":          func(_ *probes.Spec, t *probes.Target) { t.Connection.APIKey = "rotated" },
		"Connection.APIKeyFile":      func(_ *probes.Spec, t *probes.Target) { t.Connection.APIKeyFile = "/run/secrets/new" },
		"Connection.Headers": func(_ *probes.Spec, t *probes.Target) {
			t.Connection.Headers = map[string]probes.Secret{"x": "y"}
		},
	}
	spec, target := fullSpec()
	base := Fingerprint(spec, target, probes.ServerFacts{}, "random-1")
	seen := map[string]string{base: "nothing"}
	var covered []string
	for name, f := range apart {
		covered = append(covered, name)
		spec, target := fullSpec()
		f(&spec, &target)
		got := Fingerprint(spec, target, probes.ServerFacts{}, "random-1")
		if other, taken := seen[got]; taken {
			t.Errorf("changing %s gives the same fingerprint as changing %s", name, other)
		}
		seen[got] = name
	}
	for name, f := range alike {
		covered = append(covered, name)
		spec, target := fullSpec()
		f(&spec, &target)
		if got := Fingerprint(spec, target, probes.ServerFacts{}, "random-1"); got != base {
			t.Errorf("changing %s changed the fingerprint", name)
		}
	}
	if Fingerprint(spec, target, probes.ServerFacts{}, "random-2") == base {
		t.Error("another workload version gives the same fingerprint")
	}
	slices.Sort(covered)
	if diff := cmp.Diff(vocabularyFields(), covered); diff != "" {
		t.Errorf("decide whether these fields make runs incomparable (-vocabulary +test):\n%s", diff)
	}
}

// vocabularyFields lists the fields that describe what is run, structs of their
// own expanded where the fingerprint looks into them.
func vocabularyFields() []string {
	var names []string
	add := func(v any, expanded ...string) {
		for f := range reflect.TypeOf(v).Fields() {
			if !slices.Contains(expanded, f.Name) {
				names = append(names, reflect.TypeOf(v).Name()+"."+f.Name)
			}
		}
	}
	add(probes.Spec{}, "Workload", "Arrivals", "Warmup")
	add(probes.Workload{}, "Sampling")
	add(probes.Sampling{})
	add(probes.Arrivals{})
	add(probes.Warmup{})
	add(probes.Target{}, "Connection")
	add(probes.Connection{})
	slices.Sort(names)
	return names
}

// TestFingerprintOfFacts changes one fact at a time. What computes, and how, is
// another environment; a new build of the same is what a baseline is for.
func TestFingerprintOfFacts(t *testing.T) {
	alike := []string{"Version", "Model", "Revision", "ContextLength", "Incarnation"}
	spec, target := fullSpec()
	unknown := Fingerprint(spec, target, probes.ServerFacts{}, "random-1")
	seen := map[string]string{}
	for field := range reflect.TypeFor[probes.ServerFacts]().Fields() {
		var facts probes.ServerFacts
		switch p := reflect.ValueOf(&facts).Elem().FieldByIndex(field.Index).Addr().Interface().(type) {
		case *string:
			*p = "2"
		case *probes.Optional[int]:
			*p = known(2)
		case *probes.Optional[bool]:
			*p = known(true)
		default:
			t.Fatalf("%s has the type %T, which this test does not know", field.Name, p)
		}
		got := Fingerprint(spec, target, facts, "random-1")
		if same := got == unknown; same != slices.Contains(alike, field.Name) {
			t.Errorf("knowing %s: fingerprint unchanged is %v, want %v", field.Name, same, !same)
		}
		if other, taken := seen[got]; taken && got != unknown {
			t.Errorf("knowing %s gives the same fingerprint as knowing %s", field.Name, other)
		}
		seen[got] = field.Name
	}
	fp8, bf16 := probes.ServerFacts{Quantization: "fp8", TensorParallel: known(2)}, probes.ServerFacts{Quantization: "none", TensorParallel: known(2)}
	if Fingerprint(spec, target, fp8, "") == Fingerprint(spec, target, bf16, "") {
		t.Error("two quantizations have one fingerprint")
	}
}

func TestFingerprintOfTheDefaultProtocol(t *testing.T) {
	spec, target := fullSpec()
	unset := Fingerprint(spec, target, probes.ServerFacts{}, "")
	if target.Connection.Protocol = probes.HTTP1; Fingerprint(spec, target, probes.ServerFacts{}, "") != unset {
		t.Error("HTTP/1 by name is not the same as HTTP/1 by default")
	}
}

func TestFingerprintOfProxies(t *testing.T) {
	with := func(proxy string) string {
		spec, target := fullSpec()
		target.Connection.Proxy = proxy
		return Fingerprint(spec, target, probes.ServerFacts{}, "")
	}
	if with("") != with("none") {
		t.Error("an empty proxy is not the same as none")
	}
	if with("http://user:old@proxy:3128") != with("http://user:new@proxy:3128") || with("http://user:old@proxy:3128") != with("http://proxy:3128") {
		t.Error("a proxy's credentials are part of the fingerprint")
	}
	if with("http://proxy:3128") == with("http://other:3128") {
		t.Error("two proxies have one fingerprint")
	}
}

// A sweep's capacity is that of its rates and of its objectives.
func TestFingerprintOfSweeps(t *testing.T) {
	slo := func(name string, objective float64, bound time.Duration) []probes.SLO {
		return []probes.SLO{{Name: name, Objective: objective, Bounds: map[probes.Signal]time.Duration{probes.TTFT: bound}}}
	}
	with := func(rates []float64, slos []probes.SLO) string {
		spec, target := fullSpec()
		spec.Kind, spec.Sweep.Rates, spec.SLOs = probes.Sweep, rates, slos
		return Fingerprint(spec, target, probes.ServerFacts{}, "")
	}
	base := with([]float64{1, 2}, slo("a", 0.99, time.Second))
	if with([]float64{1, 2}, slo("b", 0.99, time.Second)) != base {
		t.Error("a renamed objective is another fingerprint")
	}
	for what, other := range map[string]string{
		"other rates": with([]float64{1, 3}, slo("a", 0.99, time.Second)), "another share": with([]float64{1, 2}, slo("a", 0.95, time.Second)),
		"another bound": with([]float64{1, 2}, slo("a", 0.99, 2*time.Second)),
	} {
		if other == base {
			t.Errorf("%s give the same fingerprint", what)
		}
	}
}

// TestFingerprintOfAnUnsendableBody: NaN is legal YAML and no JSON.
func TestFingerprintOfAnUnsendableBody(t *testing.T) {
	spec, target := fullSpec()
	spec.Workload.Sampling.ExtraBody = map[string]any{"x": math.NaN()}
	a := Fingerprint(spec, target, probes.ServerFacts{}, "")
	spec.Workload.Sampling.ExtraBody = map[string]any{"x": math.NaN(), "y": 1}
	if b := Fingerprint(spec, target, probes.ServerFacts{}, ""); len(a) != 16 || a == b {
		t.Errorf("fingerprints %q and %q, want two of 16 digits", a, b)
	}
}

// TestFingerprintTokenizerFile: it does not matter where a tokenizer lies, what it holds
// is part of the workload's version.
func TestFingerprintTokenizerFile(t *testing.T) {
	of := func(tokenizer string) string {
		spec, target := fullSpec()
		spec.Workload.Tokenizer = tokenizer
		return Fingerprint(spec, target, probes.ServerFacts{}, "random-1")
	}
	if of("/a/tokenizer.json") != of("/b") || of("/a/tokenizer.json") == of("server") || of("/b") == of("approx") {
		t.Errorf("fingerprints: %s, %s, server %s, approx %s", of("/a/tokenizer.json"), of("/b"), of("server"), of("approx"))
	}
}

// Names, their order and the way to choose make other loads.
func TestFingerprintOfAdapters(t *testing.T) {
	seen := map[string]probes.Adapters{}
	for _, a := range []probes.Adapters{
		{}, {Names: []string{"a", "b"}, Choice: probes.AdaptersUniform}, {Names: []string{"b", "a"}, Choice: probes.AdaptersUniform},
		{Names: []string{"a", "b"}, Choice: probes.AdaptersDistinct}, {Names: []string{"a", "b"}, Choice: probes.AdaptersSkewed, Alpha: 1.5},
		{Names: []string{"a", "b"}, Choice: probes.AdaptersSkewed, Alpha: 2},
	} {
		spec, target := fullSpec()
		spec.Workload.Adapters = a
		got := Fingerprint(spec, target, probes.ServerFacts{}, "random-1")
		if other, ok := seen[got]; ok {
			t.Errorf("%+v and %+v have one fingerprint", a, other)
		}
		seen[got] = a
	}
}
