package table

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/inferbeat/inferbeat/probes"
)

func runs() []*probes.Run {
	start := time.Date(2026, 3, 1, 2, 0, 0, 500, time.UTC)
	load := &probes.Run{
		ID: "r1", Start: start, End: start.Add(time.Minute), Result: probes.RunSuccess, Fingerprint: "f00d",
		Target: probes.Target{Name: "a, b", Pool: "p", Environment: probes.Staging, Model: "m"}, Spec: probes.Spec{Probe: "nightly", Kind: probes.Load},
		Validity: probes.Validity{State: probes.Suspect}, Verdict: probes.Verdict{State: probes.Pass}, Facts: probes.ServerFacts{Engine: "vllm", Version: "0.11"},
		Summary: probes.Summary{
			Requests: 2, Completed: 1, Failed: 1, Duration: 1500 * time.Millisecond, OutputThroughput: probes.Known(0.0),
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: 1, Mean: 0.25, P50: 0.125, P99: 0.5}},
		},
		Records: []probes.Record{
			{ID: "r1-0", Outcome: probes.OK, StatusCode: 200, Due: time.Second, Sent: 1250 * time.Millisecond, FirstToken: probes.Known(1500 * time.Millisecond),
				LastToken: probes.Known(2 * time.Second), OutputTokens: probes.Known(2), CachedTokens: probes.Known(0),
				Chunks: []probes.Chunk{{At: 1500 * time.Millisecond, Tokens: 1}, {At: 2 * time.Second, Tokens: 1}}},
			{ID: "r1-1", Index: 1, Outcome: probes.Dropped, Due: 2 * time.Second},
		},
	}
	sweep := &probes.Run{ID: "r2", Start: start, End: start, Capacity: probes.Capacity{Rate: probes.Known(12.5)}, Steps: []probes.Step{{Records: load.Records[:1]}}}
	return []*probes.Run{load, sweep}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCSV(&b, Runs(runs())); err != nil {
		t.Fatal(err)
	}
	want := `run_id,start,end,target,pool,target_env,model,probe,kind,result,validity,verdict,fingerprint,engine,engine_version,requests,completed,failed,duration_seconds,ttft_mean_seconds,ttft_p50_seconds,ttft_p99_seconds,tpot_p50_seconds,tpot_p99_seconds,e2e_p50_seconds,e2e_p99_seconds,requests_per_second,input_tokens_per_second,output_tokens_per_second,success_ratio,spec_accept_length,prefix_cache_hit_ratio,capacity_requests_per_second
r1,2026-03-01T02:00:00.0000005Z,2026-03-01T02:01:00.0000005Z,"a, b",p,staging,m,nightly,load,success,suspect,pass,f00d,vllm,0.11,2,1,1,1.5,0.25,0.125,0.5,,,,,,,0,,,,
r2,2026-03-01T02:00:00.0000005Z,2026-03-01T02:00:00.0000005Z,,,,,,,,,,,,,0,0,0,0,,,,,,,,,,,,,,12.5
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := WriteCSV(&b, Requests(runs())); err != nil {
		t.Fatal(err)
	}
	want = `run_id,target,probe,request_id,index,outcome,status,due_seconds,sent_seconds,ttft_seconds,tpot_seconds,e2e_seconds,chunks,input_tokens,cached_tokens,output_tokens
r1,"a, b",nightly,r1-0,0,ok,200,1,1.25,0.25,0.5,0.75,2,,0,2
r1,"a, b",nightly,r1-1,1,dropped,0,2,,,,,0,,,
r2,,,r1-0,0,ok,200,1,1.25,0.25,0.5,0.75,2,,0,2
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestParquetReadsBack(t *testing.T) {
	var b bytes.Buffer
	if err := WriteParquet(&b, Runs(runs())); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[Run](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Runs(runs()), got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := WriteParquet(&b, Requests(runs())); err != nil {
		t.Fatal(err)
	}
	requests, err := parquet.Read[Request](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Requests(runs()), requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A disk that is full is an error of either form.
func TestWriteErrors(t *testing.T) {
	if err := WriteCSV(full{}, Runs(runs())); err == nil || !strings.HasPrefix(err.Error(), "write csv: ") {
		t.Errorf("csv: got %v, want an error", err)
	}
	if err := WriteParquet(full{}, Runs(runs())); err == nil || !strings.HasPrefix(err.Error(), "write parquet: ") {
		t.Errorf("parquet: got %v, want an error", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }
