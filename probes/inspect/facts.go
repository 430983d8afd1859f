package inspect

import (
	"context"
	"encoding/json"
	"math"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/inferbeat/inferbeat/probes"
)

// facts collects what one server says about itself.
type facts struct {
	reader *Reader
	ctx    context.Context
	model  string

	found        probes.ServerFacts
	listed       bool                     // the list of models was asked for
	owner        string                   // the engine that it betrays
	acceptLength probes.Optional[float64] // average since the start, over DP ranks
}

// read asks the pages on which the engine describes itself.
func (f *facts) read(engine string, sample *Sample) {
	f.found.Engine = engine
	switch engine {
	case SGLang:
		f.models()
		f.sglang()
	case VLLM:
		f.version("/version")
		f.models()
		f.vllm()
	case TRTLLM:
		f.version("/version")
		f.models()
	case LMDeploy, Dynamo:
		f.models()
	case TGI:
		f.tgi()
	case LlamaCPP:
		f.llamacpp()
	case Ollama:
		f.version("/api/version")
		f.ollama()
	case Triton:
		f.version("/v2")
	}
	f.labels(sample.labels)
}

// object is a JSON object of which nothing has been read yet. Values are taken
// out one by one by their name, whatever their type has become in this version of
// a server; all others, keys among them, are never looked at.
type object map[string]json.RawMessage

func (f *facts) object(path string) object {
	var o object
	if body, ok := f.reader.fetch(f.ctx, path); ok {
		_ = json.Unmarshal(body, &o) // not JSON is nothing known
	}
	return o
}

// object is a member that is an object, or the first of a list of them.
func (o object) object(key string) object {
	var one object
	var list []object
	if json.Unmarshal(o[key], &one) == nil {
		return one
	}
	if json.Unmarshal(o[key], &list) == nil && len(list) > 0 {
		return list[0]
	}
	return nil
}

// text is the first of the members that is a string or a number, cleaned.
func (o object) text(keys ...string) string {
	for _, key := range keys {
		raw := o[key]
		var s string
		var n json.Number
		if json.Unmarshal(raw, &s) != nil && json.Unmarshal(raw, &n) == nil {
			s = n.String()
		}
		if s = clean(s); s != "" {
			return s
		}
	}
	return ""
}

// choice is a member that is null when nothing was chosen, which is "none".
func (o object) choice(key string) string {
	if string(o[key]) == "null" {
		return "none"
	}
	return o.text(key)
}

func (o object) number(key string) probes.Optional[float64] {
	var n *float64
	if json.Unmarshal(o[key], &n) != nil || n == nil {
		return probes.Optional[float64]{}
	}
	return probes.Known(*n)
}

func (o object) count(key string) probes.Optional[int] {
	n, ok := o.number(key).Get()
	if !ok || n != math.Trunc(n) || math.Abs(n) > 1<<53 {
		return probes.Optional[int]{}
	}
	return probes.Known(int(n))
}

func (o object) flag(key string) probes.Optional[bool] {
	var b *bool
	if json.Unmarshal(o[key], &b) != nil || b == nil {
		return probes.Optional[bool]{}
	}
	return probes.Known(*b)
}

// maxText bounds a fact, in bytes: it becomes a label.
const maxText = 120

// clean makes a server's text fit to be shown: bounded, of printable characters,
// without what a URL hides.
func clean(s string) string {
	if len(s) > 1<<12 {
		s = s[:1<<12]
	}
	if u, err := url.Parse(s); err == nil && u.Scheme != "" && u.Host != "" {
		s = probes.PlainURL(s)
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return strings.TrimSpace(s)
}

// weights names a checkpoint by what stays the same when it is mounted elsewhere:
// repository of a Hugging Face cache, or last element of a path.
func weights(s string) string {
	for _, part := range strings.Split(s, "/") {
		if repo, ok := strings.CutPrefix(part, "models--"); ok {
			return strings.Replace(repo, "--", "/", 1)
		}
	}
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") {
		return path.Base(s)
	}
	return s
}

// dtype drops the module that PyTorch puts before it.
func dtype(s string) string { return strings.TrimPrefix(s, "torch.") }

func (f *facts) version(path string) { f.found.Version = f.object(path).text("version") }

// owners are the engines by who they say owns their models.
var owners = map[string]string{
	"sglang": SGLang, "vllm": VLLM, "lmdeploy": LMDeploy, "tensorrt_llm": TRTLLM, "llamacpp": LlamaCPP, "library": Ollama,
}

