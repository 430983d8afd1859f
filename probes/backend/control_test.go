package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func TestModel(t *testing.T) {
	models := answer(200, 0, "application/json", string(mustRead(t, "captured", "llama-server-get_v1_models.txt")))
	s := &server{reply: map[string]timeline{"/v1/models": models, "/v1/completions": tokens(1, 0, 0, "close"), "/tokenize": answer(200, 0, "", `{"tokens":[1]}`)}}
	tg := target("vllm")
	tg.Model = ""
	c := newClient(t, tg, s)
	if got, err := c.Model(t.Context()); got != "tiny" || err != nil {
		t.Fatalf("Model() = %q, %v, want tiny", got, err)
	}
	c.Do(t.Context(), probes.NewClock(), request(), 0)
	if _, err := c.Tokenize(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if s.seen[0].Method != "GET" || s.seen[0].Header.Get("X-Inferbeat-Probe") != "1" {
		t.Errorf("models were asked for by %s with %v", s.seen[0].Method, s.seen[0].Header)
	}
	for _, i := range []int{1, 2} {
		if got := s.seen[i].fields(t)["model"]; got != "tiny" {
			t.Errorf("%s asks for model %v, want the one that was found", s.seen[i].URL.Path, got)
		}
	}
	tg.Model = "own"
	c = newClient(t, tg, s)
	if _, err := c.Model(t.Context()); err != nil || c.model() != "own" {
		t.Errorf("the target's own model became %q, %v", c.model(), err)
	}
}

func TestModelErrors(t *testing.T) {
	tests := []struct {
		script timeline
		text   string
	}{
		{answer(200, 0, "application/json", `{"data":[]}`), "name the model in the config"},
		{answer(200, 0, "application/json", `{"data":[{}]}`), "name the model in the config"},
		{answer(200, 0, "application/json", `{"data":[{"id":"`+strings.Repeat("m", 257)+`"}]}`), "the name is 257 bytes long, at most 256 are taken; name the model in the config"},
		{answer(200, 0, "text/html", `<html>`), "not the expected JSON"},
		{answer(401, 0, "application/json", `{"error":"bad key sk-KEYSECRET-7f"}`), "list models: status 401 Unauthorized: bad key <secret>"},
	}
	for _, test := range tests {
		tg := target("vllm")
		tg.Connection.APIKey = "sk-KEYSECRET-7f"
		_, err := newClient(t, tg, &server{answers: []timeline{test.script}}).Model(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("Model() = %v, want %q in it", err, test.text)
		}
	}
}

func TestModelOfOtherEngines(t *testing.T) {
	s := &server{reply: map[string]timeline{"/info": answer(200, 0, "application/json", `{"model_id":"org/demo","version":"3.3.4"}`)}}
	if got, err := newClient(t, target("tgi"), s).Model(t.Context()); got != "org/demo" || err != nil {
		t.Errorf("Model() of tgi = %q, %v", got, err)
	}
	for _, name := range []string{"trt", "truss"} {
		s := &server{}
		want := "list models: backend " + name + " has no call for it; name the model in the config"
		if got, err := newClient(t, target(name), s).Model(t.Context()); err == nil || err.Error() != want || s.conns != 0 {
			t.Errorf("Model() of %s = %q, %v with %d connections, want %q", name, got, err, s.conns, want)
		}
		want = "tokenize: backend " + name + " has no call for it"
		if _, err := newClient(t, target(name), s).Tokenize(t.Context(), "a"); err == nil || err.Error() != want || s.conns != 0 {
			t.Errorf("Tokenize() of %s: %v, want %q", name, err, want)
		}
	}
}

func TestGet(t *testing.T) {
	tg := target("anthropic")
	tg.BaseURL = "http://engine:8000/team/v1"
	tg.Connection.APIKey = "sk-KEYSECRET-7f"
	s := &server{reply: map[string]timeline{
		"/team/metrics":  answer(200, 0, "text/plain; version=0.0.4", "vllm:x 1\n", "X-A", "b"),
		"/team/v1/loads": answer(503, 0, "application/json", `{"error":"starting"}`),
		"/team/cut":      {200, map[string]string{"Content-Type": "text/plain"}, []step{{data: []byte("part")}, {end: "rst"}}},
	}}
	c := newClient(t, tg, s)
	tests := []struct {
		path   string
		limit  int64
		status int
		body   string
		text   string // of the error
	}{
		{"/metrics", 9, 200, "vllm:x 1\n", ""},
		{"/metrics", 8, 200, "vllm:x 1", "get /metrics: read answer: larger than 8 bytes"},
		{"/v1/loads?include=core", 100, 503, `{"error":"starting"}`, ""},
		{"/cut?token=QUERYSECRET-7f", 100, 200, "part", "get /cut: read body: unexpected EOF"},
	}
	for _, test := range tests {
		status, header, body, err := c.Get(t.Context(), test.path, test.limit)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if status != test.status || string(body) != test.body || text != test.text {
			t.Errorf("Get(%q, %d) = %d, %q, %v, want %d, %q, %q", test.path, test.limit, status, body, err, test.status, test.body, test.text)
		}
		if test.path == "/metrics" && header.Get("X-A") != "b" {
			t.Errorf("header %v", header)
		}
		seen := s.seen[len(s.seen)-1]
		if seen.Method != "GET" || len(seen.body) != 0 || seen.Header.Get("X-Api-Key") != "sk-KEYSECRET-7f" || seen.Header.Get("Accept") != "*/*" {
			t.Errorf("%s was asked for by %s with %v", test.path, seen.Method, seen.Header)
		}
	}
	if got := s.seen[2].URL.RawQuery; got != "include=core" {
		t.Errorf("query %q", got)
	}
}

func TestGetNeverLeavesTheHost(t *testing.T) {
	tg := target("vllm")
	tg.Connection.FollowRedirects = true
	s := &server{reply: map[string]timeline{
		"/metrics":  answer(307, 0, "text/plain", "", "Location", "/metrics/"),
		"/metrics/": answer(307, 0, "text/plain", "", "Location", "http://elsewhere/metrics"),
	}}
	status, header, _, err := newClient(t, tg, s).Get(t.Context(), "/metrics", 100)
	if status != 307 || header.Get("Location") != "http://elsewhere/metrics" || err != nil || len(s.seen) != 2 || s.seen[1].Host != "engine:8000" {
		t.Errorf("Get = %d, %v, %v after %d requests, want the second redirect", status, header, err, len(s.seen))
	}
}

func TestGetGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []timeline{{200, nil, []step{{at: time.Hour, end: "close"}}}}}
		c := newClient(t, target("vllm"), s)
		began := time.Now()
		status, _, _, err := c.Get(t.Context(), "/metrics", 100)
		if status != 200 || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 30*time.Second {
			t.Errorf("Get = %d, %v after %v, want the head and a deadline after 30s", status, err, time.Since(began))
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestModelGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []timeline{{200, nil, []step{{at: time.Hour, end: "close"}}}}}
		c := newClient(t, target("vllm"), s)
		began := time.Now()
		_, err := c.Model(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 30*time.Second {
			t.Errorf("Model() = %v after %v, want a deadline after 30s", err, time.Since(began))
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestTokenize(t *testing.T) {
	captured := string(mustRead(t, "captured", "llama-server-tokenize.json"))
	empty := answer(200, 0, "application/json", `{"tokens":[]}`)
	tokens := answer(200, 0, "application/json", `{"tokens":[5,6],"count":2,"max_model_len":4096}`)
	refused := answer(422, 0, "application/json", `{"detail":"no"}`)
	missing := answer(404, 0, "application/json", `{"error":{"code":404,"message":"File Not Found"}}`)
	text, message := "The license", []any{map[string]any{"role": "user", "content": "The license"}}
	prompt := map[string]any{"model": "m", "prompt": text, "add_special_tokens": true}
	content := map[string]any{"content": text, "add_special": true}
	messages := map[string]any{"model": "m", "messages": message, "add_generation_prompt": true}
	template := map[string]any{"messages": message}
	tests := []struct {
		name, backend string
		script        []timeline
		want          []int
		asked         []map[string]any
		again         int // requests that a second text takes
	}{
		{"SGLang and vLLM", "vllm", []timeline{tokens}, []int{5, 6}, []map[string]any{prompt}, 1},
		{"llama.cpp", "vllm", []timeline{empty, answer(200, 0, "application/json", captured)}, []int{1, 552, 897, 2216, 393, 368, 1014, 408}, []map[string]any{prompt, content}, 1},
		{"refused under the first name", "vllm", []timeline{refused, tokens}, []int{5, 6}, []map[string]any{prompt, content}, 1},
		{"chat template by messages", "vllm-chat", []timeline{tokens}, []int{5, 6}, []map[string]any{messages}, 1},
		{"chat template by llama.cpp", "openai-chat", []timeline{empty, answer(200, 0, "application/json", `{"prompt":"<|user|>The license<|end|>"}`), tokens}, []int{5, 6},
			[]map[string]any{messages, template, {"content": "<|user|>The license<|end|>", "add_special": true, "parse_special": true}}, 2},
		{"TGI", "tgi", []timeline{answer(200, 0, "application/json", `[{"id":5,"text":"The","start":0,"stop":3},{"id":6,"text":" license","start":3,"stop":11}]`)},
			[]int{5, 6}, []map[string]any{{"inputs": text}}, 1},
		{"LMDeploy", "lmdeploy", []timeline{answer(200, 0, "application/json", `{"input_ids":[5,6],"length":2}`)}, []int{5, 6},
			[]map[string]any{{"input": text, "do_preprocess": false, "add_bos": true}}, 1},
		{"LMDeploy with its template", "lmdeploy-chat", []timeline{answer(200, 0, "application/json", `{"input_ids":[1,5,6],"length":3}`)}, []int{1, 5, 6},
			[]map[string]any{{"input": text, "do_preprocess": true, "add_bos": true}}, 1},
		{"llama.cpp by its own name", "llamacpp", []timeline{tokens}, []int{5, 6}, []map[string]any{content}, 1},
		{"chat without a way to its template", "sglang-oai-chat", []timeline{refused, missing, tokens}, []int{5, 6}, []map[string]any{messages, template, prompt}, 1},
	}
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			s := &server{answers: test.script}
			to := target(test.backend)
			to.Model = "m"
			c := newClient(t, to, s)
			got, err := c.Tokenize(t.Context(), text)
			if err != nil {
				t.Fatalf("Tokenize: %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			var asked []map[string]any
			for _, r := range s.seen {
				asked = append(asked, r.fields(t))
			}
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			// The next text goes straight to the form that worked.
			before := len(s.seen)
			if test.again == 1 {
				if _, err := c.Tokenize(t.Context(), "again"); err != nil || len(s.seen)-before != 1 {
					t.Errorf("the second text took %d requests, %v", len(s.seen)-before, err)
				}
			}
		})
	}
}

func TestTokenizeErrors(t *testing.T) {
	s := &server{answers: []timeline{answer(404, 0, "application/json", `{"detail":"Not Found"}`)}}
	if _, err := newClient(t, target("openai"), s).Tokenize(t.Context(), "a"); err == nil || err.Error() != "tokenize: status 404 Not Found: Not Found" {
		t.Errorf("Tokenize without such a call: %v", err)
	}
	if got, err := newClient(t, target("vllm"), &server{answers: []timeline{answer(200, 0, "", `{"tokens":[]}`)}}).Tokenize(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("Tokenize of nothing = %v, %v", got, err)
	}
}

func TestDetokenize(t *testing.T) {
	for body, want := range map[string]string{
		`{"text":"sglang"}`: "sglang", `{"prompt":"vllm"}`: "vllm", string(mustRead(t, "captured", "llama-server-detokenize.json")): " the quick license software",
		`{"text":""}`: "",
	} {
		s := &server{answers: []timeline{answer(200, 0, "application/json", body)}}
		got, err := newClient(t, target("vllm"), s).Detokenize(t.Context(), []int{3, 4})
		if got != want || err != nil {
			t.Errorf("Detokenize answered by %s = %q, %v, want %q", body, got, err, want)
		}
		if diff := cmp.Diff(object{"tokens": []any{3.0, 4.0}, "model": "demo-8b"}, s.seen[0].fields(t)); diff != "" || s.seen[0].URL.Path != "/detokenize" {
			t.Errorf("request to %s (-want +got):\n%s", s.seen[0].URL.Path, diff)
		}
	}
	s := &server{answers: []timeline{answer(200, 0, "application/json", `{}`)}}
	if _, err := newClient(t, target("vllm"), s).Detokenize(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no text") {
		t.Errorf("Detokenize without a text: %v", err)
	}
	if got := string(s.seen[0].body); !strings.Contains(got, `"tokens":[]`) {
		t.Errorf("no ids are sent as %s", got)
	}
}

func TestFlushCache(t *testing.T) {
	tests := []struct {
		backend, path string
		status        int
		text          string
	}{
		{"sglang", "/flush_cache", 200, ""},
		{"sglang-oai-chat", "/flush_cache", 400, "flush cache: status 400 Bad Request: requests are running"},
		{"vllm", "/reset_prefix_cache", 200, ""},
		{"vllm-chat", "/reset_prefix_cache", 404, "VLLM_SERVER_DEV_MODE=1"},
	}
	for _, test := range tests {
		s := &server{answers: []timeline{answer(test.status, 0, "text/plain", "requests are running")}}
		tg := target(test.backend)
		tg.BaseURL = "http://engine:8000/v1"
		err := newClient(t, tg, s).FlushCache(t.Context())
		if (err == nil) != (test.text == "") || err != nil && !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: FlushCache() = %v, want %q", test.backend, err, test.text)
		}
		if len(s.seen) != 1 || s.seen[0].Method != "POST" || s.seen[0].URL.Path != test.path {
			t.Errorf("%s: requests %v, want one POST %s", test.backend, s.seen, test.path)
		}
	}
	s := &server{}
	if err := newClient(t, target("openai"), s).FlushCache(t.Context()); err == nil || s.conns != 0 {
		t.Errorf("FlushCache of openai = %v with %d connections", err, s.conns)
	}
}

// The key and the user's headers are for the target's own host and port. Another one
// that has the metrics learns them only when that is asked for.
func TestMetricsPageKeepsSecrets(t *testing.T) {
	const base = "http://10.0.0.1:8000/v1"
	for _, tt := range []struct {
		page   string
		asked  bool
		secret bool
	}{
		{"http://10.0.0.1:8000/other/metrics", false, true},
		{"http://10.0.0.1:8002/metrics", false, false},
		{"http://10.0.0.1:8002/metrics", true, true},
		{"http://10.0.0.2:8000/metrics", false, false},
		{"http://10.0.0.1/metrics", false, false},
	} {
		s := &server{reply: map[string]timeline{"/metrics": answer(200, 0, "text/plain", "m 1"), "/other/metrics": answer(200, 0, "text/plain", "m 1"), "/http://10.0.0.9/metrics": answer(404, 0, "", "")}}
		tg := target("vllm")
		tg.BaseURL, tg.MetricsURL, tg.MetricsCredentials = base, tt.page, tt.asked
		tg.Connection.APIKey, tg.Connection.Headers = "sk-KEYSECRET-7f", map[string]probes.Secret{"X-Route": "blue"}
		c := newClient(t, tg, s)
		if _, _, body, err := c.Get(t.Context(), tt.page, 100); err != nil || string(body) != "m 1" {
			t.Errorf("%s: got %q, %v", tt.page, body, err)
			continue
		}
		h := s.seen[0].Header
		if got := h.Get("Authorization") != "" || h.Get("X-Route") != ""; got != tt.secret {
			t.Errorf("%s, asked %v: sends %v, want secrets: %v", tt.page, tt.asked, h, tt.secret)
		}
		if h.Get("X-Inferbeat-Probe") != "1" || h.Get("User-Agent") == "" || h.Get("Accept") != "*/*" {
			t.Errorf("%s: says not what it is: %v", tt.page, h)
		}
		if host := strings.Split(strings.TrimPrefix(tt.page, "http://"), "/")[0]; s.seen[0].Host != host {
			t.Errorf("%s: asks host %s", tt.page, s.seen[0].Host)
		}
		// No other URL is ever asked, whatever the path looks like.
		c.Get(t.Context(), "http://10.0.0.9/metrics", 100)
		if got := s.seen[1].Host; got != "10.0.0.1:8000" {
			t.Errorf("a URL in place of a path went to %s", got)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"http://h/metrics", "http://H:80/v1", true},
		{"https://h/metrics", "https://h:443", true},
		{"https://h/metrics", "http://h", false},
		{"http://h:1/metrics", "http://h:2", false},
		{"http://[::1]:8000/m", "http://[::1]:8000", true},
		{"http://h/m", "unix:///run/s.sock", false},
		{"", "", false},
	} {
		if got := sameOrigin(tt.a, tt.b); got != tt.want {
			t.Errorf("sameOrigin(%q, %q) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
