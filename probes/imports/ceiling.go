package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/inferbeat/inferbeat/probes"
)

// Offline reads the throughput ceiling of a file's last result: of an engine
// without a server (bench_offline_throughput, vllm bench throughput), or of a peak
// that this program has measured and written.
func Offline(file string, r io.Reader) (probes.Offline, error) {
	var last probes.Offline
	err := eachResult(file, r, func(_ int, text []byte) error {
		f := &fields{}
		if json.Unmarshal(strict(text), &f.values) != nil {
			return errors.New("parse result: no JSON object")
		}
		switch {
		case f.has(toolKeys(BenchOfflineThroughput)...):
			last = probes.Offline{Throughput: f.number("output_throughput"), Source: BenchOfflineThroughput}
		case f.has(toolKeys(VLLMBenchThroughput)...):
			last = probes.Offline{Throughput: f.number("tokens_per_second"), Total: true, Source: VLLMBenchThroughput}
		case f.has("inferbeat"):
			var own struct{ Kind string }
			if !f.read("inferbeat", &own, "an object") || own.Kind != string(probes.Peak) {
				return nil // other runs in the same file are no ceiling
			}
			last = probes.Offline{Throughput: f.number("output_throughput"), Source: "peak"}
		default:
			return errors.New("parse result: is no throughput of an engine alone: give a result of bench_offline_throughput, vllm bench throughput or a peak")
		}
		return f.err
	})
	if err == nil && !last.Throughput.IsKnown() {
		err = fmt.Errorf("%s: holds no throughput of an engine alone and no peak", file)
	}
	return last, err
}

func toolKeys(source string) []string {
	for _, t := range Tools {
		if t.Source == source {
			return t.Keys
		}
	}
	return nil
}
