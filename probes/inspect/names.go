package inspect

import (
	"bytes"
	"slices"
	"strings"
)

// Engines, as facts name them.
const (
	SGLang   = "sglang"
	VLLM     = "vllm"
	LMDeploy = "lmdeploy"
	TRTLLM   = "tensorrt-llm"
	TGI      = "tgi"
	LlamaCPP = "llamacpp"
	Ollama   = "ollama"
	Triton   = "triton"
	Dynamo   = "dynamo"
)

// quantity is something that pages tell under different names.
type quantity uint8

const (
	none quantity = iota
	running
	waiting
	kvUsage
	acceptGauge // the server's own short-term average of the accept length

	// Counters from here on.
	requests
	generated
	verifySteps // of requests that ended, like generated and requests beside it
	drafts      // verify steps that had drafts
	draftTokens
	accepted
	emitted // accepted tokens and the bonus token of each step
	acceptedAt
	queriedTokens
	hitTokens
	prefilled // by mode: hits of each tier, and the rest
	hitBlocks
	missedBlocks
	preemptions
	ttftSum
	ttftCount
	tpotSum
	tpotCount
	quantities
)

// counter reports whether the quantity only grows while a server lives.
func (q quantity) counter() bool { return q >= requests }

// meaning is what one name of one engine tells. Of the names of one term only
// the best rank that a page has counts: they are old and new spellings of one
// thing. Terms of a quantity add up.
type meaning struct {
	quantity   quantity
	term, rank uint8
}

// histogram is the two samples that a mean is made of.
func histogram(into map[string][]meaning, name string, sum, count quantity, rank uint8) {
	into[name+"_sum"] = append(into[name+"_sum"], meaning{sum, 0, rank})
	into[name+"_count"] = append(into[name+"_count"], meaning{count, 0, rank})
}

// prefixes are how the names of an engine begin, before a colon or underscore.
// A page that has names of several belongs to the first of them: a front end
// passes the pages of the engines behind it on.
var prefixes = []struct{ text, engine string }{
	{"sglang", SGLang}, {"vllm", VLLM}, {"lmdeploy", LMDeploy}, {"trtllm", TRTLLM},
	{"tgi", TGI}, {"llamacpp", LlamaCPP}, {"dynamo_frontend", Dynamo}, {"nv", Triton},
}

// names is the table of all names, by engine. A counter is listed without its
// _total, which older pages lack.
var names = map[string]map[string][]meaning{
	SGLang: table(map[string]meaning{
		"num_running_reqs":                {quantity: running},
		"num_queue_reqs":                  {quantity: waiting},
		"num_grammar_queue_reqs":          {quantity: waiting, term: 1},
		"num_prefill_prealloc_queue_reqs": {quantity: waiting, term: 2},
		"num_decode_prealloc_queue_reqs":  {quantity: waiting, term: 3},
		"num_decode_transfer_queue_reqs":  {quantity: waiting, term: 4},
		"token_usage":                     {quantity: kvUsage},
		"spec_accept_length":              {quantity: acceptGauge},
		"num_requests":                    {quantity: requests},
		"generation_tokens":               {quantity: generated},
		"spec_verify_calls":               {quantity: verifySteps},
		"prompt_tokens":                   {quantity: queriedTokens},
		"cached_tokens":                   {quantity: hitTokens},
		"prefill_effective_tokens":        {quantity: prefilled},
		"num_retracted_requests":          {quantity: preemptions},
	}, means{"time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds"}),
	VLLM: table(map[string]meaning{
		"num_requests_running":                    {quantity: running},
		"num_requests_waiting":                    {quantity: waiting},
		"num_requests_swapped":                    {quantity: waiting, term: 1},
		"kv_cache_usage_perc":                     {quantity: kvUsage},
		"gpu_cache_usage_perc":                    {quantity: kvUsage, rank: 1},
		"request_success":                         {quantity: requests},
		"generation_tokens":                       {quantity: generated},
		"spec_decode_num_drafts":                  {quantity: drafts},
		"spec_decode_num_draft_tokens":            {quantity: draftTokens},
		"spec_decode_num_accepted_tokens":         {quantity: accepted},
		"spec_decode_num_emitted_tokens":          {quantity: emitted},
		"spec_decode_num_accepted_tokens_per_pos": {quantity: acceptedAt},
		"prefix_cache_queries":                    {quantity: queriedTokens},
		"gpu_prefix_cache_queries":                {quantity: queriedTokens, rank: 1},
		"prefix_cache_hits":                       {quantity: hitTokens},
		"gpu_prefix_cache_hits":                   {quantity: hitTokens, rank: 1},
		// Its queries are what the local cache missed, so only its hits count.
		"external_prefix_cache_hits": {quantity: hitTokens, term: 1},
		"num_preemptions":            {quantity: preemptions},
	}, means{"time_to_first_token_seconds", "request_time_per_output_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds"}),
	LMDeploy: table(map[string]meaning{
		"num_requests_running":                    {quantity: running},
		"num_requests_waiting":                    {quantity: waiting},
		"num_api_requests_waiting":                {quantity: waiting, term: 1},
		"gpu_cache_usage_perc":                    {quantity: kvUsage},
		"request_success":                         {quantity: requests},
		"generation_tokens":                       {quantity: generated},
		"prompt_tokens":                           {quantity: queriedTokens},
		"cached_tokens":                           {quantity: hitTokens},
		"spec_decode_num_drafts":                  {quantity: drafts},
		"spec_decode_num_draft_tokens":            {quantity: draftTokens},
		"spec_decode_num_accepted_tokens":         {quantity: accepted},
		"spec_decode_num_accepted_tokens_per_pos": {quantity: acceptedAt},
		"spec_decode_mean_accept_length":          {quantity: acceptGauge},
	}, means{"time_to_first_token_seconds", "time_per_output_token_seconds"}),
	TRTLLM: table(map[string]meaning{
		"num_requests_running":            {quantity: running},
		"num_requests_waiting":            {quantity: waiting},
		"kv_cache_utilization":            {quantity: kvUsage},
		"request_success":                 {quantity: requests},
		"generation_tokens":               {quantity: generated},
		"prompt_tokens":                   {quantity: queriedTokens},
		"prompt_cached_tokens":            {quantity: hitTokens},
		"kv_cache_reused_blocks":          {quantity: hitBlocks},
		"kv_cache_missed_blocks":          {quantity: missedBlocks},
		"spec_decode_num_draft_tokens":    {quantity: draftTokens},
		"spec_decode_num_accepted_tokens": {quantity: accepted},
		"spec_decode_acceptance_length":   {quantity: acceptGauge},
	}, means{"time_to_first_token_seconds", "time_per_output_token_seconds"}),
	TGI: table(map[string]meaning{
		"batch_current_size": {quantity: running},
		"queue_size":         {quantity: waiting},
		"request_success":    {quantity: requests},
	}, means{"", "request_mean_time_per_token_duration"}),
	LlamaCPP: also("prompt_tokens_cached", meaning{quantity: queriedTokens, term: 1}, table(map[string]meaning{
		"requests_processing":                     {quantity: running},
		"requests_deferred":                       {quantity: waiting},
		"kv_cache_usage_ratio":                    {quantity: kvUsage},
		"spec_decode_num_drafts":                  {quantity: drafts},
		"spec_decode_num_draft_tokens":            {quantity: draftTokens},
		"spec_decode_num_accepted_tokens":         {quantity: accepted},
		"spec_decode_num_accepted_tokens_per_pos": {quantity: acceptedAt},
		// Not a histogram, but the two numbers that the mean is made of.
		"tokens_predicted_seconds": {quantity: tpotSum},
		"tokens_predicted":         {quantity: tpotCount},
		// Processed and cached tokens are counted apart.
		"prompt_tokens":        {quantity: queriedTokens},
		"prompt_tokens_cached": {quantity: hitTokens},
	}, means{})),
	Dynamo: table(map[string]meaning{
		"inflight_requests": {quantity: running},
		"queued_requests":   {quantity: waiting},
		"requests":          {quantity: requests},
	}, means{"time_to_first_token_seconds", "inter_token_latency_seconds"}),
	Triton: table(map[string]meaning{
		"trt_llm_request_metrics:scheduled":       {quantity: running},
		"trt_llm_request_metrics:waiting":         {quantity: waiting},
		"trt_llm_kv_cache_block_metrics:fraction": {quantity: kvUsage},
		"inference_request_success":               {quantity: requests},
	}, means{}),
}

