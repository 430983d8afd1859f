package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Handler serves the engine's routes.
func (e *Engine) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", e.generate(completions))
	mux.HandleFunc("POST /v1/chat/completions", e.generate(chat))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /v1/models", e.models)
	mux.HandleFunc("POST /tokenize", e.tokenize)
	mux.HandleFunc("POST /detokenize", e.detokenize)
	mux.HandleFunc("GET /metrics", e.metrics)
	if e.config().Engine == SGLang {
		mux.HandleFunc("POST /generate", e.generate(native))
		mux.HandleFunc("PUT /generate", e.generate(native))
		mux.HandleFunc("POST /v1/tokenize", e.tokenize)
		mux.HandleFunc("POST /v1/detokenize", e.detokenize)
		mux.HandleFunc("/flush_cache", e.flushCache)
		for _, path := range []string{"GET /model_info", "GET /get_model_info"} {
			mux.HandleFunc(path, e.modelInfo)
		}
		for _, path := range []string{"GET /server_info", "GET /get_server_info"} {
			mux.HandleFunc(path, e.serverInfo)
		}
		mux.HandleFunc("GET /get_load", e.load)
		mux.HandleFunc("GET /v1/loads", e.loads)
	} else {
		mux.HandleFunc("GET /version", e.version)
		mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		mux.HandleFunc("POST /reset_prefix_cache", e.resetPrefixCache)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.gate(mux, w, r) })
}

// gate checks key and content type, and answers unknown routes as FastAPI does.
func (e *Engine) gate(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	c := e.config()
	if c.guards(r.URL.Path) && r.Header.Get("Authorization") != "Bearer "+c.APIKey.Reveal() {
		writeJSON(w, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
		return
	}
	if c.Engine == SGLang && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/") &&
		!strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		writeJSON(w, http.StatusBadRequest, appendError(nil, c, *badRequest("Unsupported Media Type: Only 'application/json' is allowed")))
		return
	}
	if _, pattern := mux.Handler(r); pattern == "" {
		status, detail := http.StatusNotFound, `{"detail":"Not Found"}`
		if otherMethod(mux, r) {
			status, detail = http.StatusMethodNotAllowed, `{"detail":"Method Not Allowed"}`
		}
		writeJSON(w, status, []byte(detail))
		return
	}
	mux.ServeHTTP(w, r)
}

// guards reports whether a path needs the key: in SGLang all but health and
// metrics, in vLLM those under /v1.
func (c *Config) guards(path string) bool {
	switch {
	case c.APIKey == "":
		return false
	case c.Engine == VLLM:
		return strings.HasPrefix(path, "/v1/")
	}
	return !strings.HasPrefix(path, "/health") && path != "/metrics"
}

// otherMethod reports whether the path exists under another method.
func otherMethod(mux *http.ServeMux, r *http.Request) bool {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "" {
			return true
		}
	}
	return false
}

// writeJSON sends a body that is complete, with its length.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have left; nobody else to tell
}

// appendJSON writes a value that always has a JSON form.
func appendJSON(dst []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("fakellm: marshal answer: " + err.Error())
	}
	return append(dst, b...)
}

// appendField writes a key, given as it stands in the JSON, and its number.
func appendField(dst []byte, key string, n int) []byte {
	return strconv.AppendInt(append(dst, key...), int64(n), 10)
}

func appendInts(dst []byte, list []int) []byte {
	dst = append(dst, '[')
	for i, n := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	return append(dst, ']')
}

// refuse answers a request that is wrong. SGLang's /generate reports it in band
// when a stream was asked for.
func refuse(w http.ResponseWriter, c *Config, kind route, stream bool, bad refusal) {
	if kind != native {
		writeJSON(w, bad.status, appendError(nil, c, bad))
		return
	}
	if !stream {
		body := append([]byte(`{"error":{"message":`), appendString(nil, bad.message)...)
		writeJSON(w, bad.status, append(body, "}}"...))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	event := append([]byte(`data: {"error":{"message":`), appendString(nil, bad.message)...)
	event = fmt.Appendf(event, ",\"type\":\"invalid_request_error\",\"code\":%d,\"retryable\":false}}\n\ndata: [DONE]\n\n", bad.status)
	_, _ = w.Write(event)
}

// appendError writes an error body: flat in SGLang, nested in vLLM.
func appendError(dst []byte, c *Config, bad refusal) []byte {
	param := []byte("null")
	if bad.param != "" {
		param = appendString(nil, bad.param)
	}
	message := appendString(nil, bad.message)
	if c.Engine == SGLang {
		return fmt.Appendf(dst, `{"object":"error","message":%s,"type":%q,"param":null,"code":%d}`, message, bad.kind, bad.status)
	}
	return fmt.Appendf(dst, `{"error":{"message":%s,"type":%q,"param":%s,"code":%d}}`, message, bad.kind, param, bad.status)
}
