package backend

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func TestNames(t *testing.T) {
	type facts struct {
		Port     int
		TokenIDs bool
	}
	want := map[string]facts{
		"anthropic": {443, false}, "dynamo": {8000, true}, "llamacpp": {8080, true}, "lmdeploy": {23333, false}, "lmdeploy-chat": {23333, true},
		"ollama": {11434, false}, "openai": {443, true}, "openai-chat": {443, false}, "openai-responses": {443, false}, "sglang": {30000, true},
		"sglang-native": {30000, true}, "sglang-oai": {30000, true}, "sglang-oai-chat": {30000, false}, "tgi": {3000, false}, "trt": {8000, false},
		"trtllm-serve": {8000, true}, "trtllm-serve-chat": {8000, false}, "truss": {8080, false}, "vllm": {8000, true}, "vllm-chat": {8000, false},
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), Names()); diff != "" {
		t.Errorf("Names() (-want +got):\n%s", diff)
	}
	got := map[string]facts{}
	for _, name := range Names() {
		got[name] = facts{defaultPort(name), AcceptsTokenIDs(name)}
		if err := Check(name); err != nil {
			t.Errorf("Check(%q) = %v", name, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaultPort and AcceptsTokenIDs (-want +got):\n%s", diff)
	}
	if defaultPort("nope") != 0 || AcceptsTokenIDs("nope") {
		t.Error("an unknown backend has a port or takes ids")
	}
	for name, text := range map[string]string{
		"gserver":     "not implemented upstream either",
		"vlm":         `did you mean "vllm"? Known are anthropic, dynamo,`,
		"VLLM_chat":   `did you mean "vllm-chat"?`,
		"sglang-chat": `did you mean "sglang-oai-chat"?`,
		"llama-cpp":   `did you mean "llamacpp"?`,
		"trtllm":      `did you mean "trtllm-serve"?`,
		"trtllm-chat": `did you mean "trtllm-serve-chat"?`,
		"responses":   `did you mean "openai-responses"?`,
		"xyzzy":       "unknown name; known are anthropic,",
		"":            "unknown name; known are anthropic,",
	} {
		if err := Check(name); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Check(%q) = %v, want %q in it", name, err, text)
		}
	}
}

// vllm-project/vllm#28679 and sgl-project/sglang#28598: http://:::8000 and friends.
func TestBaseURLAndJoin(t *testing.T) {
	tests := []struct {
		host string
		port int
		want string
	}{
		{"::1", 8000, "http://[::1]:8000/v1/completions"},
		{"[::1]", 8000, "http://[::1]:8000/v1/completions"},
		{"127.0.0.1", 8000, "http://127.0.0.1:8000/v1/completions"},
		{"fe80::1%eth0", 8000, "http://[fe80::1%25eth0]:8000/v1/completions"},
		{"fe80::1%25eth0", 8000, "http://[fe80::1%25eth0]:8000/v1/completions"},
		{"engine", 0, "http://engine:8000/v1/completions"},
		{"engine:9000", 0, "http://engine:9000/v1/completions"},
		{"[::1]:9000", 0, "http://[::1]:9000/v1/completions"},
		{"[::1]", 0, "http://[::1]:8000/v1/completions"},
		{"2001:db8::5", 0, "http://[2001:db8::5]:8000/v1/completions"},
		{"::1", 0, "http://[::1]:8000/v1/completions"},
		{"engine", 443, "https://engine/v1/completions"},
		{"::1:8000", 8000, "http://[::1:8000]:8000/v1/completions"},
	}
	for _, test := range tests {
		base, err := BaseURL("vllm", test.host, test.port)
		if err != nil {
			t.Errorf("BaseURL(%q, %d): %v", test.host, test.port, err)
			continue
		}
		if got, err := joinURL(base, "/v1/completions"); got != test.want || err != nil {
			t.Errorf("BaseURL(%q, %d) joined = %q, %v, want %q", test.host, test.port, got, err, test.want)
		}
	}
	if got, err := BaseURL("openai", "api.example.test", 0); got != "https://api.example.test" || err != nil {
		t.Errorf("BaseURL of openai = %q, %v", got, err)
	}
	for host, text := range map[string]string{
		"::1:8000": "ambiguous, write [::1]:8000", "": "not a host", "a b": "not a host", "http://x": "not a host", "[::1": "malformed", "[::1]x": "malformed",
		"[engine]": "not an IPv6 address", "1:2:3": "not an IPv6 address", "user@host": "not a host",
	} {
		if got, err := BaseURL("vllm", host, 0); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("BaseURL(%q, 0) = %q, %v, want %q in the error", host, got, err, text)
		}
	}
	if _, err := BaseURL("vllm", "engine", 70000); err == nil {
		t.Error("port 70000 was accepted")
	}
}

