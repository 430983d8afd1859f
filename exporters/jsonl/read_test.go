package jsonl

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// fill gives each field of a struct another value that is not its zero, so that a
// field which is not written cannot be missed.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch p := v.Addr().Interface().(type) {
	case *probes.Optional[time.Duration]:
		*p = probes.Known(time.Duration(*next))
		return
	case *probes.Optional[int]:
		*p = probes.Known(int(*next))
		return
	case *probes.Optional[float64]:
		*p = probes.Known(float64(*next) / 3)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), next)
		fill(t, v.Index(1), next)
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*next)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint16:
		v.SetUint(uint64(*next))
	default:
		t.Fatalf("a record has a field of type %s, which this test does not know", v.Type())
	}
}

// Every field of every record comes back as it was, and so does what a result is
// computed from beside them.
func TestReadGivesBackWhatWasWritten(t *testing.T) {
	var next int64
	records := make([]probes.Record, 3)
	for i := range records {
		fill(t, reflect.ValueOf(&records[i]).Elem(), &next)
		records[i].Warmup = i == 2
		records[i].Index = 1 - i // request order is not the order in which they ended
	}
	records[2].Text = "" // the texts of a warm-up are not kept
	run := &probes.Run{
		ID:     "0190-run",
		Target: probes.Target{Name: "t", Pool: "p", Environment: probes.Staging, Site: "s", Backend: "vllm", BaseURL: "http://h:1", Model: "m", Connection: probes.Connection{Policy: probes.ConnectionNew}},
		Spec: probes.Spec{
			Probe: "p", Kind: probes.Load, Requests: 6, Arrivals: probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)},
			Workload: probes.Workload{Dataset: "random", Seed: 7, URL: "https://u:secret@h/x", Sampling: probes.Sampling{TopP: probes.Known(0.5), ExtraBody: map[string]any{"key": "secret"}}},
			SLOs:     []probes.SLO{{Name: "fast", Objective: 0.99, Bounds: map[probes.Signal]time.Duration{probes.TTFT: time.Second}}},
			Shard:    probes.Shard{Index: 1, Of: 3, Start: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)},
		},
		Start: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), End: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC), Complete: true,
		SkippedRows: 4, Records: records[:2], Warmup: records[2:], Fingerprint: "part", Whole: "whole",
		Facts:    probes.ServerFacts{Engine: "vllm", TensorParallel: probes.Known(2)},
		Validity: probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "c", Text: "t"}}},
		Sending:  probes.Sending{Start: 1, End: 2, Window: true},
	}
	run.Summary.Client.Process = probes.Process{CPUShare: probes.Known(0.1), GCPauses: probes.Known(3), Throttled: probes.Known(time.Second)}
	text, err := Encode(run, Options{Details: true})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("secret")) {
		t.Errorf("a secret is in the line: %s", text)
	}
	got, err := Read("f", bytes.NewReader(append(text, '\n')))
	if err != nil || len(got) != 1 {
		t.Fatalf("%d runs, error %v; want one", len(got), err)
	}
	want := *run
	want.Origin = "f:1"
	want.Spec.Workload.URL, want.Spec.Workload.Sampling.ExtraBody = "", nil
	want.Records = []probes.Record{records[1], records[0]}
	if d := cmp.Diff(&want, got[0]); d != "" {
		t.Errorf("the run that was read (-want +got):\n%s", d)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "f: holds no result",
		"\n{\"a\":":                           "f:2: parse result: unexpected end of JSON input",
		`{"completed": 1}`:                    "f:1: read result: is not one of inferbeat; 'inferbeat import' reads those of other tools",
		`{"inferbeat":{"error":"no route"}}`:  "f:1: read result: the run could not be carried out: no route",
		`{"inferbeat":{"run_id":"r"}}`:        "f:1: read result: has no records; run it with --output-details",
		`{"inferbeat":{"details":{"due":1}}}`: "f:1: read result: has no records; run it with --output-details",
	} {
		if _, err := Read("f", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
