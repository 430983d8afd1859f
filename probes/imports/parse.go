package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/inferbeat/inferbeat/probes"
)

// Names of the tools, as Source of their runs.
const (
	BenchServing           = "bench_serving"
	BenchOfflineThroughput = "bench_offline_throughput"
	BenchOneBatch          = "bench_one_batch"
	BenchOneBatchServer    = "bench_one_batch_server"
	VLLMBenchServe         = "vllm_bench_serve"
	VLLMBenchThroughput    = "vllm_bench_throughput"
)

// Tool is one benchmark whose results can be read.
type Tool struct {
	Source string
	// Keys are in every result of the tool and, in the order of Tools, in no
	// result of a tool further down.
	Keys []string
	fill func(*fields, *probes.Run)
}

// Tools lists them in the order in which a result is held against their keys.
var Tools = []Tool{
	{BenchOneBatch, []string{"batch_size", "prefill_latency"}, oneBatch},
	{BenchOneBatchServer, []string{"batch_size", "latency", "overall_throughput"}, oneBatchServer},
	{BenchOfflineThroughput, []string{"successful_requests", "total_latency"}, offlineThroughput},
	{VLLMBenchThroughput, []string{"elapsed_time", "num_requests", "requests_per_second"}, vllmThroughput},
	{VLLMBenchServe, []string{"completed", "duration", "total_token_throughput"}, vllmServe},
	{BenchServing, []string{"completed", "duration", "backend"}, benchServing},
}

// space makes the ids of imported runs: the same result has the same id however
// often it is read.
var space = uuid.MustParse("0b1f6a44-5f0e-5c7e-9a55-3d3a8a0f7c21")

// parse turns the text of one result into a run.
func parse(text []byte, o Options) (*probes.Run, error) {
	text = strict(text)
	f := &fields{}
	if err := json.Unmarshal(text, &f.values); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("parse result: no JSON from byte %d on: %w", syntax.Offset, err)
		}
		return nil, errors.New("parse result: must be an object, one to a line")
	}
	if f.has("inferbeat") {
		return nil, errors.New("parse result: is a line of inferbeat itself, which 'inferbeat merge' reads")
	}
	for _, tool := range Tools {
		if !f.has(tool.Keys...) {
			continue
		}
		run := &probes.Run{
			ID: uuid.NewSHA1(space, text).String(), Source: tool.Source, Target: o.Target, Complete: true,
			Spec:    probes.Spec{Probe: o.Probe, Kind: probes.Load, Workload: probes.Workload{Name: "imported"}},
			Summary: probes.Summary{Outcomes: map[probes.Outcome]int{}, Latency: map[probes.Signal]probes.Distribution{}},
		}
		if backend := f.text("backend"); backend != "" {
			run.Target.Backend = backend
		}
		tool.fill(f, run)
		if f.err != nil {
			return nil, fmt.Errorf("parse result of %s: %w", tool.Source, f.err)
		}
		count(&run.Summary)
		return run, nil
	}
	var known []string
	for _, tool := range Tools {
		known = append(known, tool.Source)
	}
	return nil, fmt.Errorf("parse result: its keys are of none of %s", strings.Join(known, ", "))
}

// count fills in what follows from the numbers of completed and failed requests.
func count(s *probes.Summary) {
	s.Requests = s.Completed + s.Failed
	s.Sent = s.Requests
	if s.Completed > 0 {
		s.Outcomes[probes.OK] = s.Completed
	}
	if s.Requests > 0 {
		s.SuccessRatio = probes.Known(float64(s.Completed) / float64(s.Requests))
	}
}
