package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// runFlags are the options of `inferbeat run`, named as in bench_serving where
// it has them.
type runFlags struct {
	changed func(flag string) bool // whether the call has the flag
	kind    probes.Kind            // what the command runs

	configFiles      []string
	target, probe    string
	backend          string
	baseURL, host    string
	metricsURL       string
	metricsKey       bool
	port             int
	model            string
	apiKeyFile       string
	headers          []string
	connection       string
	dataset, path    string
	tokenizer        string
	applyTemplate    bool
	vocabSize        int
	url, sha256      string
	skipBadRows      bool
	groups           probes.Groups
	groupChoice      string
	images           probes.ImageShape
	trace            probes.Trace
	traceTimes       bool
	numPrompts       int
	duration         time.Duration
	requestRate      string
	burstiness       float64
	ramp             time.Duration
	maxConcurrency   int
	warmup           int
	repeats          int
	startConcurrency int
	startTogether    bool
	batchSizes       []int
	offlineResult    string
	inputLen         int
	outputLen        int
	rangeRatio       float64
	shareGPTOutput   int
	shareGPTContext  int
	tokenizePrompt   bool
	fixedPrompts     bool
	seed             int64
	temperature      float64
	disableStream    bool
	disableIgnoreEOS bool
	extraBody        string
	adapters         probes.Adapters
	flushCache       bool
	profiled         bool
	profile          probes.Profile
	shard, startAt   string
	timeouts         probes.Timeouts
	outputFile       string
	outputDetails    bool
	definitions      string
	tag              string
	format           string
	noProgress       bool
	pairs            int
	against          against
	gate             *gateFlags // of `gate` alone
}

// withConfig are the flags that do not change what is run, and so may stand
// beside --config.
var withConfig = []string{"config", "target", "probe", "output-file", "output-details", "format", "tag", "disable-tqdm", "shard", "start-at"}

// pairedWithConfig are those of `paired` and `gate` alone.
var pairedWithConfig = []string{"against-target", "pairs", "margin", "primary", "vary", "inconclusive", "json"}

// Kinds of datasets, by what they are made of.
var (
	drawnDatasets = []string{workload.Random, workload.RandomIDs, workload.Text, workload.Image} // lengths are drawn
	timedDatasets = []string{workload.TraceRows, workload.Mooncake, workload.BurstGPT, workload.Azure}
	rowDatasets   = append([]string{workload.Custom}, timedDatasets...) // files of one request a line
	fileDatasets  = append([]string{workload.ShareGPT}, rowDatasets...)
)

// datasetFlags have an effect on some datasets only.
var datasetFlags = []struct {
	flag     string
	datasets []string
}{
	{"random-input-len", drawnDatasets},
	{"random-output-len", append([]string{workload.Custom, workload.TraceRows, workload.Mooncake, workload.MMMU}, drawnDatasets...)},
	{"random-range-ratio", drawnDatasets},
	{"vocab-size", []string{workload.RandomIDs}},
	{"sharegpt-output-len", fileDatasets},
	{"sharegpt-context-len", fileDatasets},
	{"dataset-url", append([]string{workload.Text, workload.MMMU}, fileDatasets...)},
	{"dataset-sha256", append([]string{workload.Text, workload.MMMU}, fileDatasets...)},
	{"skip-bad-rows", fileDatasets},
	{"gsp-num-groups", []string{workload.GeneratedSharedPrefix}},
	{"gsp-prompts-per-group", []string{workload.GeneratedSharedPrefix}},
	{"gsp-system-prompt-len", []string{workload.GeneratedSharedPrefix}},
	{"gsp-question-len", []string{workload.GeneratedSharedPrefix}},
	{"gsp-output-len", []string{workload.GeneratedSharedPrefix}},
	{"gsp-range-ratio", []string{workload.GeneratedSharedPrefix}},
	{"gsp-zipf-alpha", []string{workload.GeneratedSharedPrefix}},
	{"gsp-ordered", []string{workload.GeneratedSharedPrefix}},
	{"gsp-group-distribution", []string{workload.GeneratedSharedPrefix}},
	{"image-count", []string{workload.Image}},
	{"random-image-count", []string{workload.Image}},
	{"image-resolution", []string{workload.Image}},
	{"image-format", []string{workload.Image}},
	{"image-content", []string{workload.Image}},
	{"use-trace-timestamps", timedDatasets},
	{"mooncake-slowdown-factor", timedDatasets},
	{"mooncake-num-rounds", []string{workload.Mooncake}},
	{"mooncake-workload", []string{workload.Mooncake}},
	{"block-tokens", []string{workload.Mooncake, workload.TraceRows}},
	{"time-unit", []string{workload.TraceRows}},
}