func TestJoinURL(t *testing.T) {
	tests := []struct{ base, path, want string }{
		{"http://[2001:db8::5]:8000/v1/", "/chat/completions", "http://[2001:db8::5]:8000/v1/chat/completions"},
		{"http://[2001:db8::5]:8000", "/v1/chat/completions", "http://[2001:db8::5]:8000/v1/chat/completions"},
		{"http://gw/v1", "/v1/chat/completions", "http://gw/v1/chat/completions"},
		{"http://gw/team/v1/", "/v1/models", "http://gw/team/v1/models"},
		{"http://gw//", "//v1/models", "http://gw/v1/models"},
		{"https://gw/a%2Fb", "v1/models", "https://gw/a%2Fb/v1/models"},
		{"http://gw/v10", "/v1/models", "http://gw/v10/v1/models"},
		{" http://gw ", "/generate", "http://gw/generate"},
		{"unix:///run/engine.sock", "/v1/models", "unix:///run/engine.sock:/v1/models"},
		{"unix:///run/engine.sock:/team/v1/", "/v1/models", "unix:///run/engine.sock:/team/v1/models"},
		{"unix:///run/engine.sock:/", "generate", "unix:///run/engine.sock:/generate"},
		{"unix:///run/my%20engine%3Aa.sock", "/generate", "unix:///run/my%20engine%3Aa.sock:/generate"},
	}
	for _, test := range tests {
		if got, err := joinURL(test.base, test.path); got != test.want || err != nil {
			t.Errorf("joinURL(%q, %q) = %q, %v, want %q", test.base, test.path, got, err, test.want)
		}
	}
	if got, err := engineURL("http://gw/team/v1/", "/generate"); got != "http://gw/team/generate" || err != nil {
		t.Errorf("engineURL = %q, %v, want the engine's path beside /v1", got, err)
	}
	if got, err := engineURL("unix:///run/v1", "/generate"); got != "unix:///run/v1:/generate" || err != nil {
		t.Errorf("engineURL = %q, %v, want a socket of the name v1 to keep it", got, err)
	}
	if got, err := engineURL("unix:///run/engine.sock:/v1", "metrics"); got != "unix:///run/engine.sock:/metrics" || err != nil {
		t.Errorf("engineURL = %q, %v, want the engine's path beside /v1", got, err)
	}
}

