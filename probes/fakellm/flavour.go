package fakellm

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// flavour is what tells the surface of one engine from another's: ways in, wire
// shapes, pages and names. The core behind it (queue, batches, cache,
// speculation, script, faults) is the same and knows nothing of it.
type flavour struct {
	version string            // default of Config.Version
	routes  map[string]*route // generating routes by pattern
	pages   map[string]handler
	header  [][2]string // on every answer, besides the usual ones

	// metrics writes the Prometheus page; the caller holds the lock. Nil where the
	// engine has none.
	metrics     func(e *Engine, p *page)
	metricsPath string // default /metrics
	// metricsApart: the page is on another port only; see [Engine.MetricsHandler].
	metricsApart bool
	buckets      [3]buckets // of TTFT, ITL and E2E
	logsSteps    bool       // keeps what each step did until somebody reads it

	guards func(path string) bool // paths that need the key; nil is all
	// keyOf reads the key that a request carries; nil reads a bearer token.
	keyOf        func(h http.Header) string
	unauthorized string // body of the answer to a wrong key; default FastAPI's
	// lost answers for unknown routes (404) and methods (405); default FastAPI's way.
	lost     func(w http.ResponseWriter, status int)
	jsonOnly bool // /v1 takes no other content type

	// unknownModel is the message to who asks for another model; where it is
	// empty, any name will do.
	unknownModel string
	// adapter reads the name of a LoRA adapter from the engine's own field for it; nil
	// where adapters are asked for as models only.
	adapter     func(b *body) string
	echoesModel bool // answers repeat the asked name
	noReasoning bool // there is no channel for it; all tokens are the answer's

	// invalid, badJSON and overloaded are the statuses of wrong requests and of
	// [Unavailable]; default 400, invalid, 503.
	invalid, badJSON, overloaded int
	// limited sets what headers tell of a rate limit besides Retry-After; nil is none.
	limited func(h http.Header, after time.Duration)
	// closesOnError ends the connection with each HTTP error.
	closesOnError bool
	// failure writes an error as the body of an HTTP answer, report writes it in
	// band, with whatever ends the stream then.
	failure func(dst []byte, rt *route, bad refusal) []byte
	report  func(dst []byte, rt *route, bad refusal) []byte
}

// handler serves a route that generates nothing.
type handler func(e *Engine, w http.ResponseWriter, r *http.Request)

// route is a way in that generates: what a body means and what the answer looks
// like.
type route struct {
	// read settles prompt, length and sampling from the body.
	read func(e *Engine, a *ask) error
	// write picks the shape of the answer.
	write func(x *exchange, id string) renderer

	chat   bool // has channels for reasoning and tool calls
	native bool // the engine's own dialect, where it also speaks OpenAI's
	stream streaming
	// clamps: what is too long is cut; else it is refused.
	clamps bool
	// lateHeaders are sent with the first result, so that a failure before it
	// still can be (with cleanFailure: is) an HTTP error.
	lateHeaders, cleanFailure bool
	inBand                    inBand
	contentType               string // of a stream; default SSE
	ping                      string // a heartbeat; default an SSE comment
	// keepAlive is the silence after which the engine itself sends a ping.
	keepAlive time.Duration
	// opensAtOnce: what an opener has to say is sent before the request queues.
	opensAtOnce bool
}

// streaming says when a route streams.
type streaming int

const (
	onRequest streaming = iota
	byDefault           // unless the request says no
	always
	never
)

// streams reports whether the answer to a request that asks for a stream, or does
// not, is one.
func (rt *route) streams(asked bool) bool {
	return rt.stream == always || rt.stream != never && asked
}

// inBand says which errors a streamed request meets under status 200, although
// they are known before the stream begins.
type inBand int

const (
	noErrors inBand = iota
	wrongRequests
	allErrors
)

// partNames are the types of the parts of a message.
type partNames struct {
	text, image string
	reply       string // text of an earlier answer, where that has another name
}

var openaiParts = partNames{text: "text", image: "image_url"}

// The flavours by name.
var flavours = map[string]*flavour{
	SGLang: &sglang, VLLM: &vllm, LMDeploy: &lmdeploy, Triton: &triton, TRTLLM: &trtllm, Truss: &truss, TGI: &tgi,
	LlamaCPP: &llamacpp, Ollama: &ollama, Dynamo: &dynamo, Anthropic: &anthropic, OpenAIResponses: &responses,
}

// Engines are the names of all flavours.
var Engines = slices.Sorted(maps.Keys(flavours))
