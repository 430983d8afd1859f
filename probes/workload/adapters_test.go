package workload

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// asksFor opens a workload of adapters and says which one each request asks for.
func asksFor(t *testing.T, w probes.Workload, salt string, measured, warmup int) (names, warm []string) {
	t.Helper()
	s, err := Open(context.Background(), w, Options{Salt: salt, RunID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range warmup {
		r, _ := s.NextWarmup()
		warm = append(warm, r.Sampling.LoRA)
	}
	for range measured {
		r, _ := s.Next()
		names = append(names, r.Sampling.LoRA)
	}
	return names, warm
}

func adapted(choice probes.AdapterChoice, alpha float64, names ...string) probes.Workload {
	return probes.Workload{
		Dataset: Random, InputTokens: 8, OutputTokens: 4, RangeRatio: 1, Tokenizer: TokenizerApprox, Seed: 7,
		Adapters: probes.Adapters{Names: names, Choice: choice, Alpha: alpha},
	}
}

// The sequences are frozen: another one would be another workload under the same name.
func TestAdapterOfEachRequest(t *testing.T) {
	for _, tt := range []struct {
		w          probes.Workload
		want, warm string
	}{
		{adapted(probes.AdaptersDistinct, 0, "a", "b", "c"), "a b c a b c a b c a b c", "a b c a"},
		{adapted(probes.AdaptersUniform, 0, "a", "b", "c"), "a c b b b b a c c a a a", "a b c a"},
		{adapted(probes.AdaptersSkewed, 1.5, "a", "b", "c"), "a c a a a b a b b a a a", "a b c a"},
		{adapted(probes.AdaptersUniform, 0, "a"), "a a a a a a a a a a a a", "a a a a"},
		{adapted("", 0), "           ", "   "},
	} {
		for _, salt := range []string{"", "one", "two"} {
			got, warm := asksFor(t, tt.w, salt, 12, 4)
			if strings.Join(got, " ") != tt.want || strings.Join(warm, " ") != tt.warm {
				t.Errorf("%+v with salt %q: got %q, warm-up %q; want %q, %q", tt.w.Adapters, salt, strings.Join(got, " "), strings.Join(warm, " "), tt.want, tt.warm)
			}
		}
	}
}

// Over many requests each adapter gets the share that its weight promises: alpha^-i,
// normalised. Five standard deviations of a fixed draw are no tolerance but a bound.
func TestSharesOfAdapters(t *testing.T) {
	const n = 20000
	for _, tt := range []struct {
		w    probes.Workload
		want []float64
	}{
		{adapted(probes.AdaptersUniform, 0, "0", "1", "2", "3"), []float64{0.25, 0.25, 0.25, 0.25}},
		{adapted(probes.AdaptersSkewed, 2, "0", "1", "2"), []float64{4. / 7, 2. / 7, 1. / 7}},
	} {
		a := newAdapters(tt.w)
		counts := make([]float64, len(tt.want))
		for i := range n {
			counts[a.pick(i, false)]++
		}
		for i, share := range tt.want {
			if d := math.Abs(counts[i] - n*share); d > 5*math.Sqrt(n*share*(1-share)) {
				t.Errorf("%s: adapter %d was chosen %v times of %d, want about %v", tt.w.Adapters.Choice, i, counts[i], n, n*share)
			}
		}
	}
}

func TestAnotherSeedChoosesAnotherSequence(t *testing.T) {
	w := adapted(probes.AdaptersUniform, 0, "a", "b", "c")
	first, _ := asksFor(t, w, "", 20, 0)
	w.Seed++
	second, _ := asksFor(t, w, "", 20, 0)
	if cmp.Equal(first, second) {
		t.Errorf("seeds 7 and 8 both choose %q", first)
	}
}

// All turns of a conversation have one adapter, and conversations have several.
func TestConversationKeepsItsAdapter(t *testing.T) {
	for _, choice := range probes.AdapterChoices {
		alpha := map[probes.AdapterChoice]float64{probes.AdaptersSkewed: 1.5}[choice]
		a := newAdapters(adapted(choice, alpha, "a", "b", "c"))
		used := map[string]bool{}
		for session := range 20 {
			var turns []string
			for turn := range 3 {
				r := probes.Request{Index: 20*turn + session, Session: fmt.Sprintf("talk %d", session)}
				a.choose(&r)
				turns = append(turns, r.Sampling.LoRA)
			}
			if turns[0] != turns[1] || turns[1] != turns[2] {
				t.Errorf("%s: session %d asks %q", choice, session, turns)
			}
			used[turns[0]] = true
		}
		if len(used) != 3 {
			t.Errorf("%s: 20 sessions use %v, want all three", choice, used)
		}
	}
}

func TestAdaptersAreValidated(t *testing.T) {
	for _, tt := range []struct {
		w    probes.Workload
		want string
	}{
		{adapted(probes.AdaptersDistinct, 0, "a"), "lora_request_distribution: distinct chooses among at least two adapters, lora names 1"},
		{adapted(probes.AdaptersSkewed, 1.5), "lora_request_distribution: skewed chooses among at least two adapters, lora names 0"},
		{adapted(probes.AdaptersSkewed, 1, "a", "b"), "lora_zipf_alpha: 1 is not a number above 1"},
		{adapted(probes.AdaptersSkewed, math.NaN(), "a", "b"), "lora_zipf_alpha: NaN is not a number above 1"},
		{adapted(probes.AdaptersUniform, 2, "a", "b"), "lora_zipf_alpha: has no effect, lora_request_distribution is not skewed"},
		{adapted(probes.AdaptersUniform, 0, "a", "a"), `lora: names "a" twice`},
		{adapted(probes.AdaptersUniform, 0, "a", ""), "lora: a name is empty"},
		{adapted("zipf", 0, "a", "b"), `lora_request_distribution: unknown "zipf", use one of ["uniform" "distinct" "skewed"]`},
	} {
		if err := Validate(tt.w); err == nil || err.Error() != tt.want {
			t.Errorf("%+v: got %v, want %s", tt.w.Adapters, err, tt.want)
		}
	}
}

// Workloads without a choice keep the version that they had before there was one.
func TestAdaptersAreInTheVersion(t *testing.T) {
	seen := map[string]probes.Adapters{}
	for _, a := range []probes.Adapters{
		{}, {Names: []string{"a", "b"}}, {Names: []string{"b", "a"}}, {Names: []string{"a", "b"}, Choice: probes.AdaptersDistinct},
		{Names: []string{"a", "b"}, Choice: probes.AdaptersSkewed, Alpha: 1.5}, {Names: []string{"a", "b"}, Choice: probes.AdaptersSkewed, Alpha: 2},
	} {
		w := adapted("", 0)
		w.Adapters = a
		v, err := version(w, "", false, false)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[v]; ok {
			t.Errorf("%+v and %+v have one version", a, other)
		}
		seen[v] = a
	}
}

func BenchmarkChooseAdapter(b *testing.B) {
	a := newAdapters(adapted(probes.AdaptersSkewed, 1.5, "a", "b", "c", "d", "e", "f", "g", "h"))
	b.ReportAllocs()
	r := probes.Request{}
	for b.Loop() {
		a.choose(&r)
		r.Index++
	}
}
