package backend

import "github.com/inferbeat/inferbeat/probes/internal/jsonscan"

// triton is a TensorRT-LLM ensemble behind Triton's generate extension. Its stream has
// neither an end mark nor a finish reason: the regular end of the body is all there is.
// A length is forced by an end token outside of the vocabulary and by the shortest
// length, which the older templates call min_length and the newer ones min_tokens;
// Triton hands on as a parameter what is no input of the model, so both can be sent.
var triton = dialect{
	path: "/v2/models/ensemble/generate_stream", wholePath: "/v2/models/ensemble/generate", port: 8000,
	lengthField: "max_tokens", exact: map[string]any{"end_id": 1 << 20}, leastFields: []string{"min_length", "min_tokens"},
	body: tritonBody, lora: loraTask, endsWithBody: true, parse: parseTriton,
}

// leastTemperature stands for 0, which the backend refuses or takes for "not given".
const leastTemperature = 1e-6

func tritonBody(d *dialect, q question) map[string]any {
	fields := map[string]any{"text_input": q.Prompt}
	d.addSampling(fields, q.Request)
	if q.Sampling.Temperature == 0 {
		fields["temperature"] = leastTemperature
	}
	return fields
}

func loraTask(fields map[string]any, name string) error {
	id, err := loraNumber(name, "its lora_task_id")
	fields["lora_task_id"] = id
	return err
}

// parseTriton reads an event, or the answer of /generate. An empty text is a token that
// printed nothing. The counts come only from templates that were asked for them.
func parseTriton(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	drafted, accepted := 0, 0
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "text_output":
			out.known = out.known || s.Peek() == '"'
			out.addPiece(s)
		case "num_output_tokens":
			count(s, &out.completion)
		case "num_input_tokens":
			count(s, &out.prompt)
		case "total_draft_tokens":
			drafted, _ = s.Int()
		case "total_accepted_draft_tokens":
			accepted, _ = s.Int()
		case "error":
			out.failed = failure(s) || out.failed
		default:
			s.Skip()
		}
	}
	out.acceptFromDrafts(drafted, accepted)
}
