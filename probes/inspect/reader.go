package inspect

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Getter fetches a path of a target, or the page that a [Reader] was made with. It must
// return soon after ctx has ended.
type Getter interface {
	Get(ctx context.Context, path string, maxBytes int64) (status int, header http.Header, body []byte, err error)
}

const (
	// getTime bounds one exchange: a server that is too busy to describe itself
	// must not hold a run up.
	getTime = time.Second
	// maxPage bounds a page in bytes. Those of many ranks and models have a few
	// megabytes.
	maxPage = 8 << 20
)

// Reader asks one target about itself. It remembers where it found the target's
// metrics; use it from one goroutine at a time.
type Reader struct {
	get    Getter
	hint   string // the engine that the target's dialect belongs to; may be empty
	page   string // see NewReader
	source *source
}

// NewReader makes a reader for a target of a backend, as bench_serving names them.
// page is the URL of the target's metrics page, when that is not where the engine has
// it; no other source is looked for then, because it would hide that this one fails.
func NewReader(get Getter, backend, page string) *Reader {
	return &Reader{get: get, hint: engineOf(backend), page: page}
}

// engineOf is empty for dialects that many engines speak.
func engineOf(backend string) string {
	switch backend {
	case "trt":
		return Triton
	case "trtllm-serve", "trtllm-serve-chat":
		return TRTLLM
	case TGI, LlamaCPP, Ollama, Dynamo:
		return backend
	}
	family, _, _ := strings.Cut(backend, "-")
	switch family {
	case SGLang, VLLM, LMDeploy:
		return family
	}
	return ""
}

// source is a page that samples can be taken from.
type source struct {
	path  string
	parse func(body []byte) Sample
}

// sources lists where an engine shows its load, the best first. TensorRT-LLM has
// other things under /metrics, which vanish when they are read; Triton's page is
// on a port of its own, which only the user knows.
func sources(engine string) []source {
	page := source{"/metrics", parsePage}
	switch engine {
	case TRTLLM:
		return []source{{"/prometheus/metrics", parsePage}}
	case Triton, Ollama:
		return nil
	case SGLang: // has the page only with --enable-metrics
		return []source{page, {"/v1/loads", parseLoads}, {"/get_load", parseLoad}}
	case LlamaCPP: // has the page only with --metrics
		return []source{page, {"/slots", parseSlots}}
	}
	return []source{page}
}

// Read asks for everything: what the server is, and a sample. model is the name
// that requests ask for; it may be empty. What cannot be read is unknown.
func (r *Reader) Read(ctx context.Context, model string) (probes.ServerFacts, Sample) {
	f := &facts{reader: r, ctx: ctx, model: model}
	engine := r.hint
	if engine == "" {
		// The list of models says who made it, and reading it changes nothing.
		f.models()
		engine = f.owner
	}
	sample := r.find(ctx, engine)
	if sample.Readable() {
		engine = sample.Engine
	}
	f.read(engine, &sample)
	sample.lifetime = f.acceptLength
	return f.found, sample
}

// Sample takes a sample from where the last Read found one. It is unreadable
// when there was none.
func (r *Reader) Sample(ctx context.Context) Sample {
	if r.source == nil {
		return Sample{}
	}
	return r.sample(ctx, r.source)
}

func (r *Reader) find(ctx context.Context, engine string) Sample {
	r.source = nil
	candidates := sources(engine)
	if r.page != "" {
		candidates = []source{{r.page, parsePage}}
	}
	for _, s := range candidates {
		if sample := r.sample(ctx, &s); sample.Readable() {
			r.source = &s
			return sample
		}
	}
	return Sample{}
}

func (r *Reader) sample(ctx context.Context, s *source) Sample {
	body, ok := r.fetch(ctx, s.path)
	if !ok {
		return Sample{}
	}
	return s.parse(body)
}

// fetch gets a body that came whole and with status 200.
func (r *Reader) fetch(ctx context.Context, path string) ([]byte, bool) {
	ctx, cancel := context.WithTimeout(ctx, getTime)
	defer cancel()
	status, _, body, err := r.get.Get(ctx, path, maxPage)
	return body, err == nil && status == http.StatusOK
}

// rankLoad is one data-parallel rank in SGLang's /v1/loads.
type rankLoad struct {
	Running *float64 `json:"num_running_reqs"`
	Waiting *float64 `json:"num_waiting_reqs"`
	Usage   *float64 `json:"token_usage"`
	// All is running and waiting requests in the older /get_load.
	All         *float64 `json:"num_reqs"`
	Speculative *struct {
		AcceptLength float64 `json:"accept_length"`
	} `json:"speculative"`
}

// parseLoads reads SGLang's /v1/loads.
func parseLoads(body []byte) Sample {
	var page struct {
		Loads []rankLoad `json:"loads"`
	}
	if json.Unmarshal(body, &page) != nil {
		return Sample{}
	}
	return sampleOfLoads(page.Loads)
}

// parseLoad reads SGLang's /get_load, where num_reqs holds the waiting ones too.
func parseLoad(body []byte) Sample {
	var loads []rankLoad
	if json.Unmarshal(body, &loads) != nil {
		return Sample{}
	}
	for i := range loads {
		if l := &loads[i]; l.All != nil && l.Waiting != nil {
			l.Running = new(*l.All - *l.Waiting)
		}
	}
	return sampleOfLoads(loads)
}

func sampleOfLoads(loads []rankLoad) Sample {
	var s Sample
	var usage, accept []float64
	for i := range loads {
		l := &loads[i]
		if l.Running == nil || l.Waiting == nil {
			return Sample{} // something else that has lists of objects
		}
		s.Engine = SGLang
		s.Running, s.Waiting = plus(s.Running, *l.Running), plus(s.Waiting, *l.Waiting)
		if l.Usage != nil {
			usage = append(usage, *l.Usage)
		}
		if l.Speculative != nil && l.Speculative.AcceptLength > 0 {
			accept = append(accept, l.Speculative.AcceptLength)
		}
	}
	s.KVUsage, s.KVPeak = meanAndMax(usage)
	s.accept, _ = meanAndMax(accept)
	return s
}

func meanAndMax(values []float64) (mean, highest probes.Optional[float64]) {
	if len(values) == 0 {
		return
	}
	sum, peak := 0.0, values[0]
	for _, v := range values {
		sum += v
		peak = max(peak, v)
	}
	return probes.Known(sum / float64(len(values))), probes.Known(peak)
}

// slot is one of llama-server's; the prompt that it may hold is not read.
type slot struct {
	Processing  *bool `json:"is_processing"`
	Speculative bool  `json:"speculative"`
}

// parseSlots reads llama-server's /slots, which know nothing of waiting requests.
func parseSlots(body []byte) Sample {
	var slots []slot
	if json.Unmarshal(body, &slots) != nil {
		return Sample{}
	}
	var s Sample
	for _, one := range slots {
		if one.Processing == nil {
			return Sample{}
		}
		s.Engine = LlamaCPP
		busy := 0.0
		if *one.Processing {
			busy = 1
		}
		s.Running = plus(s.Running, busy)
	}
	return s
}
