package backend

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
)

// dialect is how one backend is talked to.
type dialect struct {
	path string
	// wholePath is asked when no stream is wanted; empty: path answers both.
	wholePath string
	// port is used when a host is given without one. Chat dialects have the port of
	// their engine, not bench_serving's 30000 for everything that it does not know.
	port int
	// modelsPath lists what the server serves; empty: it has no such call.
	modelsPath string
	// flushPath empties the prefix cache; empty: cannot be done.
	flushPath string
	// profile builds what /start_profile is asked with, nil for an empty body; without
	// it the server has no such call.
	profile func(p *probes.Profile) (map[string]any, error)
	// tokenize are the forms in which the server may take a text to tokenize.
	tokenize []tokenizeWay

	// keyHeader carries the API key as it is; empty: Authorization, as a bearer.
	keyHeader string
	// header is sent with every request unless the user names another value.
	header map[string]string

	// messages: a conversation may be sent.
	messages bool
	// images: pictures may be sent beside the text.
	images bool
	// tokenIDs: a prompt may be sent as token ids.
	tokenIDs bool
	// sampling names the object of the body that holds the length and what forces
	// it; empty is the body itself.
	sampling string
	// lengthField holds the output length.
	lengthField string
	// exact are the fields that keep the server from stopping before that length;
	// nil: it cannot be forced.
	exact map[string]any
	// leastFields name the shortest length, for servers that need it beside exact.
	leastFields []string
	// runningUsage: the server can be asked for a usage in every chunk.
	runningUsage bool
	// body builds the request body; see question.
	body func(d *dialect, q question) map[string]any
	// lora adds the adapter's name to a body.
	lora func(fields map[string]any, name string) error

	// lines: a stream is one JSON text a line instead of server-sent events.
	lines bool
	// endsWithBody: no end mark and no finish reason are ever sent; the regular end
	// of the body is the end of the answer.
	endsWithBody bool
	// cumulative: every event repeats the whole text, and a token event is one
	// whose completion count has grown.
	cumulative bool
	// countsAhead: the events of one burst all have the count after the burst.
	countsAhead bool
	// splitPrompt: the prompt's count leaves out the tokens that the cache gave or
	// took; they are counted apart.
	splitPrompt bool
	// parse reads one event, or a whole answer.
	parse func(s *jsonscan.Scanner, out *said)
}

// question is what a request body is made of.
type question struct {
	*probes.Request
	model string
}

// dialects is the table of backends. Names are those of bench_serving where it has
// one; a name without -chat is the completions route where an engine has both.
var dialects = map[string]*dialect{
	"sglang":            &sglangNative,
	"sglang-native":     &sglangNative,
	"sglang-oai":        &sglangText,
	"sglang-oai-chat":   &sglangChat,
	"vllm":              &vllmText,
	"vllm-chat":         &vllmChat,
	"lmdeploy":          &lmdeployText,
	"lmdeploy-chat":     &lmdeployChat,
	"trt":               &triton,
	"trtllm-serve":      &trtllmText,
	"trtllm-serve-chat": &trtllmChat,
	"truss":             &truss,
	"tgi":               &tgi,
	"llamacpp":          &llamaCpp,
	"ollama":            &ollama,
	"dynamo":            &dynamo,
	"openai":            &openAIText,
	"openai-chat":       &openAIChat,
	"openai-responses":  &openAIResponses,
	"anthropic":         &anthropic,
}

// Names lists the backends that can be used, sorted.
func Names() []string { return slices.Sorted(maps.Keys(dialects)) }

// Check reports whether a backend of that name can be used. Its error lists the
// names and suggests the nearest one.
func Check(name string) error {
	if dialects[name] != nil {
		return nil
	}
	known := strings.Join(Names(), ", ")
	if name == "gserver" {
		return fmt.Errorf("use backend %q: not implemented upstream either (bench_serving only reserves the name); choose one of %s", name, known)
	}
	if near := nearest(name); near != "" {
		return fmt.Errorf("use backend %q: unknown name, did you mean %q? Known are %s", name, near, known)
	}
	return fmt.Errorf("use backend %q: unknown name; known are %s", name, known)
}

// defaultPort is the port an engine listens on unless told otherwise, 0 for an
// unknown backend.
func defaultPort(name string) int {
	if d := dialects[name]; d != nil {
		return d.port
	}
	return 0
}

// AcceptsTokenIDs reports whether the backend takes prompts as token ids.
func AcceptsTokenIDs(name string) bool {
	d := dialects[name]
	return d != nil && d.tokenIDs
}

// CheckAdapters reports the first LoRA adapter of a workload that a request of the
// backend cannot name. Unknown backends are no matter of it.
func CheckAdapters(name string, w probes.Workload) error {
	d := dialects[name]
	if d == nil {
		return nil
	}
	for _, adapter := range w.AdapterNames() {
		if err := d.lora(map[string]any{}, adapter); err != nil {
			return err
		}
	}
	return nil
}

// AcceptsMessages reports whether the backend takes conversations of several messages.
func AcceptsMessages(name string) bool {
	d := dialects[name]
	return d != nil && d.messages
}

// AcceptsImages reports whether the backend takes images.
func AcceptsImages(name string) bool {
	d := dialects[name]
	return d != nil && d.images
}

// nearest is the known name that has all parts of the given one, or else the one
// with the fewest edits; empty when none is similar.
func nearest(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	parts := strings.Split(name, "-")
	for _, known := range Names() {
		has := strings.Split(known, "-")
		if !slices.ContainsFunc(parts, func(p string) bool { return !slices.Contains(has, p) }) {
			return known
		}
	}
	best, bestDistance := "", 1+len(name)/2
	for _, known := range Names() {
		if d := editDistance(name, known); d < bestDistance {
			best, bestDistance = known, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of two short ASCII names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
