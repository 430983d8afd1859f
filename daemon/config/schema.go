package config

import (
	"reflect"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// The types below are the configuration file. Their tags are all that the reader
// and REFERENCE.md know:
//
//	yaml     the key
//	doc      what it means
//	default  the value of a key that is not written
//	enum     the name of a closed list in enums
//	min      smallest number; ">0" excludes zero; "any" allows negative ones
//	as       what a string or number stands for: path, url, ratio, rate, size
//	scalar   the key that a bare value stands for in place of a mapping
//	single   whether a list of one item may be written without brackets
//	verbatim whether ${NAME} is not replaced inside of a rawYAML

// document is a whole file.
type document struct {
	Web               Web                    `yaml:"web" doc:"The page, the API and /metrics."`
	Log               Log                    `yaml:"log" doc:"The daemon's own log."`
	Metrics           Metrics                `yaml:"metrics" doc:"What is exported to Prometheus."`
	Results           Results                `yaml:"results" doc:"The results file."`
	Storage           Storage                `yaml:"storage" doc:"The store: runs, their requests and everything that a restart must not forget, in one SQLite file."`
	ShutdownGrace     time.Duration          `yaml:"shutdown_grace" default:"30s" doc:"How long the end may take after SIGTERM: running probes are cut at once and recorded as aborted, then what is queued for the exporters and the store is written."`
	Pause             bool                   `yaml:"pause" default:"false" doc:"Start no run at all."`
	MaxConcurrentRuns int                    `yaml:"max_concurrent_runs" default:"500" min:"1" doc:"Runs that go on at once, of all targets together. More that are due wait in the order in which they were due (inferbeat_scheduler_queue_jobs), and are skipped when they are due again (prober_busy)."`
	Environments      map[string]Environment `yaml:"environments" doc:"Safety limits by environment. production, staging and development exist always; any other name needs a class. A limit that is not written is the one of the class. Limits hold for each target of the environment."`
	Workloads         map[string]workload    `yaml:"workloads" doc:"What is asked, by name."`
	Probes            map[string]probe       `yaml:"probes" doc:"When and how it is asked, and what is promised, by name."`
	Embedded          Embedded               `yaml:"embedded" doc:"The Prometheus inside the daemon."`
	Regression        fleet                  `yaml:"regression" doc:"Judgement over nights, of all probes together."`
	Targets           named[target]          `yaml:"targets" doc:"The replicas that are probed: a list, merged by name."`
	Comparisons       named[comparison]      `yaml:"comparisons" doc:"Pairs of targets that are laid side by side: a list, merged by name. Both get the same prompts at the same times, in turns (A B, B A, ...), and no other probe while that lasts, unless it has allow_parallel."`
}

// named is a list in the file whose entries have a name, by which they merge.
type named[T any] map[string]T

func (named[T]) isNamed() {}

var (
	namedType    = reflect.TypeFor[interface{ isNamed() }]()
	secretType   = reflect.TypeFor[probes.Secret]()
	durationType = reflect.TypeFor[time.Duration]()
)

// Web is how the daemon is reached.
type Web struct {
	ListenAddress   string `yaml:"listen_address" default:"127.0.0.1:9799" doc:"host:port to listen on; an IPv6 host in brackets."`
	ConfigFile      string `yaml:"config_file" as:"path" doc:"TLS and authentication, in the format of the Prometheus exporter toolkit."`
	EnableLifecycle bool   `yaml:"enable_lifecycle" default:"false" doc:"Allow POST /-/reload, /-/pause and /-/resume. SIGHUP reloads always."`
	EnableProbe     bool   `yaml:"enable_probe" default:"false" doc:"Answer GET /probe?target=T&probe=P, for targets and probes of this file: run the probe on the target now, within all its limits, and answer with the metrics of that run. Whoever may read the page may then cause that load."`
	ExternalURL     string `yaml:"external_url" as:"url" doc:"Where users reach the page, when that is not the listen address."`
}

// Log is the daemon's own log.
type Log struct {
	Level  string `yaml:"level" enum:"level" default:"info" doc:"Least severe message that is written."`
	Format string `yaml:"format" enum:"format" default:"logfmt" doc:"Form of a line."`
}

// Metrics is what is exported to Prometheus.
type Metrics struct {
	Histograms string `yaml:"histograms" enum:"histograms" default:"auto" doc:"auto exports classic and native histograms up to 200 pairs, and native ones alone beyond."`
	MaxSeries  int    `yaml:"max_series" default:"200k" min:"1" doc:"Most series that may be exported."`
	// ServerInterval is the one thing here that asks something of the targets.
	ServerInterval time.Duration `yaml:"server_interval" default:"15s" doc:"How often the metrics page of each target is read, runs or no runs, to count the requests of all its clients (inferbeat_server_requests_per_second). 0 never. A target without such a page is asked ever less often, down to once in 5 minutes; none is while probing is paused."`
}

// Results is the file that every finished run is appended to.
type Results struct {
	Path    string `yaml:"path" as:"path" doc:"JSONL file; without it none is written."`
	Details bool   `yaml:"details" default:"false" doc:"Add the arrays of single requests to each line."`
}

// Storage is where and for how long the daemon remembers.
type Storage struct {
	Path             string        `yaml:"path" as:"path" doc:"Folder of the store, which is made when it is not there. Without it everything is forgotten at a restart, and there is no history, no regression detection and no export."`
	Retention        time.Duration `yaml:"retention" default:"400d" doc:"How long results are kept; 0 for ever. Acknowledgements are kept for ever."`
	SamplesRetention time.Duration `yaml:"samples_retention" default:"90d" doc:"How long the times of single requests are kept; 0 as long as their run. About 0.7 MB for 1,000 requests of 200 chunks."`
	CanaryRetention  time.Duration `yaml:"canary_retention" default:"7d" doc:"How long the runs of a canary are kept, about 1 kB each; 0 is as long as other results. Its error budgets are kept for as long as their windows."`
	MaxSize          int           `yaml:"max_size" as:"size" default:"4GB" doc:"Most that the store's files may take; beyond it the oldest requests go first and then the oldest runs. 0 is no bound."`
}

// Environment is a class of targets and the limits that no probe may exceed on
// one of them. Zero is no limit.
type Environment struct {
	Class           probes.Environment `yaml:"class" enum:"environment" doc:"What it is; required for names of your own."`
	Kinds           []string           `yaml:"kinds" enum:"kind" doc:"Probe kinds that may run. production: canary; others: all."`
	MaxInFlight     int                `yaml:"max_in_flight" min:"1" doc:"Requests in flight. production: 1; staging: 512; development: no limit."`
	MaxRate         float64            `yaml:"max_rate" as:"rate" min:">0" doc:"Requests per second; inf is no limit. production: 1; others: no limit."`
	MaxInputTokens  int                `yaml:"max_input_tokens" min:"1" doc:"Length of a prompt. production: 8k; others: no limit."`
	MaxOutputTokens int                `yaml:"max_output_tokens" min:"1" doc:"Length of an answer. production: 256; others: no limit."`
	TokensPerDay    int                `yaml:"tokens_per_day" min:"1" doc:"Prompt and answer tokens of all runs on a target in a day of UTC. What the schedules plan is checked when the configuration is loaded. A run that might use more than is left of the day is skipped (load_budget); what runs have really used counts, in store or memory. production: 5M; others: no limit."`
	StopWhen        StopWhen           `yaml:"stop_when" doc:"When a run is stopped for the target's sake: the rest of it is not sent, what is in flight is cancelled, and its result is aborted. With any of these limits, an error answer with Retry-After stops a run too. production: both; others: none. Canaries run to their end: they are small, and there to see an outage. In every environment an error answer with Retry-After holds the next runs of its target back for as long as it says (they are skipped: retry_after), at most 1h, and those of canaries at most 5m."`
	Allow           []string           `yaml:"allow" enum:"allow" doc:"Calls that change the server's state. production and staging: none; development: all."`
}

// StopWhen is when a run is stopped.
type StopWhen struct {
	QueueAbove      float64 `yaml:"queue_above" min:">0" doc:"Requests that wait in the server, by its metrics page: at the start of a run that is no canary, or in two readings in a row while it goes on. production: 10."`
	ErrorRatioAbove float64 `yaml:"error_ratio_above" as:"ratio" min:">0" doc:"Share of the run's last 20 requests that failed, from 10 on. production: 20%."`
}

type workload struct {
	Dataset           string         `yaml:"dataset" enum:"dataset" default:"random" doc:"random is random text, random-ids random token ids, sharegpt a file of conversations, generated-shared-prefix groups of prompts with a system prompt in common, image random text with images, mmmu questions with an image out of a local parquet file, custom a JSONL file of prompts or conversations, text pieces of a text file, trace a JSONL file of requests with their times, mooncake a trace of lengths and hash ids, burstgpt and azure their CSV files of times and lengths."`
	Path              string         `yaml:"path" as:"path" doc:"File of the dataset; a folder of mooncake traces."`
	URL               string         `yaml:"url" doc:"Where the file is fetched from when it is not there yet; needs sha256. Nothing is fetched otherwise."`
	SHA256            string         `yaml:"sha256" doc:"What the file of the url must hash to, in hexadecimal digits."`
	SkipBadRows       bool           `yaml:"skip_bad_rows" doc:"Leave out rows of the file that cannot be used and count them, instead of ending with an error (sharegpt, custom, trace, mooncake, burstgpt, azure)."`
	InputTokens       int            `yaml:"input_tokens" default:"512" min:"1" doc:"Prompt length (random, random-ids, text), length of the text (image)."`
	OutputTokens      int            `yaml:"output_tokens" default:"128" min:"1" doc:"Answer length (random, random-ids, text, image, mmmu), or where a row has none (custom, trace, mooncake)."`
	RangeRatio        float64        `yaml:"range_ratio" default:"1" doc:"Lengths are uniform between this share of the full length and the full length, as in sglang; 1 makes all equal."`
	FixedOutputTokens int            `yaml:"fixed_output_tokens" min:"1" doc:"Answer length in place of the dataset's (sharegpt, custom, trace, mooncake, burstgpt, azure)."`
	ContextTokens     int            `yaml:"context_tokens" min:"1" doc:"Leave out requests of more tokens than this, prompt and answer together (sharegpt, custom, trace, mooncake, burstgpt, azure)."`
	GSPGroups         int            `yaml:"gsp_num_groups" min:"1" doc:"Groups of generated-shared-prefix. 64."`
	GSPPrompts        int            `yaml:"gsp_prompts_per_group" min:"1" doc:"Prompts of each group. 16."`
	GSPSystem         int            `yaml:"gsp_system_prompt_len" min:"1" doc:"Tokens of a group's system prompt. 2048."`
	GSPQuestion       int            `yaml:"gsp_question_len" min:"1" doc:"Tokens of a prompt's own question. 128."`
	GSPOutput         int            `yaml:"gsp_output_len" min:"1" doc:"Answer length. 256."`
	GSPRangeRatio     float64        `yaml:"gsp_range_ratio" doc:"As range_ratio, for the three lengths. 1."`
	GSPZipf           float64        `yaml:"gsp_zipf_alpha" doc:"Popularity of group k is proportional to 1/(k+1)^alpha; 0, the default, makes all equal."`
	GSPOrdered        bool           `yaml:"gsp_ordered" doc:"Send the prompts of a group one after the other, not shuffled."`
	ImageCount        int            `yaml:"image_count" min:"1" doc:"Images of each request (image). 1."`
	RandomImageCount  bool           `yaml:"random_image_count" doc:"Draw the number of images of each request from 1 to image_count (image)."`
	ImageResolution   string         `yaml:"image_resolution" doc:"4k, 1080p, 720p, 360p, height x width as in 512x768, or drawn for each image as in random:256x256-1024x768 (image). 1080p."`
	ImageFormat       string         `yaml:"image_format" enum:"image_format" doc:"Encoding (image). jpeg."`
	ImageContent      string         `yaml:"image_content" enum:"image_content" doc:"Noise or white (image). random."`
	TimeUnit          string         `yaml:"time_unit" enum:"time_unit" doc:"What a number stands for as a timestamp (trace); times as ISO 8601 text need none."`
	Slowdown          float64        `yaml:"mooncake_slowdown_factor" min:">0" doc:"Stretches the times of trace, mooncake, burstgpt and azure. 1."`
	Rounds            int            `yaml:"mooncake_num_rounds" min:"1" doc:"Turns of the session that each row becomes (mooncake). In a replay with a chat backend a later turn is sent behind the answers that the server really gave. 1."`
	MooncakeTrace     string         `yaml:"mooncake_workload" enum:"mooncake_workload" doc:"Which trace to read when path is a folder (mooncake): its file is NAME_trace.jsonl. conversation."`
	BlockTokens       int            `yaml:"block_tokens" min:"16" doc:"Tokens that one hash id stands for (mooncake, trace). 512."`
	Tokenizer         string         `yaml:"tokenizer" as:"tokenizer" default:"server" doc:"server asks the target to count; approx estimates, and marks its results; tiktoken:NAME and the path of a tokenizer.json (or its folder) count here, answers as well."`
	ApplyChatTemplate bool           `yaml:"apply_chat_template" default:"false" doc:"Send prompts as the chat template beside the tokenizer's file renders them; for backends that do not take messages."`
	VocabSize         int            `yaml:"vocab_size" min:"1" doc:"Token ids are below it (random-ids)."`
	TokenIDs          bool           `yaml:"token_ids" default:"false" doc:"Send prompts as token ids; only some backends take them."`
	Cache             string         `yaml:"cache" enum:"cache" default:"cold" doc:"What is expected of the prefix cache: cold salts every prompt, warm repeats the same prompts on purpose, shared shares prefixes on purpose. shared for generated-shared-prefix, mooncake and trace."`
	Seed              int64          `yaml:"seed" default:"1" min:"any" doc:"Fixes lengths, texts and arrival gaps."`
	Temperature       float64        `yaml:"temperature" default:"0" doc:"Sampling temperature."`
	TopP              float64        `yaml:"top_p" min:">0" doc:"Nucleus sampling, at most 1; not sent when not written."`
	IgnoreEOS         bool           `yaml:"ignore_eos" default:"true" doc:"Force the full answer length, where the backend can."`
	Stream            bool           `yaml:"stream" default:"true" doc:"Ask for a stream; without it there is no TTFT, TPOT or ITL."`
	ExtraBody         map[string]any `yaml:"extra_body" doc:"Merged over the request body. It is part of the results: it must hold no secret, and ${NAME} is not replaced in it."`
	LoRA              []string       `yaml:"lora" single:"true" doc:"LoRA adapter to ask for, or a list of those that requests choose among. Which one a request gets depends on seed and the request's number alone; the turns of a conversation keep theirs, and warm-up requests take all in turn."`
	LoRADistribution  string         `yaml:"lora_request_distribution" enum:"adapter_choice" default:"uniform" doc:"How requests are spread over several adapters: uniform, each as likely as another; distinct, in turns; skewed, each less likely than the one before it."`
	LoRAAlpha         float64        `yaml:"lora_zipf_alpha" min:">0" doc:"By which factor less likely each adapter of a skewed distribution is than the one before it; above 1. 1.5."`
}

type probe struct {
	Kind             string        `yaml:"kind" enum:"kind" doc:"Required. canary: a few requests often, judged over a window. load: a benchmark, judged by itself. replay: a trace at its own times. peak: the throughput ceiling, by doubling the workers of a closed loop. batch: one batch of equal requests at once. sweep: rising rates, to find the one that the target can take."`
	Every            time.Duration `yaml:"every" min:">0" doc:"Time between two starts. Without every and schedule the probe runs only when asked."`
	Schedule         string        `yaml:"schedule" doc:"Cron expression of five fields, in place of every."`
	Timezone         string        `yaml:"timezone" doc:"IANA name of the schedule's time zone; UTC when not written."`
	AllowParallel    bool          `yaml:"allow_parallel" default:"false" doc:"Start although another probe is running on the target."`
	Workload         string        `yaml:"workload" doc:"Required: name of a workload."`
	NumPrompts       int           `yaml:"num_prompts" min:"1" doc:"Measured requests of a run. canary: 1, and with 2 or more, one after the other, the first and the second have series of their own (ttft_first, ttft_second); load needs it, or a duration; replay: all that the trace has; peak: of each step, at least 4 for each worker, 64 when neither is written. sweep: of each step; what 60 residence times, the objectives and 1m need when neither is written."`
	Repeats          int           `yaml:"repeats" min:"1" doc:"Run a load so many times, one after the other; its result is the median of them, number by number (load)."`
	BatchSize        int           `yaml:"batch_size" min:"1" doc:"Requests of the batch (batch needs it)."`
	StartConcurrency int           `yaml:"start_concurrency" min:"1" doc:"Workers of a peak's first step; 1 when not written, and max_concurrency for a single step (peak)."`
	OfflineResult    string        `yaml:"offline_result" as:"path" doc:"Result file whose last throughput is that of the engine without a server (bench_offline_throughput, vllm bench throughput) or a peak of inferbeat, to compare with (load, peak)."`
	Duration         time.Duration `yaml:"duration" min:">0" doc:"Stop sending and cut what is in flight after this time. sweep: how long each step sends; its requests are awaited."`
	RequestRate      float64       `yaml:"request_rate" as:"rate" min:">0" doc:"Requests per second, or inf for all at once."`
	Arrivals         string        `yaml:"arrivals" enum:"arrivals" doc:"How due times follow each other. poisson with a finite request_rate, burst with inf, gamma with burstiness or cv, closed with max_concurrency alone; a canary with none of these sends one after the other. trace takes the times of the dataset, and is what replay does."`
	Burstiness       float64       `yaml:"burstiness" min:">0" doc:"Shape of gamma arrivals, as in vLLM: 1 is Poisson, smaller is burstier."`
	CV               float64       `yaml:"cv" min:">0" doc:"Coefficient of variation of gamma arrivals, in place of burstiness: 1/sqrt(burstiness)."`
	MaxConcurrency   int           `yaml:"max_concurrency" min:"1" doc:"Most requests in flight; workers of a closed loop; the most that a peak, which needs it, may double up to. No bound when not written."`
	StartTogether    bool          `yaml:"start_together" doc:"Start all workers of a closed loop at once. When not written, each starts 1 ms after the one before, or sooner, so that all have started within a second."`
	Ramp             time.Duration `yaml:"ramp" min:">0" doc:"Time in which request_rate rises from 0 in a straight line. What is sent in it counts as everything does; the steady-state figures leave it out."`
	Rates            []float64     `yaml:"rates" as:"rate" min:">0" doc:"Rates of a sweep, rising, at most 16. Without them it searches: doubling, then halving the bracket, beginning at its last result."`
	StartRate        float64       `yaml:"start_rate" min:">0" doc:"First rate of a search; the one at which one request follows the other when not written."`
	MaxRate          float64       `yaml:"max_rate" min:">0" doc:"Highest rate of a search; max_rate of the environment holds besides."`
	MaxSteps         int           `yaml:"max_steps" min:"1" doc:"Most steps of a search, at most 16."`
	SLO              sweepSLO      `yaml:"slo" doc:"Objectives of a sweep in short: a bound that a percentile may not exceed, so that failed requests and those above it are at most 1, 5 or 10 %. slos can stand in its place."`
	Warmup           warmup        `yaml:"warmup" scalar:"duration" doc:"Load before the measurement, counted apart: a duration, or a mapping. load, peak: 1 request; batch: as many as the batch; canary: none; sweep: before each step, 3 times the 95th percentile of the residence time."`
	Timeouts         timeouts      `yaml:"timeouts" doc:"Bounds of one request; 0 is no bound. A target's own win over a probe's. canary: connect 5s, first_token 30s, idle 1m, total 2m; load: connect 10s, first_token 5m, idle 6m, total 30m."`
	SLOs             named[slo]    `yaml:"slos" doc:"Promises about single requests: a list, merged by name, of at most 8."`
	Limits           limits        `yaml:"limits" enum:"signal" doc:"Promises about statistics of a result, by signal."`
	QueueLimits      queueLimits   `yaml:"queue_limits" scalar:"warning" doc:"Requests that may wait in the server, on average while the probe runs, before there is an alert. 10 for info and 50 for a warning when not written."`
	FailureThreshold int           `yaml:"failure_threshold" min:"1" doc:"Failed runs in a row that count as down. canary: 3; others: 2."`
	Window           window        `yaml:"window" doc:"What a canary's result is computed from."`
	Regression       regression    `yaml:"regression" doc:"Judge each run against those of earlier nights: {} judges all that the probe measures. Not for a canary, whose results are windows."`
	StaleAfter       time.Duration `yaml:"stale_after" min:">0" doc:"Age at which a result no longer stands. 3 intervals and a time-out, at least 15m for a canary and 1h for others; the interval of a schedule is its longest gap by day."`
	FlushCache       bool          `yaml:"flush_cache" default:"false" doc:"Empty the server's prefix cache before each run; the environment must allow flush_cache."`
	Profile          profile       `yaml:"profile" scalar:"enabled" doc:"Run the server's own profiler during the measurement: true, or a mapping; the environment must allow profile (load, replay, batch; sglang, vllm). Such runs are suspect and no baseline of others."`
	Expect           expect        `yaml:"expect" doc:"A question with a known answer that is asked after each run, greedily: a wrong answer fails the run (canary)."`
	KeepText         bool          `yaml:"keep_text" default:"false" doc:"Keep the generated text in the results."`
}

// fleet is what holds for the judgement of all probes together.
type fleet struct {
	FalseAlarms float64 `yaml:"false_alarms_per_year" min:">0" doc:"How many false alarms a year all series of this file may raise together; the more series there are, the more it then takes to believe in a change. Probes that write a sensitivity keep it. When not written each series has the normal one, about one false alarm in seven years."`
}

// regression is how a probe's nights are judged.
type regression struct {
	Sensitivity string     `yaml:"sensitivity" enum:"sensitivity" doc:"How much it takes to believe in a change. normal when not written; high finds more, and raises four times as many false alarms; low a third."`
	Metrics     []string   `yaml:"metrics" enum:"metric" doc:"What is judged; all that the probe measures when not written."`
	MinEffects  minEffects `yaml:"min_effects" doc:"Smallest change that is worth telling."`
	AutoAccept  int        `yaml:"auto_accept_nights" min:"1" doc:"After so many nights an open regression is the new normal. When not written, only inferbeat ack says so."`
	Confirm     bool       `yaml:"confirm" doc:"Run a load, replay or batch that is odd twice more at once, and take the median (true when not written, unless there are repeats)."`
}

// minEffects are shares, by metric.
type minEffects struct {
	TTFTp50           float64 `yaml:"ttft_p50" as:"ratio" min:">0" doc:"5% when not written."`
	TTFTp99           float64 `yaml:"ttft_p99" as:"ratio" min:">0" doc:"15% when not written."`
	TPOTp50           float64 `yaml:"tpot_p50" as:"ratio" min:">0" doc:"3% when not written."`
	TPOTp99           float64 `yaml:"tpot_p99" as:"ratio" min:">0" doc:"15% when not written."`
	E2Ep50            float64 `yaml:"e2e_p50" as:"ratio" min:">0" doc:"5% when not written."`
	OutputThroughput  float64 `yaml:"output_throughput" as:"ratio" min:">0" doc:"3% when not written."`
	RequestThroughput float64 `yaml:"request_throughput" as:"ratio" min:">0" doc:"3% when not written."`
	Capacity          float64 `yaml:"capacity" as:"ratio" min:">0" doc:"5% when not written."`
	AcceptLength      float64 `yaml:"spec_accept_length" as:"ratio" min:">0" doc:"2% when not written."`
	PrefixCacheHits   float64 `yaml:"prefix_cache_hit_ratio" as:"ratio" min:">0" doc:"5% when not written."`
}

type expect struct {
	Prompt    probes.Secret `yaml:"prompt" doc:"Required: the question, as text; it is treated as a secret, like the answer."`
	Equals    probes.Secret `yaml:"equals" doc:"The whole answer, white space around it apart; one of equals, contains and sha256 is required."`
	Contains  probes.Secret `yaml:"contains" doc:"A part of the answer."`
	SHA256    string        `yaml:"sha256" doc:"Hex digest of the whole answer, white space around it apart."`
	MaxTokens int           `yaml:"max_tokens" min:"1" doc:"Bound of the answer; 32 when not written."`
}

type profile struct {
	Enabled    bool     `yaml:"enabled" doc:"Whether to profile; true when another key is written."`
	Activities []string `yaml:"activities" doc:"What to record, as the server names it, e.g. [CPU, GPU]."`
	StartStep  int      `yaml:"start_step" min:"1" doc:"Forward steps before it begins."`
	NumSteps   int      `yaml:"num_steps" min:"1" doc:"Forward steps after which it ends by itself."`
	ByStage    bool     `yaml:"by_stage" doc:"Record prefill and decode apart."`
	Stages     []string `yaml:"stages" doc:"Record these stages alone, e.g. [prefill]."`
	OutputDir  string   `yaml:"output_dir" doc:"Where the server writes its traces; a path on the server."`
	Prefix     string   `yaml:"prefix" doc:"Of the names of its files."`
}

type warmup struct {
	Requests int           `yaml:"requests" doc:"How many requests."`
	Duration time.Duration `yaml:"duration" doc:"How long."`
}

type timeouts struct {
	Connect    time.Duration `yaml:"connect" doc:"DNS, TCP and TLS together."`
	FirstToken time.Duration `yaml:"first_token" doc:"From sent to the first token; heartbeats do not count."`
	Idle       time.Duration `yaml:"idle" doc:"Longest silence once the request is sent, the wait for the first byte included; any byte counts as life."`
	Total      time.Duration `yaml:"total" doc:"From sent to the end of the answer."`
}

type slo struct {
	Name      string        `yaml:"name" doc:"Required."`
	Objective float64       `yaml:"objective" as:"ratio" min:">0" doc:"Required: share of requests that must be good, e.g. 99%. Good is successful and below every bound."`
	Window    time.Duration `yaml:"window" default:"30d" min:">0" doc:"Over which the share is taken."`
	TTFT      time.Duration `yaml:"ttft" min:">0" doc:"Bound of the time to the first token."`
	TPOT      time.Duration `yaml:"tpot" min:">0" doc:"Bound of the time per output token."`
	E2E       time.Duration `yaml:"e2e" min:">0" doc:"Bound of the time to the last token."`
}

type sweepSLO struct {
	TTFT sloTails `yaml:"ttft" scalar:"p99" doc:"Time to the first token."`
	TPOT sloTails `yaml:"tpot" scalar:"p99" doc:"Time per output token."`
	E2E  sloTails `yaml:"e2e" scalar:"p99" doc:"Time to the last token."`
}

// sloTails are the bounds of one signal; a bare value is the p99.
type sloTails struct {
	P90 time.Duration `yaml:"p90" min:">0" doc:"90th percentile."`
	P95 time.Duration `yaml:"p95" min:">0" doc:"95th percentile."`
	P99 time.Duration `yaml:"p99" min:">0" doc:"99th percentile, what a bare value means."`
}

type limits map[string]signalLimits

type signalLimits struct {
	Mean      severities[time.Duration] `yaml:"mean" scalar:"warning" doc:"Mean."`
	P50       severities[time.Duration] `yaml:"p50" scalar:"warning" doc:"Median."`
	P90       severities[time.Duration] `yaml:"p90" scalar:"warning" doc:"90th percentile."`
	P95       severities[time.Duration] `yaml:"p95" scalar:"warning" doc:"95th percentile."`
	P99       severities[time.Duration] `yaml:"p99" scalar:"warning" doc:"99th percentile."`
	Max       severities[time.Duration] `yaml:"max" scalar:"warning" doc:"Largest."`
	Stddev    severities[time.Duration] `yaml:"stddev" scalar:"warning" doc:"Standard deviation."`
	TailRatio severities[float64]       `yaml:"tail_ratio" scalar:"warning" doc:"p99 divided by the mean, a plain number."`
}

// severities are the bounds of one statistic; a bare value is the warning.
type severities[T time.Duration | float64] struct {
	Info     T `yaml:"info" min:">0" doc:"Worth knowing."`
	Warning  T `yaml:"warning" min:">0" doc:"What a bare value means."`
	Critical T `yaml:"critical" min:">0" doc:"Worth waking somebody."`
}

// queueLimits are the bounds of the waiting queue; a bare value is the warning.
// There is no critical one: a queue wakes nobody before an objective suffers.
type queueLimits struct {
	Info    float64 `yaml:"info" min:">0" doc:"Worth knowing."`
	Warning float64 `yaml:"warning" min:">0" doc:"What a bare value means."`
}

type window struct {
	MinSamples int           `yaml:"min_samples" default:"100" min:"1" doc:"The last so many requests."`
	MaxAge     time.Duration `yaml:"max_age" default:"6h" min:">0" doc:"None older than this."`
}

type target struct {
	Name            string                   `yaml:"name" doc:"Required and unique."`
	Pool            string                   `yaml:"pool" doc:"Replicas that serve the same thing; the name when not written."`
	Environment     string                   `yaml:"environment" default:"production" doc:"Name of an environment; the strictest one when not written."`
	Backend         string                   `yaml:"backend" doc:"Required: wire dialect, named as in bench_serving."`
	URL             string                   `yaml:"url" as:"url" doc:"Required, unless targets are discovered: scheme://host[:port][/prefix] or unix:///path/of.sock[:/prefix], without user, password, query or fragment."`
	FileSD          rawYAML                  `yaml:"file_sd_configs" doc:"Discover the targets in files, in place of url: as in Prometheus, with everything that it takes inside, and so the keys below. Each address found becomes a target of this entry: environment, backend, probes and keys are the entry's. See README.md, Discovery."`
	HTTPSD          rawYAML                  `yaml:"http_sd_configs" doc:"Discover the targets by asking a web server."`
	DNSSD           rawYAML                  `yaml:"dns_sd_configs" doc:"Discover the targets in DNS."`
	KubernetesSD    rawYAML                  `yaml:"kubernetes_sd_configs" doc:"Discover the targets in Kubernetes."`
	Relabel         rawYAML                  `yaml:"relabel_configs" verbatim:"true" doc:"Choose among what is discovered, and name it, as in Prometheus (${1} is a group of regex here, no variable). __address__, __scheme__ and __base_path__ make the URL, target the name (the entry's and the address when there is none), pool and model what they say; labels without underscores in front are kept as facts."`
	MetricsURL      string                   `yaml:"metrics_url" as:"url" doc:"The server's metrics page, where that is not on url: a whole URL, or :port[/path] on the host of url, as in :8002 for Triton and :9000 for the exporter of TGI. /metrics when there is no path."`
	MetricsKey      bool                     `yaml:"metrics_credentials" default:"false" doc:"Send the key and the headers to metrics_url although it is another host or port than url. The server's own always gets them."`
	Path            string                   `yaml:"path" doc:"Request path in place of the backend's."`
	Model           string                   `yaml:"model" doc:"Model to ask for. When not written, the target is asked for its first one (/v1/models) at the start and at a reload, for up to 2s, and else by its first run. It is a label of all series: those of a target that is down at the start have none until it answers, and then go on under its name."`
	APIKey          probes.Secret            `yaml:"api_key" doc:"Sent as bearer token. Better api_key_file or ${NAME}."`
	APIKeyFile      string                   `yaml:"api_key_file" as:"path" doc:"File that holds the key; read again before each run, so that keys can rotate."`
	Headers         map[string]probes.Secret `yaml:"headers" doc:"Request headers. Their values are treated as secrets."`
	Labels          map[string]string        `yaml:"labels" doc:"Facts that are exported with the target, e.g. gpu."`
	Connection      string                   `yaml:"connection" enum:"connection" default:"reuse" doc:"reuse takes an idle connection when there is one; new dials for every request."`
	Protocol        string                   `yaml:"protocol" enum:"protocol" default:"http1" doc:"http1 or http2 (cleartext needs prior knowledge; one request a connection). HTTP/1.1 is what engines serve best."`
	FollowRedirects bool                     `yaml:"follow_redirects" default:"false" doc:"Follow redirects; credentials never travel to another host."`
	Proxy           string                   `yaml:"proxy" default:"none" doc:"none, env (HTTPS_PROXY and its like) or a URL without credentials."`
	TLS             tlsOptions               `yaml:"tls" doc:"Options of an https URL."`
	Timeouts        timeouts                 `yaml:"timeouts" doc:"Bounds of one request, in place of the probe's."`
	Probes          []string                 `yaml:"probes" doc:"Required: names of the probes to run; [] for none."`
}

type comparison struct {
	Name           string             `yaml:"name" doc:"Required and unique, among the probes too."`
	A              string             `yaml:"a" doc:"Required: target that is the reference, e.g. the one in production."`
	B              string             `yaml:"b" doc:"Required: target that is the candidate."`
	Probe          string             `yaml:"probe" doc:"Probe whose load both are given, a canary, load or replay; the targets need not have it among their probes. A closed loop of it keeps max_rate of both environments."`
	Workload       string             `yaml:"workload" doc:"In place of probe: a workload to be asked in a closed loop of the three keys below, after one request of warm-up."`
	NumPrompts     int                `yaml:"num_prompts" min:"1" doc:"Measured requests of each run, with workload. 20."`
	MaxConcurrency int                `yaml:"max_concurrency" min:"1" doc:"Workers of the closed loop, with workload. 1."`
	MaxRate        float64            `yaml:"max_rate" min:">0" doc:"Most requests per second, with workload; the smaller max_rate of the two environments when not written."`
	Pairs          int                `yaml:"pairs" min:"1" default:"5" doc:"How often each side is run at most; it ends earlier once 5 or 7 pairs decide, and fewer than 5 carry no claim."`
	Margins        map[string]float64 `yaml:"margins" enum:"compared" as:"ratio" min:">0" doc:"By how much B may be worse, as a share of A (of success_ratio in points), by metric: ttft_p50, ttft_p99, tpot_p50, tpot_p99, e2e_p50, e2e_p90, output_throughput, request_throughput, success_ratio, spec_accept_length, prefix_cache_hit_ratio. A metric that is not written has the margin of its class."`
	Primary        []string           `yaml:"primary" enum:"compared" doc:"Metrics that decide; those that suit the load when not written. The others are shown, and fail nothing."`
	Vary           []string           `yaml:"vary" doc:"Controlled variables that are meant to differ, e.g. [quantization]: all others must be equal, or the answer is unknown."`
	Every          time.Duration      `yaml:"every" min:">0" doc:"Time between two starts. Without every and schedule it runs only when asked."`
	Schedule       string             `yaml:"schedule" doc:"Cron expression of five fields, in place of every."`
	Timezone       string             `yaml:"timezone" doc:"IANA name of the schedule's time zone; UTC when not written."`
	StaleAfter     time.Duration      `yaml:"stale_after" min:">0" doc:"Age at which a result no longer stands. 3 intervals, at least 1d."`
}

type tlsOptions struct {
	CAFile             string `yaml:"ca_file" as:"path" doc:"Authorities to trust, in place of the system's."`
	CertFile           string `yaml:"cert_file" as:"path" doc:"Client certificate."`
	KeyFile            string `yaml:"key_file" as:"path" doc:"Its key."`
	ServerName         string `yaml:"server_name" doc:"Name to verify and to send as SNI, in place of the URL's host."`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" default:"false" doc:"Do not verify the certificate."`
}

// enums are the closed lists. Those of the vocabulary are taken from it, so that
// a new kind or signal needs no change here.
var enums = map[string][]string{
	"level":      {"debug", "info", "warn", "error"},
	"format":     {"logfmt", "json"},
	"histograms": {"auto", "classic", "native"},
	"allow":      {"flush_cache", "profile"},
	"dataset": {
		"random", "random-ids", "sharegpt", "generated-shared-prefix", "image", "mmmu", "custom", "text", "trace", "mooncake", "burstgpt", "azure",
	},
	"image_format":      {"jpeg", "png"},
	"adapter_choice":    words(probes.AdapterChoices),
	"image_content":     {"random", "blank"},
	"time_unit":         {"s", "ms", "us", "ns"},
	"mooncake_workload": {"conversation", "mooncake", "toolagent", "synthetic"},
	"cache":             {string(probes.CacheCold), string(probes.CacheWarm), string(probes.CacheShared)},
	"connection":        {string(probes.ConnectionReuse), string(probes.ConnectionNew)},
	"protocol":          {string(probes.HTTP1), string(probes.HTTP2)},
	"environment":       words(probes.Environments),
	"kind":              words(probes.Kinds),
	"arrivals":          words(probes.ArrivalProcesses),
	"signal":            words(probes.Signals),
	"sensitivity":       words(probes.Sensitivities),
	"metric":            words(probes.RegressionMetrics),
	"compared":          comparedMetrics(),
}

// comparedMetrics leaves out the one that no pair of runs has.
func comparedMetrics() []string {
	return slices.DeleteFunc(words(probes.ComparisonMetrics), func(m string) bool { return m == string(probes.MetricCapacity) })
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// field is a place of the schema: a type and the tags of the key that leads to it.
type field struct {
	key string
	typ reflect.Type
	tag reflect.StructTag
}

var root = field{typ: reflect.TypeFor[document]()}

func (f field) isNamed() bool { return f.typ.Kind() == reflect.Map && f.typ.Implements(namedType) }

func (f field) isInt() bool { return f.typ.Kind() == reflect.Int || f.typ.Kind() == reflect.Int64 }

func (f field) isFloat() bool { return f.typ.Kind() == reflect.Float64 }

// elem is the place of a map's or a list's entries; what a number stands for is told
// where the map is.
func (f field) elem() field {
	out := field{typ: f.typ.Elem()}
	if out.isFloat() {
		out.tag = f.tag
	}
	return out
}

// secret reports whether the value must not be printed as it was written.
func (f field) secret() bool { return f.typ == secretType || f.tag.Get("as") == "url" }

// fields lists the keys of a struct in the order they are documented.
func (f field) fields() []field {
	var out []field
	for sf := range f.typ.Fields() {
		if sf.Tag.Get("yaml") == "-" {
			continue // worked out from keys, and none itself; such fields stand last
		}
		out = append(out, field{key: sf.Tag.Get("yaml"), typ: sf.Type, tag: sf.Tag})
	}
	return out
}

// child finds a key of a struct.
func (f field) child(key string) (field, bool) {
	if f.typ == nil || f.typ.Kind() != reflect.Struct {
		return field{}, false
	}
	for _, c := range f.fields() {
		if c.key == key {
			return c, true
		}
	}
	return field{}, false
}