// models reads /v1/models, once.
func (f *facts) models() {
	if f.listed {
		return
	}
	f.listed = true
	var list []object
	if json.Unmarshal(f.object("/v1/models")["data"], &list) != nil || len(list) == 0 {
		return
	}
	ours := list[0]
	for _, one := range list {
		if f.model != "" && one.text("id") == clean(f.model) {
			ours = one
			break
		}
	}
	f.found.Model, f.found.Weights = ours.text("id"), weights(ours.text("root"))
	f.found.ContextLength = ours.count("max_model_len")
	f.owner = owners[ours.text("owned_by")]
}

func (f *facts) sglang() {
	info := f.object("/server_info")
	if info == nil {
		info = f.object("/get_server_info") // before its rename
	}
	if decode := info.object("decode"); decode != nil {
		info = decode // a router before servers for prefill and for decode
	}
	if info == nil {
		if info = f.object("/model_info"); info == nil {
			info = f.object("/get_model_info")
		}
	}
	s := &f.found
	s.Version = info.text("version")
	if s.Model == "" {
		s.Model = info.text("served_model_name", "model_path")
	}
	if path := info.text("model_path"); path != "" {
		s.Weights = weights(path)
	}
	s.Revision = revision(info.text("revision"), info.text("weight_version"))
	s.Quantization, s.DType, s.KVCacheDType = info.choice("quantization"), dtype(info.text("dtype")), info.text("kv_cache_dtype")
	s.TensorParallel, s.PipelineParallel = info.count("tp_size"), info.count("pp_size")
	s.DataParallel, s.ExpertParallel = info.count("dp_size"), info.count("ep_size")
	s.AttentionBackend = attention(info)
	s.SpeculativeAlgorithm, s.SpeculativeTokens = info.choice("speculative_algorithm"), info.count("speculative_num_draft_tokens")
	if off, ok := info.flag("disable_radix_cache").Get(); ok {
		s.PrefixCaching = probes.Known(!off)
	}
	if !s.ContextLength.IsKnown() {
		s.ContextLength = info.count("context_length")
	}
	// Both are drawn anew at each start, unless the seed was given.
	s.Incarnation = strings.Trim(info.text("startup_time")+" "+info.text("random_seed"), " ")
	s.Accelerator = f.object("/v1/loads").text("accelerator")
	f.acceptLength = averageAcceptLength(info)
}

// revision joins what tells states of a checkpoint apart; weights that were never
// updated in place have the version "default".
func revision(repository, updated string) string {
	if updated == "default" {
		updated = ""
	}
	return strings.Trim(repository+" "+updated, " ")
}

func attention(info object) string {
	both := info.text("attention_backend")
	prefill, decode := info.text("prefill_attention_backend"), info.text("decode_attention_backend")
	if prefill == "" {
		prefill = both
	}
	if decode == "" {
		decode = both
	}
	if prefill == decode {
		return prefill
	}
	return prefill + "/" + decode
}

// averageAcceptLength averages over DP ranks; one that has not speculated has no
// such member.
func averageAcceptLength(info object) probes.Optional[float64] {
	var ranks []object
	if json.Unmarshal(info["internal_states"], &ranks) != nil {
		return probes.Optional[float64]{}
	}
	var lengths []float64
	for _, rank := range ranks {
		if n, ok := rank.number("avg_spec_accept_length").Get(); ok && n > 0 {
			lengths = append(lengths, n)
		}
	}
	mean, _ := meanAndMax(lengths)
	return mean
}

// vllm reads the configuration, which servers in development mode show, as an
// object or as Python prints it.
func (f *facts) vllm() {
	info := f.object("/server_info?config_format=json")
	var printed string
	if json.Unmarshal(info["vllm_config"], &printed) == nil && printed != "" {
		f.vllmPrinted(printed)
		return
	}
	config := info.object("vllm_config")
	model, parallel := config.object("model_config"), config.object("parallel_config")
	cache, drafts := config.object("cache_config"), config.object("speculative_config")
	s := &f.found
	s.Quantization, s.DType, s.Revision = model.choice("quantization"), dtype(model.text("dtype")), model.text("revision")
	s.TensorParallel, s.PipelineParallel = parallel.count("tensor_parallel_size"), parallel.count("pipeline_parallel_size")
	s.DataParallel = parallel.count("data_parallel_size")
	s.KVCacheDType, s.PrefixCaching = cache.text("cache_dtype"), cache.flag("enable_prefix_caching")
	s.AttentionBackend = config.object("attention_config").text("backend")
	s.SpeculativeAlgorithm, s.SpeculativeTokens = drafts.text("method"), drafts.count("num_speculative_tokens")
	if string(config["speculative_config"]) == "null" {
		s.SpeculativeAlgorithm = "none"
	}
}