func TestCleanURLRefusesWithoutRepeating(t *testing.T) {
	for raw, text := range map[string]string{
		"":                                      "must start with http:// or https://",
		"engine:8000":                           "must start with http:// or https://",
		"ftp://engine":                          "must start with http:// or https://",
		"https://bench:URLSECRET-7f@gw/v1":      "must not hold a user or password",
		"https://gw/v1?key=QUERYSECRET-7f":      "must not hold a query",
		"https://gw/v1#FRAGSECRET-7f":           "must not hold a query or a fragment",
		"http://":                               "has no host",
		"http://:8000":                          "has no host",
		"http://::1:8000":                       "brackets",
		"http://:::8000":                        "brackets",
		"http://[::1":                           "malformed",
		"https://bench:URLSECRET-7f@gw:PORTX/x": "malformed",
		"http://gw:0":                           "from 1 to 65535",
		"http://gw:":                            "from 1 to 65535",
		"http://gw:99999":                       "from 1 to 65535",
		"unix://run/engine.sock":                "write a socket as unix:///path/of.sock",
		"unix:///":                              "write a socket as unix:///path/of.sock",
		"unix:///run/engine.sock:v1":            "write a socket as unix:///path/of.sock",
		"unix:///run/engine.sock?QUERYSECRET":   "must not hold a query",
		"unix:run/engine.sock":                  "write a socket as unix:///path/of.sock",
	} {
		got, err := CleanURL(raw)
		if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("CleanURL(%q) = %q, %v, want %q in the error and no secret", raw, got, err, text)
		}
	}
	tg := target("vllm")
	tg.BaseURL = "https://bench:URLSECRET-7f@gw.example.test/v1?key=QUERYSECRET-7f"
	if _, err := New(tg, Options{}); err == nil || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "open target t: ") {
		t.Errorf("New with a password in the URL: %v", err)
	}
	tg.Backend = "gserver"
	if _, err := New(tg, Options{}); err == nil || !strings.Contains(err.Error(), "not implemented upstream") {
		t.Errorf("New with gserver: %v", err)
	}
}

// sent sends one request and returns what the server saw of it.
func sent(t *testing.T, tg probes.Target, req *probes.Request) seenRequest {
	t.Helper()
	s := &server{answers: []timeline{answer(400, 0, "text/plain", "no")}}
	rec := newClient(t, tg, s).Do(t.Context(), probes.NewClock(), req, 0)
	if rec.Outcome != probes.HTTP4xx || len(s.seen) != 1 {
		t.Fatalf("got %s %q", rec.Outcome, rec.Error)
	}
	return s.seen[0]
}

type object = map[string]any