func defineRunFlags(f *flagSet) *runFlags { return defineKindFlags(f, probes.Load) }

// defineKindFlags defines the flags of the command that runs one kind of probe;
// the kinds differ in the load alone.
func defineKindFlags(f *flagSet, kind probes.Kind) *runFlags {
	o := &runFlags{changed: f.Changed, kind: kind}
	o.defineFlags(f)
	return o
}

// defineFlags adds the flags to a command in their groups.
func (o *runFlags) defineFlags(f *flagSet) {
	kind := o.kind
	o.defineTarget(f.group("Target"))
	if kind == probes.Paired {
		o.against.define(f.group("Reference, which the target is compared with"))
	}
	if o.gate != nil {
		o.gate.define(f.group("Gate"))
	}
	o.defineWorkload(f.group("Dataset"))
	o.defineShapes(f.group("Shared prefixes, images and traces"))
	switch load := f.group("Load"); kind {
	case probes.Peak:
		o.definePeak(load)
	case probes.Batch:
		o.defineBatch(load)
	default:
		o.defineLoad(load)
	}
	if kind == probes.Load || kind == probes.Replay {
		o.defineShard(f.group("One part of a load that several processes send; 'inferbeat merge' joins their results"))
	}
	o.defineSampling(f.group("Sampling"))

	o.defineTimeouts(f.group("Timeouts of each request (0 is no bound)"))
	o.defineConfig(f.group("Configuration, instead of the flags above"))
	o.defineOutput(f.group("Output"))
}

func (o *runFlags) defineTimeouts(t *pflag.FlagSet) {
	t.DurationVar(&o.timeouts.Connect, "timeout-connect", 10*time.Second, "bound on DNS, connect and TLS together")
	t.DurationVar(&o.timeouts.FirstToken, "timeout-first-token", 0, "bound on the first token")
	t.DurationVar(&o.timeouts.Idle, "timeout-idle", 5*time.Minute, "bound on silence")
	t.DurationVar(&o.timeouts.Total, "timeout-total", 0, "bound on the whole answer")
}

func (o *runFlags) defineConfig(c *pflag.FlagSet) {
	c.StringArrayVar(&o.configFiles, "config", nil, "configuration `file`; repeat to overlay, later ones win")
	c.StringVar(&o.target, "target", "", "`name` of the target to run on; needed when there are several")
	if o.kind == probes.Paired {
		c.StringVar(&o.against.target, "against-target", "", "`name` of the target that is the reference; it needs the same probe")
	}
	c.StringVar(&o.probe, "probe", "", "`name` of the probe to run; needed when there are several")
}

func (o *runFlags) defineOutput(out *pflag.FlagSet) {
	out.StringVar(&o.outputFile, "output-file", "", "`file` to append the result to, as one JSON line with the keys of bench_serving")
	out.BoolVar(&o.outputDetails, "output-details", false, "add arrays of the single requests to that line, generated texts included")
	out.StringVar(&o.format, "format", jsonl.FormatSGLang, "`schema` of that line: sglang (bench_serving's keys and ours), or vllm (those of vllm bench serve alone)")
	out.StringVar(&o.definitions, "definitions", "", "latencies as another `tool` defines them, to lay beside its numbers: sglang (E2E to the end of the stream, a connection for each request), or vllm (role and empty chunks count)")
	out.StringVar(&o.tag, "tag", "", "`text` to tag that line with")
	out.BoolVar(&o.noProgress, "disable-tqdm", false, "draw no progress bar; there is none anyway unless the standard error is a terminal")
}

