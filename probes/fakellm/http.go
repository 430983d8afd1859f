package fakellm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Handler serves the engine's routes.
func (e *Engine) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, rt := range e.flavour.routes {
		mux.HandleFunc(pattern, e.generate(rt))
	}
	for pattern, page := range e.flavour.pages {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { page(e, w, r) })
	}
	if e.flavour.metrics != nil && !e.flavour.metricsApart {
		mux.HandleFunc("GET "+cmp.Or(e.flavour.metricsPath, "/metrics"), e.metrics)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.gate(mux, w, r) })
}

// MetricsHandler serves the metrics page on a port of its own, without a key, as
// Triton and the exporter of TGI do.
func (e *Engine) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	if e.flavour.metrics != nil {
		mux.HandleFunc("GET /metrics", e.metrics)
	}
	return mux
}

// gate checks key and content type, and answers for unknown routes.
func (e *Engine) gate(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	c, f := e.config(), e.flavour
	for _, h := range f.header {
		w.Header().Set(h[0], h[1])
	}
	if c.APIKey != "" && (f.guards == nil || f.guards(r.URL.Path)) && f.key(r.Header) != c.APIKey.Reveal() {
		f.part(w)
		writeJSON(w, http.StatusUnauthorized, []byte(cmp.Or(f.unauthorized, `{"error":"Unauthorized"}`)))
		return
	}
	if f.jsonOnly && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/") &&
		!strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		e.fail(w, *badRequest("Unsupported Media Type: Only 'application/json' is allowed"))
		return
	}
	if _, pattern := mux.Handler(r); pattern == "" {
		status := http.StatusNotFound
		if otherMethod(mux, r) {
			status = http.StatusMethodNotAllowed
		}
		f.part(w)
		if f.lost != nil {
			f.lost(w, status)
			return
		}
		lostInFastAPI(w, status)
		return
	}
	mux.ServeHTTP(w, r)
}

// lostInFastAPI answers for an unknown route or method as FastAPI does.
func lostInFastAPI(w http.ResponseWriter, status int) {
	writeJSON(w, status, fmt.Appendf(nil, `{"detail":%q}`, http.StatusText(status)))
}

// key is the key that a request carries.
func (f *flavour) key(h http.Header) string {
	if f.keyOf != nil {
		return f.keyOf(h)
	}
	return keyAfter(h.Get("Authorization"), "Bearer ")
}

// keyAfter is the key behind a scheme; empty under any other scheme.
func keyAfter(header, scheme string) string {
	key, ok := strings.CutPrefix(header, scheme)
	if !ok {
		return ""
	}
	return key
}

// fail answers a request to a page that is wrong.
func (e *Engine) fail(w http.ResponseWriter, bad refusal) {
	e.flavour.fail(w, nil, bad)
}

// fail sends an HTTP error; rt is nil for a page.
func (f *flavour) fail(w http.ResponseWriter, rt *route, bad refusal) {
	f.part(w)
	writeJSON(w, bad.status, f.failure(nil, rt, bad))
}

// part ends the connection behind an HTTP error, where the engine does.
func (f *flavour) part(w http.ResponseWriter) {
	if f.closesOnError {
		w.Header().Del("Keep-Alive")
		w.Header().Set("Connection", "close")
	}
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

// earlyReport reports a failure in band before any token.
func earlyReport(dst []byte, bad refusal) []byte {
	dst = append(dst, `data: {"error":{"message":`...)
	dst = appendString(dst, bad.message)
	return fmt.Appendf(dst, ",\"type\":%q,\"code\":%d}}\n\ndata: [DONE]\n\n", bad.kind, bad.status)
}

// The error bodies that several engines share.

// flatError is SGLang's, older vLLM's and trtllm-serve's.
func flatError(dst []byte, bad refusal) []byte {
	return fmt.Appendf(dst, `{"object":"error","message":%s,"type":%q,"param":null,"code":%d}`, appendString(nil, bad.message), bad.kind, bad.status)
}

// nestedError is vLLM's.
func nestedError(dst []byte, bad refusal) []byte {
	param := []byte("null")
	if bad.param != "" {
		param = appendString(nil, bad.param)
	}
	return fmt.Appendf(dst, `{"error":{"message":%s,"type":%q,"param":%s,"code":%d}}`, appendString(nil, bad.message), bad.kind, param, bad.status)
}

// bareError is a string and nothing else.
func bareError(dst []byte, bad refusal) []byte {
	dst = append(dst, `{"error":`...)
	dst = appendString(dst, bad.message)
	return append(dst, '}')
}