// What each backend is asked: a body, and what changes in it (nil: the field goes) with
// an adapter, without a stream, with a prompt of ids, and without a forced length.
func TestRequestBodies(t *testing.T) {
	const prompt = "Say <something> & more."
	usage := object{"include_usage": true}
	running := object{"include_usage": true, "continuous_usage_stats": true}
	message := []any{object{"role": "user", "content": prompt}}
	ids := []any{3.0, 5.0}
	text := func(length string, more object) object {
		body := object{"model": "demo-8b", "prompt": prompt, "temperature": 0.5, "top_p": 0.9, length: 64.0, "stream": true}
		maps.Copy(body, more)
		return body
	}
	chat := func(length string, more object) object {
		body := object{"model": "demo-8b", "messages": message, "temperature": 0.5, "top_p": 0.9, length: 64.0, "stream": true}
		maps.Copy(body, more)
		return body
	}
	whole := object{"stream": false, "stream_options": nil}
	free := object{"ignore_eos": nil}
	promptIDs, loraModel, loraPath := object{"prompt": ids}, object{"model": "7"}, object{"lora_path": "7"}
	params := object{"temperature": 0.5, "top_p": 0.9, "max_new_tokens": 64.0}
	forced := maps.Clone(params)
	forced["ignore_eos"] = true
	tgiParams := func(more object) object {
		body := object{"details": true, "return_full_text": false, "do_sample": true}
		maps.Copy(body, params)
		maps.Copy(body, more)
		return body
	}
	tests := []struct {
		backend, path              string
		body                       object
		lora, whole, ids, unforced object
	}{
		{"sglang", "/generate", object{"text": prompt, "sampling_params": forced, "stream": true},
			loraPath, object{"stream": false}, object{"text": nil, "input_ids": ids}, object{"sampling_params": params}},
		{"sglang-oai", "/v1/completions", text("max_tokens", object{"ignore_eos": true, "stream_options": running}), loraPath, whole, promptIDs, free},
		{"sglang-oai-chat", "/v1/chat/completions", chat("max_completion_tokens", object{"ignore_eos": true, "stream_options": running}), loraPath, whole, nil, free},
		{"vllm", "/v1/completions", text("max_tokens", object{"ignore_eos": true, "stream_options": running}), loraModel, whole, promptIDs, free},
		{"vllm-chat", "/v1/chat/completions", chat("max_completion_tokens", object{"ignore_eos": true, "stream_options": running}), loraModel, whole, nil, free},
		{"lmdeploy", "/v1/completions", text("max_completion_tokens", object{"ignore_eos": true, "stream_options": usage}), loraModel, whole, nil, free},
		{"lmdeploy-chat", "/v1/chat/completions", chat("max_completion_tokens", object{"ignore_eos": true, "stream_options": usage}),
			loraModel, whole, object{"messages": []any{}, "input_ids": ids}, free},
		{"trt", "/v2/models/ensemble/generate_stream", object{"text_input": prompt, "temperature": 0.5, "top_p": 0.9, "max_tokens": 64.0, "min_length": 64.0,
			"min_tokens": 64.0, "end_id": 1048576.0, "stream": true},
			object{"lora_task_id": 7.0}, object{"stream": false}, nil, object{"min_length": nil, "min_tokens": nil, "end_id": nil}},
		{"trtllm-serve", "/v1/completions", text("max_tokens", object{"ignore_eos": true, "stream_options": running}), loraModel, whole, promptIDs, free},
		{"trtllm-serve-chat", "/v1/chat/completions", chat("max_completion_tokens", object{"ignore_eos": true, "stream_options": running}), loraModel, whole, nil, free},
		{"truss", "/v1/models/model:predict", text("max_tokens", object{"ignore_eos": true}), loraModel, object{"stream": false}, nil, free},
		{"tgi", "/generate_stream", object{"inputs": prompt, "parameters": tgiParams(nil), "stream": true},
			object{"parameters": tgiParams(object{"adapter_id": "7"})}, object{"stream": false}, nil, object{}},
		{"llamacpp", "/completion", text("n_predict", object{"ignore_eos": true}),
			object{"lora": []any{object{"id": 7.0, "scale": 1.0}}}, object{"stream": false}, promptIDs, free},
		{"ollama", "/api/chat", object{"model": "demo-8b", "messages": message, "options": object{"temperature": 0.5, "top_p": 0.9, "num_predict": 64.0}, "stream": true},
			loraModel, object{"stream": false}, nil, object{}},
		{"dynamo", "/v1/chat/completions", chat("max_completion_tokens", object{"ignore_eos": true, "stream_options": usage}),
			loraModel, whole, object{"nvext": object{"token_data": ids}}, free},
		{"openai", "/v1/completions", text("max_tokens", object{"stream_options": usage}), loraModel, whole, promptIDs, object{}},
		{"openai-chat", "/v1/chat/completions", chat("max_completion_tokens", object{"stream_options": usage}), loraModel, whole, nil, object{}},
		{"openai-responses", "/v1/responses", object{"model": "demo-8b", "input": prompt, "store": false, "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 64.0, "stream": true},
			loraModel, object{"stream": false}, nil, object{}},
		{"anthropic", "/v1/messages", chat("max_tokens", nil), loraModel, object{"stream": false}, nil, object{}},
	}
	covered := []string{"sglang-native"}
	for _, test := range tests {
		covered = append(covered, test.backend)
		t.Run(test.backend, func(t *testing.T) {
			req := request()
			req.Prompt = prompt
			req.Sampling.Temperature, req.Sampling.TopP, req.Sampling.IgnoreEOS = 0.5, probes.Known(0.9), true
			check := func(what string, change object, r probes.Request) seenRequest {
				t.Helper()
				want := maps.Clone(test.body)
				maps.Copy(want, change)
				maps.DeleteFunc(want, func(_ string, value any) bool { return value == nil })
				got := sent(t, target(test.backend), &r)
				if diff := cmp.Diff(want, got.fields(t)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
				return got
			}
			got := check("body", nil, *req)
			if got.Method != "POST" || got.URL.Path != test.path || got.ContentLength != int64(len(got.body)) {
				t.Errorf("%s %s of %d bytes, want POST %s", got.Method, got.URL.Path, got.ContentLength, test.path)
			}
			if strings.Contains(string(got.body), `\u003c`) {
				t.Errorf("the body is longer than it has to be: %s", got.body)
			}
			other := *req
			other.Sampling.LoRA = "7"
			check("body with adapter", test.lora, other)
			other = *req
			other.Sampling.Stream = false
			got = check("body without stream", test.whole, other)
			if path := strings.TrimSuffix(test.path, "_stream"); got.URL.Path != path {
				t.Errorf("asked without a stream at %s, want %s", got.URL.Path, path)
			}
			other = *req
			other.Sampling.IgnoreEOS = false
			check("body without a forced length", test.unforced, other)
			if AcceptsTokenIDs(test.backend) != (test.ids != nil) {
				t.Errorf("AcceptsTokenIDs = %v", AcceptsTokenIDs(test.backend))
			}
			if test.ids != nil {
				other = *req
				other.TokenIDs = []int{3, 5}
				check("body with token ids", test.ids, other)
			}
		})
	}
	slices.Sort(covered)
	if diff := cmp.Diff(Names(), covered); diff != "" {
		t.Errorf("backends with a body under test (-want +got):\n%s", diff)
	}
}

// Greedy decoding as each engine takes it: some refuse a temperature of 0.
func TestGreedy(t *testing.T) {
	tests := []struct {
		backend string
		top     float64
		want    object
	}{
		{"trt", 1, object{"text_input": "Say something.", "temperature": 1e-6, "top_p": 1.0, "max_tokens": 64.0, "stream": true}},
		{"tgi", 1, object{"inputs": "Say something.", "stream": true,
			"parameters": object{"details": true, "return_full_text": false, "do_sample": false, "max_new_tokens": 64.0}}},
		{"llamacpp", 1, object{"model": "demo-8b", "prompt": "Say something.", "temperature": 0.0, "top_p": 1.0, "n_predict": 64.0, "stream": true}},
	}
	for _, test := range tests {
		req := request()
		req.Sampling.TopP = probes.Known(test.top)
		if diff := cmp.Diff(test.want, sent(t, target(test.backend), req).fields(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.backend, diff)
		}
	}
}

// Whether a length is forced is read back from the finished body.
func TestForcedLength(t *testing.T) {
	tests := []struct {
		backend string
		extra   object
		want    int
	}{
		{"vllm", nil, 64},
		{"vllm", object{"max_tokens": 32}, 32},
		{"vllm", object{"max_tokens": 32.0}, 32},
		{"vllm", object{"max_tokens": int64(32)}, 32},
		{"vllm", object{"max_tokens": "many"}, 0},
		{"vllm", object{"ignore_eos": false}, 0},
		{"sglang", object{"sampling_params": object{"max_new_tokens": 5}}, 5},
		{"trt", nil, 64},
		{"trt", object{"end_id": 2}, 0},
		{"llamacpp", nil, 64},
		{"tgi", nil, 0},
		{"ollama", object{"ignore_eos": true}, 0},
		{"anthropic", nil, 0},
	}
	for _, test := range tests {
		req := request()
		req.Sampling.IgnoreEOS, req.Sampling.ExtraBody = true, test.extra
		asked, err := dialects[test.backend].encode(question{req, "m"})
		if err != nil || asked.forced != test.want {
			t.Errorf("%s with %v: forced %d, %v, want %d", test.backend, test.extra, asked.forced, err, test.want)
		}
	}
}

func TestAdapterThatIsNoNumber(t *testing.T) {
	for backend, text := range map[string]string{
		"trt":      `choose lora adapter "poet": this server knows adapters by number, its lora_task_id`,
		"llamacpp": `choose lora adapter "poet": this server knows adapters by number, its id in GET /lora-adapters`,
	} {
		s := &server{}
		req := request()
		req.Sampling.LoRA = "poet"
		rec := newClient(t, target(backend), s).Do(t.Context(), probes.NewClock(), req, 0)
		if rec.Outcome != probes.Dropped || rec.Error != text || s.conns != 0 {
			t.Errorf("%s: got %s %q, want dropped %q", backend, rec.Outcome, rec.Error, text)
		}
	}
}

func TestExtraBodyMergesButNeverChangesStream(t *testing.T) {
	extra := object{
		"stream": nil, "seed": 7, "temperature": 1, "stream_options": object{"include_obfuscation": false}, "nested": object{"a": object{"b": 1}},
	}
	req := request()
	req.Sampling.ExtraBody = extra
	got := sent(t, target("openai-chat"), req).fields(t)
	want := object{
		"model": "demo-8b", "messages": []any{object{"role": "user", "content": "Say something."}}, "max_completion_tokens": 64.0,
		"stream": true, "seed": 7.0, "temperature": 1.0, "nested": object{"a": object{"b": 1.0}},
		"stream_options": object{"include_usage": true, "include_obfuscation": false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if len(extra["stream_options"].(object)) != 1 || extra["stream"] != nil {
		t.Errorf("the caller's fields were changed: %v", extra)
	}
	req.Sampling.ExtraBody = object{"stream": false, "sampling_params": object{"min_p": 0.1}}
	got = sent(t, target("sglang"), req).fields(t)
	want = object{"text": "Say something.", "stream": true, "sampling_params": object{"temperature": 0.0, "max_new_tokens": 64.0, "min_p": 0.1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("native body (-want +got):\n%s", diff)
	}
}

func TestHeaders(t *testing.T) {
	tg := target("vllm")
	tg.Connection.APIKey = "sk-1"
	tg.Connection.Headers = map[string]probes.Secret{"x-route": "blue", "X-Inferbeat-Probe": "0"}
	got := sent(t, tg, request()).Header
	want := map[string][]string{
		"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "User-Agent": {"inferbeat/devel"}, "X-Request-Id": {"req-1"},
		"X-Inferbeat-Probe": {"1"}, "Authorization": {"Bearer sk-1"}, "X-Route": {"blue"}, "Accept-Encoding": {"identity"},
	}
	got.Del("Content-Length")
	if diff := cmp.Diff(want, map[string][]string(got)); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	tg.Connection.APIKey, tg.Connection.Headers = "", map[string]probes.Secret{"Authorization": "Basic x", "User-Agent": "mine/1"}
	got = sent(t, tg, request()).Header
	if got.Get("Authorization") != "Basic x" || got.Get("User-Agent") != "mine/1" {
		t.Errorf("the user's headers lost: %v", got)
	}
}

// Where a dialect has its own way to say who asks, and what the user can change of it.
func TestHeadersOfDialects(t *testing.T) {
	for _, name := range Names() {
		tg := target(name)
		tg.Connection.APIKey = "sk-1"
		got := sent(t, tg, request()).Header
		want := map[string]string{"Authorization": "Bearer sk-1", "X-Api-Key": "", "Anthropic-Version": "", "Accept": "text/event-stream"}
		switch name {
		case "anthropic":
			want = map[string]string{"Authorization": "", "X-Api-Key": "sk-1", "Anthropic-Version": "2023-06-01", "Accept": "text/event-stream"}
		case "ollama":
			want["Accept"] = "application/x-ndjson"
		}
		for header, value := range want {
			if got.Get(header) != value {
				t.Errorf("%s: header %s is %q, want %q", name, header, got.Get(header), value)
			}
		}
	}
	tg := target("anthropic")
	tg.Connection.Headers = map[string]probes.Secret{"Anthropic-Version": "2099-01-01", "Authorization": "Bearer sk-2"}
	got := sent(t, tg, request()).Header
	if got.Get("Anthropic-Version") != "2099-01-01" || got.Get("Authorization") != "Bearer sk-2" || got.Get("X-Api-Key") != "" {
		t.Errorf("the user's headers lost: %v", got)
	}
}

// A redirect to another host is followed without anything that tells who asks, in
// every dialect.
func TestRedirectsCarryNoKey(t *testing.T) {
	for _, name := range Names() {
		tg := target(name)
		tg.Connection.APIKey, tg.Connection.FollowRedirects = "sk-KEYSECRET-7f", true
		tg.Connection.Headers = map[string]probes.Secret{"X-Team": "TEAMSECRET-7f"}
		s := &server{answers: []timeline{answer(307, 0, "text/plain", "", "Location", "http://elsewhere/x"), answer(400, 0, "text/plain", "no")}}
		rec := newClient(t, tg, s).Do(t.Context(), probes.NewClock(), request(), 0)
		if rec.Outcome != probes.HTTP4xx || len(s.seen) != 2 || s.seen[1].Host != "elsewhere" || string(s.seen[1].body) != string(s.seen[0].body) {
			t.Fatalf("%s: got %s %q after %d requests", name, rec.Outcome, rec.Error, len(s.seen))
		}
		got := map[string][]string(s.seen[1].Header)
		want := map[string][]string{
			"Content-Type": {"application/json"}, "Accept": s.seen[0].Header["Accept"], "Accept-Encoding": {"identity"},
			"User-Agent": {"inferbeat/devel"}, "Content-Length": s.seen[0].Header["Content-Length"],
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: headers at the other host (-want +got):\n%s", name, diff)
		}
	}
}

func TestOwnPath(t *testing.T) {
	tg := target("vllm-chat")
	tg.BaseURL, tg.Path = "http://gw/prefix/", "/openai/deployments/x/chat/completions"
	if got := sent(t, tg, request()).URL.Path; got != "/prefix/openai/deployments/x/chat/completions" {
		t.Errorf("path %q", got)
	}
}

func TestRecordCarriesTheRequest(t *testing.T) {
	req := request()
	req.Index, req.Warmup, req.InputTokens = 7, true, 33
	rec := newClient(t, target("vllm"), &server{answers: []timeline{tokens(1, 0, 0, "close")}}).Do(t.Context(), probes.NewClock(), req, -5)
	if rec.ID != "req-1" || rec.Index != 7 || !rec.Warmup || rec.RequestedInput != 33 || rec.RequestedOutput != 64 || rec.Due != -5 {
		t.Errorf("record %+v does not carry the request", rec)
	}
	if !rec.FirstByte.IsKnown() || rec.StatusCode != 200 || rec.Connection.Protocol != "HTTP/1.1" {
		t.Errorf("first byte %v, status %d, connection %+v", rec.FirstByte, rec.StatusCode, rec.Connection)
	}
}

// A conversation and pictures, as each chat backend wants them; the others refuse
// them before anything is sent.
func TestConversationsAndImages(t *testing.T) {
	const dataURL = "data:image/png;base64,AAAA"
	turn := func(role, content string) object { return object{"role": role, "content": content} }
	system, first, reply := turn("system", "Be brief."), turn("user", "Hi."), turn("assistant", "Hello.")
	plain := object{"messages": []any{system, first, reply, turn("user", "What is this?")}}
	picture := object{"type": "image_url", "image_url": object{"url": dataURL}}
	asked := func(parts ...any) []any {
		return append([]any{system, first, reply}, object{"role": "user", "content": append(parts, object{"type": "text", "text": "What is this?"})})
	}
	type bodies struct{ messages, images object }
	chat := bodies{plain, object{"messages": asked(picture)}}
	inputImage := object{"type": "input_image", "image_url": dataURL}
	want := map[string]bodies{
		"sglang-oai-chat": chat, "vllm-chat": chat, "lmdeploy-chat": chat, "trtllm-serve-chat": chat, "dynamo": chat, "openai-chat": chat,
		"ollama": {plain, object{"messages": []any{system, first, reply, object{"role": "user", "content": "What is this?", "images": []any{"AAAA"}}}}},
		"anthropic": {
			object{"system": "Be brief.", "messages": []any{first, reply, turn("user", "What is this?")}},
			object{"system": "Be brief.", "messages": []any{first, reply, object{"role": "user", "content": []any{
				object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": "AAAA"}}, object{"type": "text", "text": "What is this?"}}}}},
		},
		"openai-responses": {
			object{"input": plain["messages"]},
			object{"input": []any{system, first, reply, object{"role": "user", "content": []any{inputImage, object{"type": "input_text", "text": "What is this?"}}}}},
		},
	}
	for _, name := range Names() {
		req := request()
		req.Messages = []probes.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi."}, {Role: "assistant", Content: "Hello."}, {Role: "user", Content: "What is this?"}}
		bodies, chats := want[name]
		native := name == "sglang" || name == "sglang-native"
		if AcceptsMessages(name) != chats || AcceptsImages(name) != (chats || native) {
			t.Errorf("%s: AcceptsMessages %v, AcceptsImages %v", name, AcceptsMessages(name), AcceptsImages(name))
		}
		if !chats {
			refused(t, name, req, "send messages: backend takes one prompt and no conversation")
			req.Messages, req.Images = nil, []probes.Image{{MediaType: "image/png", Base64: "AAAA"}}
			if native {
				got := sent(t, target(name), req).fields(t)
				if diff := cmp.Diff([]any{dataURL}, got["image_data"]); diff != "" || got["text"] != req.Prompt {
					t.Errorf("%s: text %v, image_data (-want +got):\n%s", name, got["text"], diff)
				}
			} else {
				refused(t, name, req, "send images: backend takes no images")
			}
			continue
		}
		hasAll(t, name+" with messages", sent(t, target(name), req).fields(t), bodies.messages)
		req.Images = []probes.Image{{MediaType: "image/png", Base64: "AAAA"}}
		hasAll(t, name+" with images", sent(t, target(name), req).fields(t), bodies.images)
	}
}

// hasAll reports the fields of a body that are not as wanted.
func hasAll(t *testing.T, what string, got, want object) {
	t.Helper()
	for field, value := range want {
		if diff := cmp.Diff(value, got[field]); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", what, field, diff)
		}
	}
}

func refused(t *testing.T, name string, req *probes.Request, text string) {
	t.Helper()
	s := &server{}
	rec := newClient(t, target(name), s).Do(t.Context(), probes.NewClock(), req, 0)
	if rec.Outcome != probes.Dropped || !strings.Contains(rec.Error, text) || len(s.seen) != 0 {
		t.Errorf("%s: %s %q after %d requests, want it dropped: %s", name, rec.Outcome, rec.Error, len(s.seen), text)
	}
}

// A server that repeats what it was sent must not bring it into an error text.
func TestMessagesAndImagesStayOutOfErrors(t *testing.T) {
	secret := "confidential: the quarterly numbers are bad"
	picture := strings.Repeat("iVBORw0KGgo", 9)
	for _, repeated := range []string{secret, picture} {
		req := request()
		req.Messages = []probes.Message{{Role: "user", Content: secret}}
		req.Images = []probes.Image{{MediaType: "image/png", Base64: picture}}
		s := &server{answers: []timeline{answer(400, 0, "text/plain", "bad input: "+repeated)}}
		rec := newClient(t, target("vllm-chat"), s).Do(t.Context(), probes.NewClock(), req, 0)
		if !strings.Contains(rec.Error, "bad input: <prompt>") || strings.Contains(rec.Error, repeated[:20]) {
			t.Errorf("error %q", rec.Error)
		}
	}
}