func (o *runFlags) defineTarget(f *pflag.FlagSet) {
	f.StringVar(&o.backend, "backend", "sglang", "`name` of the wire dialect: "+strings.Join(backend.Names(), ", "))
	f.StringVar(&o.baseURL, "base-url", "", "server `URL`, with a prefix if it has one")
	f.StringVar(&o.host, "host", "127.0.0.1", "server `host`, when there is no --base-url")
	f.IntVar(&o.port, "port", 0, "server port, when there is no --base-url (default: the backend's)")
	f.StringVar(&o.metricsURL, "metrics-url", "", "`URL` of the server's metrics page, where that is not on the server's own port; or :port[/path] on its host, as in :8002 for Triton")
	f.BoolVar(&o.metricsKey, "metrics-credentials", false, "send key and headers to --metrics-url although it is another host or port than the server")
	f.StringVar(&o.model, "model", "", "`name` of the model (default: the first of /v1/models)")
	f.StringVar(&o.apiKeyFile, "api-key-file", "", "`file` with the bearer key (default: environment OPENAI_API_KEY)")
	f.StringArrayVar(&o.headers, "header", nil, "extra request header `K=V`; repeatable")
	f.StringVar(&o.connection, "connection", "reuse", "connection `policy`: reuse, or new for each request as bench_serving does")
}

func (o *runFlags) defineWorkload(f *pflag.FlagSet) {
	f.StringVar(&o.dataset, "dataset-name", workload.Random, "`name` of the dataset: "+strings.Join(workload.Datasets, ", "))
	f.StringVar(&o.path, "dataset-path", "", "`file` of a dataset that reads one; for mooncake also the folder of its traces")
	f.IntVar(&o.inputLen, "random-input-len", 1024, "random, random-ids, text, image: input tokens")
	f.IntVar(&o.outputLen, "random-output-len", 1024, "random, random-ids, text, image, mmmu: output tokens; custom, trace, mooncake: where a row has none")
	f.Float64Var(&o.rangeRatio, "random-range-ratio", 0, "random, random-ids, text, image: lengths are uniform between this `share` of the full length and the full length, as sglang means it; 1 is constant")
	f.IntVar(&o.vocabSize, "vocab-size", 0, "random-ids: token ids are below this (default 32000)")
	f.IntVar(&o.shareGPTOutput, "sharegpt-output-len", 0, "sharegpt and files of rows: fixed output length instead of the dataset's")
	f.IntVar(&o.shareGPTContext, "sharegpt-context-len", 0, "sharegpt and files of rows: drop requests of more tokens than this, prompt and answer together")
	f.StringVar(&o.url, "dataset-url", "", "`URL` to fetch the dataset's file from when it is not there yet; needs --dataset-sha256")
	f.StringVar(&o.sha256, "dataset-sha256", "", "`digits` of the SHA-256 that the file of --dataset-url must have")
	f.BoolVar(&o.skipBadRows, "skip-bad-rows", false, "sharegpt and files of rows: leave out rows that cannot be used and count them, instead of failing")
	f.StringVar(&o.tokenizer, "tokenizer", workload.TokenizerServer, "`name` of the tokenizer: server (the target's own /tokenize), approx, tiktoken:NAME, or the path of a tokenizer.json or its folder")
	f.BoolVar(&o.applyTemplate, "apply-chat-template", false, "send prompts as the chat template beside the tokenizer's file renders them; for backends that take no messages")
	f.BoolVar(&o.tokenizePrompt, "tokenize-prompt", false, "send token ids instead of text")
	f.BoolVar(&o.fixedPrompts, "fixed-prompts", false, "send the same prompts every run; a prefix cache will then be warm")
	f.Int64Var(&o.seed, "seed", 1, "seed of lengths, texts and arrivals")
}

