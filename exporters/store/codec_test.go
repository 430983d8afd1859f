package store

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func TestCodecWritesWhatIsNotZero(t *testing.T) {
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"nothing", probes.Summary{}, `{}`},
		{"unknown and zero", probes.Summary{AcceptLength: probes.Known(0.0)}, `{"AcceptLength":0}`},
		{"infinite", probes.Arrivals{Rate: math.Inf(1)}, `{"Rate":"inf"}`},
		{"infinite and optional", probes.Summary{OfferedRate: probes.Known(math.Inf(1))}, `{"OfferedRate":"inf"}`},
		{"not a number", probes.Distribution{N: 1, P99: math.NaN()}, `{"N":1,"P99":"nan"}`},
		{"map in order", probes.Summary{Outcomes: map[probes.Outcome]int{"ok": 2, "dns": 1}}, `{"Outcomes":{"dns":1,"ok":2}}`},
		{"zero in a list", probes.SweepPlan{Rates: []float64{0, 1}}, `{"Rates":[0,1]}`},
		{"nanoseconds", probes.Timeouts{Total: 1<<53 + 1}, `{"Total":9007199254740993}`},
		{"zone", probes.Step{Start: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))}, `{"Start":"2026-01-02T02:04:05.000000006Z"}`},
		{"flags are bits", probes.Record{Flags: probes.NotStreamed | probes.Coalesced}, `{"Flags":129}`},
		{"secret", probes.Connection{APIKey: "hunter2", Headers: map[string]probes.Secret{"X-Key": "hunter3"}}, `{}`},
	} {
		got, err := marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestCodecReadsWhatItWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := strip(new(fillOne[probes.Run](newFiller(rapid.Uint64().Draw(t, "seed")))))
		text, err := marshal(want)
		if err != nil {
			t.Fatalf("marshal: %v", err)
		}
		var got probes.Run
		if err := unmarshal(text, &got); err != nil {
			t.Fatalf("unmarshal: %v", err)
		}
		if diff := cmp.Diff(want, got, equate, cmp.Comparer(func(a, b probes.Secret) bool { return true })); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	})
}

func TestCodecSkipsWhatItDoesNotKnow(t *testing.T) {
	var got probes.Warmup
	if err := unmarshal([]byte(`{"Requests":3,"Later":{"a":[1]}}`), &got); err != nil || got.Requests != 3 {
		t.Errorf("read a newer value: got %+v, %v, want 3 requests", got, err)
	}
	for _, text := range []string{`{"Requests":"x"}`, `{"Requests":1.5}`, `[]`, `{`, `{"Duration":true}`} {
		if err := unmarshal([]byte(text), &got); err == nil {
			t.Errorf("read %s: got no error", text)
		}
	}
}

func TestSamplesReadWhatTheyWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFiller(rapid.Uint64().Draw(t, "seed"))
		run := fillOne[probes.Run](f)
		run.Parts[0].Run.Records = run.Records // as a run of repeats has it
		packed := encodeSamples(groups(&run))
		got := strip(&run)
		if err := decodeSamples(packed, groups(&got)); err != nil {
			t.Fatalf("decode: %v", err)
		}
		if diff := cmp.Diff(storable(&run), &got, equate); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
		if len(run.Records) > 0 && &got.Records[0] != &got.Parts[0].Run.Records[0] {
			t.Fatal("records that were shared are now twice in memory")
		}
	})
}

// Unknown instants, records that were never sent, times before the planned start.
func TestSamplesOfOddRecords(t *testing.T) {
	records := []probes.Record{
		{},
		{ID: "another", Outcome: probes.Dropped, Due: 5},
		{ID: "run-2", Outcome: probes.OK, Due: 7, Sent: 6, FirstToken: probes.Known(time.Duration(3)), OutputTokens: probes.Known(0), Chunks: []probes.Chunk{{At: 3}, {At: 2, Tokens: 1}}},
		{ID: "ru", Due: -9, AcceptLength: probes.Known(math.Inf(1)), RetryAfter: probes.Known(time.Duration(0))},
	}
	run := &probes.Run{ID: "run", Records: records}
	got := &probes.Run{ID: "run"}
	if err := decodeSamples(encodeSamples(groups(run)), groups(got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run, got, equate); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if b := encodeSamples(groups(&probes.Run{ID: "run"})); b != nil {
		t.Errorf("samples of no records: got %d bytes, want none", len(b))
	}
}

// Damaged samples are an error or other numbers, never a crash or a flood of memory.
func TestSamplesDamaged(t *testing.T) {
	run := fillOne[probes.Run](newFiller(1))
	whole := encodeSamples(groups(&run))
	if err := decodeSamples([]byte{99}, groups(&run)); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("samples of a later format: got error %v, want one that says so", err)
	}
	for n := 0; n < len(whole)-1; n += 1 + n/50 {
		got := strip(&run)
		if err := decodeSamples(whole[:n+1], groups(&got)); err == nil {
			t.Fatalf("samples cut after %d of %d bytes: got no error", n+1, len(whole))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		damaged := append([]byte(nil), whole...)
		for range rapid.IntRange(1, 4).Draw(t, "bytes") {
			damaged[rapid.IntRange(0, len(damaged)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		got := strip(&run)
		_ = decodeSamples(damaged, groups(&got)) // returns
	})
}
