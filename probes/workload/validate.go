package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// Datasets that can be opened.
const (
	Random                = "random"
	RandomIDs             = "random-ids"
	ShareGPT              = "sharegpt"
	GeneratedSharedPrefix = "generated-shared-prefix"
	Image                 = "image"
	MMMU                  = "mmmu"
	Custom                = "custom"
	Text                  = "text"
	TraceRows             = "trace"
	Mooncake              = "mooncake"
	BurstGPT              = "burstgpt"
	Azure                 = "azure"
)

// Datasets lists them in the order they are documented.
var Datasets = []string{
	Random, RandomIDs, ShareGPT, GeneratedSharedPrefix, Image, MMMU, Custom, Text, TraceRows, Mooncake, BurstGPT, Azure,
}

// Values of [probes.Workload.Tokenizer].
const (
	TokenizerServer = probes.TokenizerServer
	TokenizerApprox = probes.TokenizerApprox
)

const (
	// DefaultVocabSize bounds the ids of random-ids when the workload does not.
	DefaultVocabSize = 32000
	// minVocabSize leaves enough ids for heads that differ.
	minVocabSize = 16
	// minFixedOutput is bench_serving's limit for --sharegpt-output-len.
	minFixedOutput = 4
)

// Validate reports every mistake of a workload, each naming its field as it is
// written in the configuration. It does not look at files.
func Validate(w probes.Workload) error {
	var errs []error
	refuse := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	switch w.Dataset {
	case Random, RandomIDs:
		validateRandom(w, refuse)
	case ShareGPT:
		validateShareGPT(w, refuse)
	case GeneratedSharedPrefix:
		validateGroups(w, refuse)
	case Image:
		validateRandom(w, refuse)
		validateImages(w.Images, refuse)
	case MMMU:
		validateFile(w, refuse)
		if w.OutputTokens <= 0 {
			refuse("output_tokens", "%d is not a length, it must be at least 1", w.OutputTokens)
		}
	case Text:
		validateRandomLengths(w, refuse)
		validateFile(w, refuse)
	case Custom, TraceRows, Mooncake, BurstGPT, Azure:
		validateFile(w, refuse)
		validateTrace(w, refuse)
	default:
		refuse("dataset", "unknown %q, use one of %q", w.Dataset, Datasets)
	}
	if w.ApplyChatTemplate {
		validateTemplate(w, refuse)
	}
	if !slices.Contains([]probes.CacheClass{"", probes.CacheCold, probes.CacheWarm, probes.CacheShared}, w.Cache) {
		refuse("cache", "unknown %q, use cold, warm or shared", w.Cache)
	}
	validateSampling(w.Sampling, refuse)
	validateAdapters(w.Adapters, refuse)
	return errors.Join(errs...)
}

func validateTemplate(w probes.Workload, refuse refuseFunc) {
	if !w.LocalTokenizer() {
		refuse("apply_chat_template", "tokenizer %q has no template here, set tokenizer to the path of a tokenizer.json with its tokenizer_config.json", w.Tokenizer)
	}
	if w.Dataset == RandomIDs && w.TokenIDs {
		refuse("apply_chat_template", "random ids are sent as they are, set token_ids: false")
	}
}

type refuseFunc func(field, format string, args ...any)

func validateRandom(w probes.Workload, refuse refuseFunc) {
	validateRandomLengths(w, refuse)
	if w.Path != "" {
		refuse("path", "dataset %s reads no file", w.Dataset)
	}
	if w.VocabSize != 0 && w.VocabSize < minVocabSize {
		refuse("vocab_size", "%d is too small, it must be at least %d", w.VocabSize, minVocabSize)
	}
	if w.Tokenizer != TokenizerApprox {
		return
	}
	switch {
	case w.Dataset == Random && w.TokenIDs:
		refuse("token_ids", "words cannot be sent as ids without a tokenizer, set tokenizer: server")
	case w.Dataset == RandomIDs && !w.TokenIDs:
		refuse("tokenizer", "ids cannot be sent as text without a tokenizer, set token_ids: true or tokenizer: server")
	}
}

func validateRandomLengths(w probes.Workload, refuse refuseFunc) {
	if w.InputTokens <= 0 {
		refuse("input_tokens", "%d is not a length, it must be at least 1", w.InputTokens)
	}
	if w.OutputTokens <= 0 {
		refuse("output_tokens", "%d is not a length, it must be at least 1", w.OutputTokens)
	}
	if !(w.RangeRatio >= 0 && w.RangeRatio <= 1) {
		refuse("range_ratio", "%v is outside 0 to 1 (0.5 means lengths from half of the full one to the full one)", w.RangeRatio)
	}
}

func validateShareGPT(w probes.Workload, refuse refuseFunc) {
	if w.Path == "" && w.URL == "" {
		refuse("path", "missing, name the ShareGPT JSON file")
	}
	validateURL(w, refuse)
	if w.FixedOutputTokens != 0 && w.FixedOutputTokens < minFixedOutput {
		refuse("fixed_output_tokens", "%d is too short, it must be at least %d", w.FixedOutputTokens, minFixedOutput)
	}
	if w.ContextTokens < 0 {
		refuse("context_tokens", "%d is negative", w.ContextTokens)
	}
	if w.TokenIDs {
		refuse("token_ids", "dataset sharegpt is sent as text only")
	}
}

func validateSampling(s probes.Sampling, refuse refuseFunc) {
	if !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0) {
		refuse("temperature", "%v is not a number of at least 0", s.Temperature)
	}
	if p, ok := s.TopP.Get(); ok && !(p > 0 && p <= 1) {
		refuse("top_p", "%v is outside 0 (exclusive) to 1", p)
	}
	if _, ok := s.ExtraBody["stream"]; ok {
		refuse("extra_body", "stream cannot be set here, use the workload's own stream option")
	}
}