func (o *runFlags) defineShapes(f *pflag.FlagSet) {
	f.IntVar(&o.groups.Count, "gsp-num-groups", 64, "generated-shared-prefix: groups")
	f.IntVar(&o.groups.PromptsOfEach, "gsp-prompts-per-group", 16, "generated-shared-prefix: prompts of each group")
	f.IntVar(&o.groups.SystemTokens, "gsp-system-prompt-len", 2048, "generated-shared-prefix: tokens of a group's system prompt")
	f.IntVar(&o.groups.QuestionTokens, "gsp-question-len", 128, "generated-shared-prefix: tokens of a prompt's own question")
	f.IntVar(&o.groups.OutputTokens, "gsp-output-len", 256, "generated-shared-prefix: output tokens")
	f.Float64Var(&o.groups.RangeRatio, "gsp-range-ratio", 1, "generated-shared-prefix: lengths are uniform between this `share` of the full length and the full length")
	f.Float64Var(&o.groups.ZipfAlpha, "gsp-zipf-alpha", 0, "generated-shared-prefix: popularity of group k is proportional to 1/(k+1)^`alpha`; 0 is equal")
	f.StringVar(&o.groupChoice, "gsp-group-distribution", "", "generated-shared-prefix: `way` to draw groups: uniform, or zipf with --gsp-zipf-alpha, 1 when that is not given")
	f.BoolVar(&o.groups.Ordered, "gsp-ordered", false, "generated-shared-prefix: send the prompts of a group one after the other, not shuffled")
	f.IntVar(&o.images.Count, "image-count", 1, "image: images of each request")
	f.BoolVar(&o.images.RandomCount, "random-image-count", false, "image: draw the number of images of each request from 1 to --image-count")
	f.StringVar(&o.images.Resolution, "image-resolution", "1080p", "image: `size`, one of 4k, 1080p, 720p, 360p, height x width as in 512x768, or drawn for each image as in random:256x256-1024x768")
	f.StringVar(&o.images.Format, "image-format", workload.FormatJPEG, "image: `encoding`, jpeg or png")
	f.StringVar(&o.images.Content, "image-content", workload.ContentRandom, "image: `content`, random or blank")
	f.Float64Var(&o.trace.Slowdown, "mooncake-slowdown-factor", 1, "trace, mooncake, burstgpt, azure: `factor` that stretches the times")
	f.IntVar(&o.trace.Rounds, "mooncake-num-rounds", 1, "mooncake: turns of the session that each row becomes; at the times of the trace, with a chat backend, each carries the real answers to those before it")
	f.StringVar(&o.trace.Name, "mooncake-workload", "conversation", "mooncake: `name` of the trace to read when --dataset-path is a folder: "+strings.Join(workload.MooncakeTraces, ", "))
	f.IntVar(&o.trace.BlockTokens, "block-tokens", workload.DefaultBlockTokens, "mooncake, trace: tokens that one hash id stands for")
	f.StringVar(&o.trace.TimeUnit, "time-unit", "", "trace: `unit` of numbers as timestamps: "+strings.Join(workload.TimeUnits, ", ")+"; times as ISO 8601 text need none")
}

func (o *runFlags) defineLoad(f *pflag.FlagSet) {
	f.IntVar(&o.numPrompts, "num-prompts", 1000, "requests to measure; 0 is until --duration")
	f.DurationVar(&o.duration, "duration", 0, "stop sending and cut what is in flight after this long")
	f.StringVar(&o.requestRate, "request-rate", "inf", "`number` of requests per second (Poisson), or inf for all at once")
	f.BoolVar(&o.traceTimes, "use-trace-timestamps", false, "trace, mooncake, burstgpt, azure: send at the times of the trace instead of a rate")
	f.Float64Var(&o.burstiness, "burstiness", 1, "gamma `shape` of the gaps: 1 is Poisson, below it burstier, inf constant")
	f.DurationVar(&o.ramp, "ramp", 0, "let the rate rise from 0 in a straight line for this long")
	f.IntVar(&o.maxConcurrency, "max-concurrency", 0, "most requests in flight; 0 is no bound")
	f.BoolVar(&o.startTogether, "start-together", false, "with --max-concurrency alone: start all workers at once, not one each millisecond")
	f.IntVar(&o.warmup, "warmup-requests", 1, "requests before the measurement, with prompts of their own")
	if o.gate != nil {
		f.IntVar(&o.pairs, "pairs", defaultGatePairs, "run each side at most so many times; after 5, 7 and the last one it is asked whether they decide")
	} else if o.kind == probes.Paired {
		f.IntVar(&o.pairs, "pairs", defaultPairs, "run each side so many times")
	} else {
		o.defineProfile(f)
		f.IntVar(&o.repeats, "repeats", 1, "run so many times, one after the other, and report the median of each number with its spread")
		o.offlineFlag(f)
	}
	f.BoolVar(&o.flushCache, "flush-cache", false, "empty the server's prefix cache before the run")
}

