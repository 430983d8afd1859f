package fakellm

import "net/http"

// truss is a Baseten Truss with a model server behind it that answers in the words
// of the OpenAI completions. It never tells a usage, and has no metrics page.
var truss = flavour{
	version: "0.12.0",
	routes: map[string]*route{
		"POST /v1/models/model:predict": {read: readCompletion, write: worded(&trussWords)},
	},
	pages: map[string]handler{
		"GET /{$}": healthy,
		"GET /v1/models/model": func(_ *Engine, w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, []byte("{}"))
		},
		"GET /v1/models/model/loaded": func(_ *Engine, w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, []byte("{}"))
		},
	},
	buckets: vllm.buckets,
	keyOf: func(h http.Header) string {
		if key := keyAfter(h.Get("Authorization"), "Api-Key "); key != "" {
			return key
		}
		return keyAfter(h.Get("Authorization"), "Bearer ")
	},
	failure: func(dst []byte, _ *route, bad refusal) []byte { return bareError(dst, bad) },
	report: func(dst []byte, _ *route, bad refusal) []byte {
		dst = append(dst, "data: "...)
		return append(nestedError(dst, bad), "\n\ndata: [DONE]\n\n"...)
	},
}

var trussWords = wording{
	mark:   "data: ",
	id:     [2]string{"cmpl-", ""},
	apart:  [2]bool{true, true},
	choice: plainChoice,
}
