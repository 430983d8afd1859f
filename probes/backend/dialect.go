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
	// port is used when a host is given without one. vllm-chat and
	// sglang-oai-chat have the port of their engine, not bench_serving's 30000
	// for everything that it does not know.
	port int
	// tokenIDs: a prompt may be sent as token ids.
	tokenIDs bool
	// sampling names the object of the body that holds ignore_eos and the length;
	// empty is the body itself.
	sampling string
	// lengthField holds the output length.
	lengthField string
	// ignoreEOS: the server knows ignore_eos, so a length can be forced.
	ignoreEOS bool
	// cumulative: every event repeats the whole text, and a token event is one
	// whose completion count has grown.
	cumulative bool
	// runningUsage: the server can be asked for a usage in every chunk.
	runningUsage bool
	// flushPath empties the prefix cache; empty: cannot be done.
	flushPath string
	// body builds the request body; see question.
	body func(d *dialect, q question) map[string]any
	// parse reads one event, or a whole answer.
	parse func(s *jsonscan.Scanner, out *said)
}

// question is what a request body is made of.
type question struct {
	*probes.Request
	model string
}

// dialects is the table of backends. Names are those of bench_serving.
var dialects = map[string]*dialect{
	"sglang":        &sglangNative,
	"sglang-native": &sglangNative,
	"sglang-oai": {
		path: completionsPath, port: 30000, tokenIDs: true, lengthField: "max_tokens", ignoreEOS: true,
		runningUsage: true, flushPath: "/flush_cache", body: withLoRAPath(completionsBody), parse: parseOpenAI,
	},
	"sglang-oai-chat": {
		path: chatPath, port: 30000, lengthField: "max_completion_tokens", ignoreEOS: true,
		runningUsage: true, flushPath: "/flush_cache", body: withLoRAPath(chatBody), parse: parseOpenAI,
	},
	"vllm": {
		path: completionsPath, port: 8000, tokenIDs: true, lengthField: "max_tokens", ignoreEOS: true,
		runningUsage: true, flushPath: "/reset_prefix_cache", body: withLoRAModel(completionsBody), parse: parseOpenAI,
	},
	"vllm-chat": {
		path: chatPath, port: 8000, lengthField: "max_completion_tokens", ignoreEOS: true,
		runningUsage: true, flushPath: "/reset_prefix_cache", body: withLoRAModel(chatBody), parse: parseOpenAI,
	},
	"openai": {
		path: completionsPath, port: 443, tokenIDs: true, lengthField: "max_tokens",
		body: withLoRAModel(completionsBody), parse: parseOpenAI,
	},
	"openai-chat": {
		path: chatPath, port: 443, lengthField: "max_completion_tokens",
		body: withLoRAModel(chatBody), parse: parseOpenAI,
	},
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

// DefaultPort is the port an engine listens on unless told otherwise, 0 for an
// unknown backend.
func DefaultPort(name string) int {
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