// vllmPrinted reads "model='m', dtype=torch.bfloat16, tensor_parallel_size=2, …".
func (f *facts) vllmPrinted(text string) {
	value := func(key string) string {
		_, rest, ok := strings.Cut(" "+text, " "+key+"=")
		if !ok {
			return ""
		}
		v, _, _ := strings.Cut(rest, ",")
		return clean(strings.Trim(v, "'\""))
	}
	count := func(key string) probes.Optional[int] { return parseCount(value(key)) }
	s := &f.found
	if s.Quantization = value("quantization"); s.Quantization == "None" {
		s.Quantization = "none"
	}
	s.DType, s.KVCacheDType = dtype(value("dtype")), value("kv_cache_dtype")
	s.TensorParallel, s.PipelineParallel = count("tensor_parallel_size"), count("pipeline_parallel_size")
	s.DataParallel, s.PrefixCaching = count("data_parallel_size"), parseFlag(value("enable_prefix_caching"))
}

func parseCount(s string) probes.Optional[int] {
	if n, err := strconv.Atoi(s); err == nil {
		return probes.Known(n)
	}
	return probes.Optional[int]{}
}

// parseFlag reads what Python prints.
func parseFlag(s string) probes.Optional[bool] {
	if s == "True" || s == "False" {
		return probes.Known(s == "True")
	}
	return probes.Optional[bool]{}
}

func (f *facts) tgi() {
	info := f.object("/info")
	s := &f.found
	s.Version, s.Model, s.Weights = info.text("version"), info.text("model_id"), weights(info.text("model_id"))
	s.Revision, s.DType = info.text("model_sha"), dtype(info.text("model_dtype"))
	s.ContextLength, s.Accelerator = info.count("max_total_tokens"), info.text("model_device_type")
}

func (f *facts) llamacpp() {
	props := f.object("/props")
	s := &f.found
	s.Version, s.Model, s.Weights = props.text("build_info"), weights(props.text("model_alias")), weights(props.text("model_path"))
	s.Quantization = props.text("model_ftype")
	s.ContextLength = props.object("default_generation_settings").count("n_ctx")
	if body, ok := f.reader.fetch(f.ctx, "/slots"); ok {
		var slots []slot
		if json.Unmarshal(body, &slots) == nil && len(slots) > 0 && slots[0].Speculative {
			s.SpeculativeAlgorithm = "enabled" // the page does not say how
		}
	}
}

func (f *facts) ollama() {
	var list []object
	if json.Unmarshal(f.object("/api/tags")["models"], &list) != nil {
		return
	}
	for _, one := range list {
		// A name without a tag means the tag "latest".
		if name := one.text("name"); name == clean(f.model) || name == clean(f.model)+":latest" {
			s := &f.found
			s.Model, s.Weights, s.Revision = name, name, one.text("digest")
			s.Quantization = one.object("details").text("quantization_level")
		}
	}
}

// factLabels are labels of info series on pages, and the fact that each is.
var factLabels = map[string]string{
	"cache_dtype": "kv_cache_dtype", "kv_cache_dtype": "kv_cache_dtype", "enable_prefix_caching": "prefix_caching",
	"quantization": "quantization", "dtype": "dtype", "gpu_type": "accelerator",
	"tensor_parallel_size": "tensor_parallel", "pipeline_parallel_size": "pipeline_parallel",
}

// labels fills in what only the page said.
func (f *facts) labels(found map[string]string) {
	text := func(field *string, name string) {
		if v := clean(found[name]); *field == "" && v != "None" {
			*field = v
		}
	}
	s := &f.found
	text(&s.KVCacheDType, "kv_cache_dtype")
	text(&s.Quantization, "quantization")
	text(&s.Accelerator, "accelerator")
	if text(&s.DType, "dtype"); s.DType != "" {
		s.DType = dtype(s.DType)
	}
	if !s.PrefixCaching.IsKnown() {
		s.PrefixCaching = parseFlag(found["prefix_caching"])
	}
	if !s.TensorParallel.IsKnown() {
		s.TensorParallel = parseCount(found["tensor_parallel"])
	}
	if !s.PipelineParallel.IsKnown() {
		s.PipelineParallel = parseCount(found["pipeline_parallel"])
	}
}