// fullName is a metric's name for the table. The TensorRT-LLM backend of Triton has one
// name for many quantities, which a label tells apart: its value ends the name here.
func fullName(name, labels []byte) []byte {
	if !bytes.HasPrefix(name, []byte("nv_trt_llm_")) {
		return name
	}
	eachLabel(labels, func(label, value []byte) {
		if bytes.HasSuffix(label, []byte("_type")) {
			name = append(append(slices.Clip(name), ':'), value...)
		}
	})
	return name
}

// means are histograms in seconds: that of TTFT (may be empty), then those of the
// time per output token, the best first.
type means []string

func table(single map[string]meaning, latencies means) map[string][]meaning {
	t := map[string][]meaning{}
	for name, m := range single {
		t[name] = []meaning{m}
	}
	for i, name := range latencies {
		switch {
		case name == "":
		case i == 0:
			histogram(t, name, ttftSum, ttftCount, 0)
		default:
			histogram(t, name, tpotSum, tpotCount, uint8(i))
		}
	}
	return t
}

// also gives a name a second meaning.
func also(name string, m meaning, t map[string][]meaning) map[string][]meaning {
	t[name] = append(t[name], m)
	return t
}

// recognise finds the engine and the meanings of a metric's name; nil for a name
// that tells nothing. Something may stand before the engine's prefix
// ("kserve_vllm:num_requests_running"), and the separator may be a colon or an
// underscore.
func recognise(name []byte) (engine string, found []meaning) {
	for _, p := range prefixes {
		at := bytes.Index(name, []byte(p.text))
		if at < 0 || at > 0 && name[at-1] != '_' && name[at-1] != ':' {
			continue
		}
		rest := name[at+len(p.text):]
		if len(rest) == 0 || rest[0] != ':' && rest[0] != '_' {
			continue
		}
		rest = rest[1:]
		t := names[p.engine]
		if found := t[string(rest)]; found != nil {
			return p.engine, found
		}
		if base, ok := bytes.CutSuffix(rest, []byte("_total")); ok && t[string(base)] != nil && t[string(base)][0].quantity.counter() {
			return p.engine, t[string(base)]
		}
		return "", nil
	}
	return "", nil
}

// tier names a level of the prefix cache by SGLang's label values; "" for a
// count that is not told by tier.
func tier(source string) string {
	source, _, _ = strings.Cut(strings.TrimSuffix(source, "_hit"), "_")
	switch source {
	case "device", "host", "storage":
		return source
	}
	return ""
}