// offlineFlag names what a throughput is held against.
func (o *runFlags) offlineFlag(f *pflag.FlagSet) {
	f.StringVar(&o.offlineResult, "offline-result", "", "result `file` of bench_offline_throughput, vllm bench throughput or a peak, whose last throughput is compared with")
}

func (o *runFlags) definePeak(f *pflag.FlagSet) {
	f.IntVar(&o.maxConcurrency, "max-concurrency", 256, "most workers that doubling may come to")
	f.IntVar(&o.startConcurrency, "start-concurrency", 1, "workers of the first step; --max-concurrency for a single step")
	f.IntVar(&o.numPrompts, "num-prompts", 64, "requests of each step, and at least 4 for each worker; 0 is until --duration")
	f.DurationVar(&o.duration, "duration", 0, "end each step and cut what is in flight after this long")
	f.IntVar(&o.warmup, "warmup-requests", 1, "requests before each step, with prompts of their own")
	o.offlineFlag(f)
	f.BoolVar(&o.flushCache, "flush-cache", false, "empty the server's prefix cache before each step")
}

func (o *runFlags) defineBatch(f *pflag.FlagSet) {
	f.IntSliceVar(&o.batchSizes, "batch-size", []int{1}, "requests that are sent at once; several `sizes`, as in --batch-size 1 4 16 or 1,4,16, are run one after the other")
	f.IntVar(&o.warmup, "warmup-requests", -1, "requests at once before each batch, with prompts of their own (default: as many as the batch)")
	f.BoolVar(&o.flushCache, "flush-cache", false, "empty the server's prefix cache before each batch")
	o.defineProfile(f)
}

func (o *runFlags) defineProfile(f *pflag.FlagSet) {
	f.BoolVar(&o.profiled, "profile", false, "run the server's own profiler during the measurement (sglang, vllm); the run is then suspect, and no baseline")
	f.StringSliceVar(&o.profile.Activities, "profile-activities", nil, "sglang: `what` to record, such as CPU,GPU (default: the server's)")
	f.IntVar(&o.profile.StartStep, "profile-start-step", 0, "sglang: forward steps before recording begins")
	f.IntVar(&o.profile.Steps, "profile-num-steps", 0, "sglang: forward steps after which it ends by itself (default: the end of the run)")
	f.BoolVar(&o.profile.ByStage, "profile-by-stage", false, "sglang: record prefill and decode apart")
	f.StringSliceVar(&o.profile.Stages, "profile-stages", nil, "sglang: record these `stages` alone, such as prefill")
	f.StringVar(&o.profile.OutputDir, "profile-output-dir", "", "sglang: `folder` on the server for its traces (default: the server's)")
	f.StringVar(&o.profile.Prefix, "profile-prefix", "", "sglang: `text` before the names of its files")
}

func (o *runFlags) defineSampling(f *pflag.FlagSet) {
	f.Float64Var(&o.temperature, "temperature", 0, "sampling temperature")
	f.BoolVar(&o.disableStream, "disable-stream", false, "ask for one whole answer; there is then no TTFT, TPOT or ITL")
	f.BoolVar(&o.disableIgnoreEOS, "disable-ignore-eos", false, "let answers end early")
	f.StringVar(&o.extraBody, "extra-request-body", "", "`JSON` object merged over each request body")
	f.StringArrayVar(&o.adapters.Names, "lora-name", nil, "`name` of the LoRA adapter to ask for; of several, as in --lora-name a b c, each request gets one")
	f.StringVar((*string)(&o.adapters.Choice), "lora-request-distribution", string(probes.AdaptersUniform), "`way` to spread requests over several adapters: uniform, distinct (in turns), or skewed (each less likely than the one before it)")
	f.Float64Var(&o.adapters.Alpha, "lora-zipf-alpha", workload.DefaultAdapterAlpha, "skewed: `factor` by which each adapter is less likely than the one before it, above 1")
}
