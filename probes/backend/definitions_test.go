package backend

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// moment is an event of a stream and when it came, in milliseconds after sending.
type moment struct {
	at    int
	event string
}

// latencies of a record in milliseconds.
type latencies struct {
	TTFT, E2E, TPOT float64
	ITL             []float64
}

func inMilliseconds(d probes.Optional[time.Duration]) float64 {
	v, _ := d.Get()
	return float64(v) / float64(time.Millisecond)
}

// TestDefinitions reads one stream by everybody's definitions.
func TestDefinitions(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":5}`
	chat := []moment{
		{10, `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`},
		{30, `{"choices":[{"index":0,"delta":{"content":"a"}}]}`},
		{50, `{"choices":[{"index":0,"delta":{"content":"bc"}}]}`}, // two tokens
		{60, `{"choices":[{"index":0,"delta":{"content":"d"}}]}`},
		{70, `{"choices":[{"index":0,"delta":{"content":""}}]}`},
		{90, `{"choices":[{"index":0,"delta":{"content":"e"}}]}`},
		{110, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`},
		{115, `{"choices":[],` + usage + `}`},
		{130, `[DONE]`},
	}
	native := []moment{
		{30, `{"text":"a","meta_info":{"completion_tokens":1}}`},
		{50, `{"text":"abc","meta_info":{"completion_tokens":3}}`},
		{90, `{"text":"abcde","meta_info":{"completion_tokens":5,"finish_reason":{"type":"length"}}}`},
		{130, `[DONE]`},
	}
	for _, test := range []struct {
		name        string
		dialect     *dialect
		stream      []moment
		definitions probes.Definitions
		want        latencies
	}{
		// The first chunk holds one token, so four are spread over 60 ms; no chunk says how many it holds.
		{"chat, our own", &vllmChat, chat, probes.OwnDefinitions, latencies{30, 90, 15, nil}},
		// (130 - 30) / 4
		{"chat, sglang", &sglangChat, chat, probes.SGLangDefinitions, latencies{30, 130, 25, []float64{20, 10, 30}}},
		// (110 - 10) / 4
		{"chat, vllm", &vllmChat, chat, probes.VLLMDefinitions, latencies{10, 110, 25, []float64{20, 20, 10, 10, 20, 20}}},
		{"native, our own", &sglangNative, native, probes.OwnDefinitions, latencies{30, 90, 15, []float64{10, 10, 20, 20}}},
		{"native, sglang", &sglangNative, native, probes.SGLangDefinitions, latencies{30, 130, 25, []float64{10, 10, 20, 20}}},
		// No message of this dialect has a choice: its token events stand for them.
		{"native, vllm", &sglangNative, native, probes.VLLMDefinitions, latencies{30, 90, 15, []float64{20, 40}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := probes.Record{Definitions: test.definitions, Outcome: probes.OK}
			r := newReading()
			r.begin(test.dialect, &rec, false, "")
			for _, m := range test.stream {
				at := time.Duration(m.at) * time.Millisecond
				if r.feed([]byte("data: "+m.event+"\n\n"), at) {
					rec.End = probes.Known(at)
				}
			}
			r.settle()
			got := latencies{TTFT: inMilliseconds(rec.TTFT()), E2E: inMilliseconds(rec.E2E()), TPOT: inMilliseconds(rec.TPOT())}
			for _, gap := range rec.AppendITL(nil) {
				got.ITL = append(got.ITL, gap*1e3)
			}
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
				t.Errorf("latencies (-want +got):\n%s", diff)
			}
			if n, _ := rec.OutputTokens.Get(); n != 5 {
				t.Errorf("output tokens = %d, want 5", n)
			}
		})
	}
}

// TestEmptyAnswerStaysEmpty: a role chunk is a message, not output.
func TestEmptyAnswerStaysEmpty(t *testing.T) {
	rec := probes.Record{Definitions: probes.VLLMDefinitions}
	r := newReading()
	r.begin(&vllmChat, &rec, false, "")
	r.feed([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\ndata: [DONE]\n\n"), time.Millisecond)
	if r.output || len(rec.Chunks) != 1 {
		t.Errorf("output %v with %d messages, want no output and 1 message", r.output, len(rec.Chunks))
	}
}
