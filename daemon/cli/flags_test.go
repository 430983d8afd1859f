package cli

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/probes"
)

// tokenizerFolder holds a tokenizer.json.
const tokenizerFolder = "../../probes/tokenizer/testdata/gpt2"

// Every flag changes what it says and nothing else.
func TestFlagEffects(t *testing.T) {
	key := writeFile(t, "key", "sk-one\n")
	sharegpt := writeFile(t, "sharegpt.json", "[]")
	always := []string{"--output-file", "/dev/null"}
	tests := []struct {
		args string
		want func(r *resolved)
	}{
		{"--backend vllm", func(r *resolved) { r.Target.Backend, r.Target.BaseURL = "vllm", "http://127.0.0.1:8000" }},
		{"--base-url http://h:1/p/", func(r *resolved) { r.Target.BaseURL = "http://h:1/p" }},
		{"--host ::1", func(r *resolved) { r.Target.BaseURL = "http://[::1]:30000" }},
		{"--port 7", func(r *resolved) { r.Target.BaseURL = "http://127.0.0.1:7" }},
		{"--base-url http://h:1/p --metrics-url :8002", func(r *resolved) {
			r.Target.BaseURL, r.Target.MetricsURL = "http://h:1/p", "http://h:8002/metrics"
		}},
		{"--metrics-url https://m/x --metrics-credentials", func(r *resolved) {
			r.Target.MetricsURL, r.Target.MetricsCredentials = "https://m/x", true
		}},
		{"--model m", func(r *resolved) { r.Target.Model = "m" }},
		{"--api-key-file " + key, func(r *resolved) {
			r.Target.Connection.APIKey, r.Target.Connection.APIKeyFile = "sk-one", key
		}},
		{"--header A=b=c --header D=", func(r *resolved) {
			r.Target.Connection.Headers = map[string]probes.Secret{"A": "b=c", "D": ""}
		}},
		{"--connection new", func(r *resolved) { r.Target.Connection.Policy = probes.ConnectionNew }},
		{"--timeout-connect 1s", func(r *resolved) { r.Target.Timeouts.Connect = time.Second }},
		{"--timeout-first-token 2s", func(r *resolved) { r.Target.Timeouts.FirstToken = 2 * time.Second }},
		{"--timeout-idle 3s", func(r *resolved) { r.Target.Timeouts.Idle = 3 * time.Second }},
		{"--timeout-total 4s", func(r *resolved) { r.Target.Timeouts.Total = 4 * time.Second }},

		{"--dataset-name random-ids", func(r *resolved) { r.Spec.Workload.Dataset = "random-ids" }},
		{"--dataset-name sharegpt --dataset-path " + sharegpt, func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Path = "sharegpt", sharegpt
		}},
		{"--dataset-name sharegpt --sharegpt-output-len 9 --dataset-path " + sharegpt, func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Path, r.Spec.Workload.FixedOutputTokens = "sharegpt", sharegpt, 9
		}},
		{"--dataset-name sharegpt --sharegpt-context-len 99 --dataset-path " + sharegpt, func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Path, r.Spec.Workload.ContextTokens = "sharegpt", sharegpt, 99
		}},
		{"--dataset-name sharegpt --dataset-url https://h/x.json --dataset-sha256 " + strings.Repeat("0a", 32), func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.URL, r.Spec.Workload.SHA256 = "sharegpt", "https://h/x.json", strings.Repeat("0a", 32)
		}},
		{"--dataset-name custom --skip-bad-rows --dataset-path " + sharegpt, func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Path, r.Spec.Workload.SkipBadRows = "custom", sharegpt, true
		}},
		{"--dataset-name generated-shared-prefix --gsp-num-groups 2 --gsp-prompts-per-group 3 --gsp-system-prompt-len 40 --gsp-question-len 5 --gsp-output-len 6 --gsp-range-ratio 0.5 --gsp-zipf-alpha 1.5", func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Cache = "generated-shared-prefix", probes.CacheShared
			r.Spec.Workload.Groups = probes.Groups{Count: 2, PromptsOfEach: 3, SystemTokens: 40, QuestionTokens: 5, OutputTokens: 6, RangeRatio: 0.5, ZipfAlpha: 1.5}
			r.Spec.Requests = 6
		}},
		{"--dataset-name generated-shared-prefix --gsp-group-distribution zipf --gsp-ordered --num-prompts 9", func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Cache, r.Spec.Requests = "generated-shared-prefix", probes.CacheShared, 9
			r.Spec.Workload.Groups = probes.Groups{Count: 64, PromptsOfEach: 16, SystemTokens: 2048, QuestionTokens: 128, OutputTokens: 256, RangeRatio: 1, ZipfAlpha: 1, Ordered: true}
		}},
		{"--backend vllm-chat --dataset-name image --image-count 2 --random-image-count --image-resolution random:512x768-600x800 --image-format png --image-content blank", func(r *resolved) {
			r.Target.Backend, r.Target.BaseURL = "vllm-chat", "http://127.0.0.1:8000"
			r.Spec.Workload.Dataset = "image"
			r.Spec.Workload.Images = probes.ImageShape{Count: 2, RandomCount: true, Resolution: "random:512x768-600x800", Format: "png", Content: "blank"}
		}},
		{"--dataset-name trace --use-trace-timestamps --mooncake-slowdown-factor 2 --block-tokens 64 --time-unit us --num-prompts 0 --dataset-path " + sharegpt, func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Path, r.Spec.Workload.Cache = "trace", sharegpt, probes.CacheShared
			r.Spec.Workload.Trace = probes.Trace{TimeUnit: "us", Slowdown: 2, Rounds: 1, BlockTokens: 64}
			r.Spec.Requests, r.Spec.Arrivals = 0, probes.Arrivals{Process: probes.FromTrace}
		}},
		{"--dataset-name mooncake --mooncake-num-rounds 3 --mooncake-workload toolagent --dataset-path " + sharegpt, func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.Path, r.Spec.Workload.Cache = "mooncake", sharegpt, probes.CacheShared
			r.Spec.Workload.Trace = probes.Trace{Slowdown: 1, Rounds: 3, Name: "toolagent", BlockTokens: 512}
		}},
		{"--random-input-len 5", func(r *resolved) { r.Spec.Workload.InputTokens = 5 }},
		{"--random-output-len 6", func(r *resolved) { r.Spec.Workload.OutputTokens = 6 }},
		{"--shard 1/3 --start-at 2999-01-02T05:04:05.5+02:00 --output-details", func(r *resolved) {
			r.Spec.Shard = probes.Shard{Index: 1, Of: 3, Start: time.Date(2999, 1, 2, 3, 4, 5, 5e8, time.UTC)}
			r.Spec.KeepText, r.Options.outputDetails = true, true
		}},
		{"--random-range-ratio 0.5", func(r *resolved) { r.Spec.Workload.RangeRatio = 0.5 }},
		{"--dataset-name random-ids --vocab-size 100", func(r *resolved) {
			r.Spec.Workload.Dataset, r.Spec.Workload.VocabSize = "random-ids", 100
		}},
		{"--tokenizer approx", func(r *resolved) { r.Spec.Workload.Tokenizer = "approx" }},
		{"--tokenizer tiktoken:o200k_base", func(r *resolved) { r.Spec.Workload.Tokenizer = "tiktoken:o200k_base" }},
		{"--tokenizer " + tokenizerFolder + " --apply-chat-template", func(r *resolved) {
			r.Spec.Workload.Tokenizer, r.Spec.Workload.ApplyChatTemplate = tokenizerFolder, true
		}},
		{"--tokenize-prompt", func(r *resolved) { r.Spec.Workload.TokenIDs = true }},
		{"--fixed-prompts", func(r *resolved) { r.Spec.Workload.Cache = probes.CacheWarm }},
		{"--request-rate 2 --ramp 10s", func(r *resolved) {
			r.Spec.Arrivals.Process, r.Spec.Arrivals.Rate, r.Spec.Arrivals.Ramp = probes.Poisson, 2, 10*time.Second
		}},
		{"--seed -4", func(r *resolved) { r.Spec.Workload.Seed = -4 }},

		{"--num-prompts 7", func(r *resolved) { r.Spec.Requests = 7 }},
		{"--duration 1m", func(r *resolved) { r.Spec.Duration = time.Minute }},
		{"--request-rate 2.5", func(r *resolved) {
			r.Spec.Arrivals = probes.Arrivals{Process: probes.Poisson, Rate: 2.5, CV: 1}
		}},
		{"--request-rate 2 --burstiness 4", func(r *resolved) {
			r.Spec.Arrivals = probes.Arrivals{Process: probes.Gamma, Rate: 2, CV: 0.5}
		}},
		{"--request-rate 2 --burstiness inf", func(r *resolved) {
			r.Spec.Arrivals = probes.Arrivals{Process: probes.Constant, Rate: 2}
		}},
		{"--max-concurrency 8", func(r *resolved) {
			r.Spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, Rate: math.Inf(1), CV: 1, MaxConcurrency: 8}
		}},
		{"--max-concurrency 8 --start-together", func(r *resolved) {
			r.Spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, Rate: math.Inf(1), CV: 1, MaxConcurrency: 8, StartTogether: true}
		}},
		{"--request-rate 3 --max-concurrency 8", func(r *resolved) {
			r.Spec.Arrivals = probes.Arrivals{Process: probes.Poisson, Rate: 3, CV: 1, MaxConcurrency: 8}
		}},
		{"--warmup-requests 0", func(r *resolved) { r.Spec.Warmup = probes.Warmup{} }},
		{"--definitions vllm", func(r *resolved) { r.Spec.Definitions = probes.VLLMDefinitions }},
		{"--definitions sglang", func(r *resolved) {
			r.Spec.Definitions, r.Target.Connection.Policy = probes.SGLangDefinitions, probes.ConnectionNew
		}},
		{"--repeats 3", func(r *resolved) { r.Spec.Repeats = 3 }},
		{"--offline-result " + sharegpt, func(r *resolved) { r.Spec.OfflineResult = sharegpt }},
		{"--flush-cache", func(r *resolved) { r.Spec.FlushCache = true }},
		{"--profile", func(r *resolved) { r.Spec.Profile = &probes.Profile{} }},
		{"--profile --profile-activities CPU,GPU --profile-start-step 2 --profile-num-steps 5 --profile-by-stage --profile-stages decode --profile-output-dir /tmp/p --profile-prefix night", func(r *resolved) {
			r.Spec.Profile = &probes.Profile{Activities: []string{"CPU", "GPU"}, StartStep: 2, Steps: 5, ByStage: true, Stages: []string{"decode"}, OutputDir: "/tmp/p", Prefix: "night"}
		}},

		{"--temperature 0.7", func(r *resolved) { r.Spec.Workload.Sampling.Temperature = 0.7 }},
		{"--disable-stream", func(r *resolved) { r.Spec.Workload.Sampling.Stream = false }},
		{"--disable-ignore-eos", func(r *resolved) { r.Spec.Workload.Sampling.IgnoreEOS = false }},
		{`--extra-request-body {"n":12345678901234567890}`, func(r *resolved) {
			r.Spec.Workload.Sampling.ExtraBody = map[string]any{"n": json.Number("12345678901234567890")}
		}},
		{"--lora-name l", func(r *resolved) { r.Spec.Workload.Sampling.LoRA = "l" }},
		{"--lora-name a b,c --seed 1 --lora-name=d e", func(r *resolved) {
			r.Spec.Workload.Adapters = probes.Adapters{Names: []string{"a", "b,c", "d", "e"}, Choice: probes.AdaptersUniform}
		}},
		{"--lora-name a b --lora-request-distribution distinct", func(r *resolved) {
			r.Spec.Workload.Adapters = probes.Adapters{Names: []string{"a", "b"}, Choice: probes.AdaptersDistinct}
		}},
		{"--lora-request-distribution skewed --lora-name a b", func(r *resolved) {
			r.Spec.Workload.Adapters = probes.Adapters{Names: []string{"a", "b"}, Choice: probes.AdaptersSkewed, Alpha: 1.5}
		}},
		{"--lora-request-distribution skewed --lora-zipf-alpha 3 --lora-name a b", func(r *resolved) {
			r.Spec.Workload.Adapters = probes.Adapters{Names: []string{"a", "b"}, Choice: probes.AdaptersSkewed, Alpha: 3}
		}},

		{"--output-file /dev/zero", func(r *resolved) { r.Options.outputFile = "/dev/zero" }},
		{"--output-details", func(r *resolved) { r.Spec.KeepText, r.Options.outputDetails = true, true }},
		{"--format vllm", func(r *resolved) { r.Options.format = "vllm" }},
		{"--tag t", func(r *resolved) { r.Options.tag = "t" }},
		{"--disable-tqdm", func(r *resolved) { r.Options.noProgress = true }},
	}
	base, err := resolveArgs(nil, always...)
	if err != nil {
		t.Fatal(err)
	}
	// What is run is compared whole; of the options only what run itself reads.
	read := func(r resolved) resolved {
		r.Options = runFlags{outputFile: r.Options.outputFile, outputDetails: r.Options.outputDetails, tag: r.Options.tag, format: r.Options.format, noProgress: r.Options.noProgress}
		return r
	}
	covered := map[string]bool{"config": true, "target": true, "probe": true} // see TestRunFromConfig
	for _, tt := range tests {
		args := strings.Fields(tt.args)
		for _, arg := range args {
			if name, ok := strings.CutPrefix(arg, "--"); ok {
				covered[name] = true
			}
		}
		got, err := resolveArgs(nil, append(append([]string{}, always...), args...)...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		want := read(base)
		tt.want(&want)
		same(t, tt.args, read(got), want)
	}
	flags := &flagSet{FlagSet: newFlags()}
	defineRunFlags(flags)
	flags.join()
	flags.VisitAll(func(f *pflag.Flag) {
		if !covered[f.Name] {
			t.Errorf("no test knows what --%s changes", f.Name)
		}
	})
}

// What run does without any flag is what bench_serving does.
func TestFlagDefaults(t *testing.T) {
	got, err := resolveArgs(nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "target", got.Target, probes.Target{
		Name: "run", Environment: probes.Development, Backend: "sglang", BaseURL: "http://127.0.0.1:30000",
		Connection: probes.Connection{Policy: probes.ConnectionReuse, Headers: map[string]probes.Secret{}},
		Timeouts:   probes.Timeouts{Connect: 10 * time.Second, Idle: 5 * time.Minute},
	})
	same(t, "spec", got.Spec, probes.Spec{
		Probe: "run", Kind: probes.Load, Requests: 1000, Repeats: 1, Warmup: probes.Warmup{Requests: 1},
		Arrivals: probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1), CV: 1},
		Workload: probes.Workload{
			Name: "run", Dataset: "random", InputTokens: 1024, OutputTokens: 1024, Tokenizer: "server",
			Cache: probes.CacheCold, Seed: 1, Sampling: probes.Sampling{IgnoreEOS: true, Stream: true},
		},
	})
}

func TestKeyFromTheEnvironment(t *testing.T) {
	env := []string{"OPENAI_API_KEY= sk-env \n"}
	file := writeFile(t, "key", "sk-file")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "sk-env"},
		{[]string{"--api-key-file", file}, "sk-file"},
		{[]string{"--header", "authorization=Basic x"}, ""},
	} {
		got, err := resolveArgs(env, tt.args...)
		if key := got.Target.Connection.APIKey.Reveal(); key != tt.want || err != nil {
			t.Errorf("%q: key %q, %v, want %q", tt.args, key, err, tt.want)
		}
	}
}

// Mistakes are refused in words that name the flag and say what to do, and all of
// them at once.
func TestFlagMistakes(t *testing.T) {
	bad := writeFile(t, "two-lines", "sk-SECRET-1\nsk-SECRET-2\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--request-rate", "fast"}, `--request-rate: "fast" is neither a number nor inf`},
		{[]string{"--ramp", "3s"}, `--ramp: burst arrivals have no rate that could rise; choose constant, poisson or gamma`},
		{[]string{"--request-rate", "-3"}, `--request-rate: must be above 0 requests per second, is -3`},
		{[]string{"--request-rate", "nan"}, `--request-rate: must be above 0 requests per second, is NaN`},
		{[]string{"--request-rate", "1", "--burstiness", "nan"}, `--burstiness: NaN must be above 0`},
		{[]string{"--burstiness", "2"}, `--burstiness: has no effect without a finite --request-rate`},
		{[]string{"--num-prompts", "-1", "--warmup-requests", "-2", "--duration", "-3s"}, "--num-prompts: -1 is negative\n--duration: -3s is negative\n--warmup-requests: -2 is negative"},
		{[]string{"--request-rate", "3", "--start-together"}, `--start-together: belongs to a closed loop, not to poisson arrivals`},
		{[]string{"--num-prompts", "0", "--duration", "1s"}, `--num-prompts: 0 needs a finite --request-rate or a --max-concurrency: everything at once must have an end`},
		{[]string{"--num-prompts", "0", "--request-rate", "1"}, `--num-prompts: 0 needs a --duration`},
		{[]string{"--numprompts", "3"}, `unknown flag --numprompts, did you mean "--num-prompts"?`},
		{[]string{"--gsp-num-groups", "2"}, `--gsp-num-groups: has no effect on dataset random`},
		{[]string{"--dataset-name", "generated-shared-prefix", "--gsp-zipf-alpha", "-1"}, `--gsp-zipf-alpha: -1 is outside 0 to 10; 0 makes all groups equally popular`},
		{[]string{"--dataset-name", "image", "--image-resolution", "9k", "--backend", "vllm"}, "--image-resolution: \"9k\" is neither 4k, 1080p, 720p or 360p nor height x width such as 512x768 or random:256x256-1024x768, each side from 64 to 8192\n--dataset-name: backend vllm takes no images, choose a chat backend or sglang"},
		{[]string{"--dataset-name", "sharegpt", "--dataset-url", "https://h/x"}, `--dataset-sha256: missing: nothing is fetched without a checksum`},
		{[]string{"--use-trace-timestamps", "--request-rate", "3"}, "--use-trace-timestamps: has no effect on dataset random\n--request-rate: contradicts the times of the trace; stretch them with --mooncake-slowdown-factor"},
		{[]string{"--wheel"}, `unknown flag --wheel; 'inferbeat run --help' lists them`},
		{[]string{"-n", "3"}, `unknown shorthand flag: 'n' in -n; see 'inferbeat run --help'`},
		{[]string{"--num-prompts"}, `flag needs an argument: --num-prompts; see 'inferbeat run --help'`},
		{[]string{"--num-prompts", "ten"}, `invalid argument "ten" for "--num-prompts" flag: must be an integer; see 'inferbeat run --help'`},
		{[]string{"--duration", "10"}, `invalid argument "10" for "--duration" flag: must be a duration like "30s" or "5m"; see 'inferbeat run --help'`},
		{[]string{"--header", "A=Bearer", "sk-SECRET"}, `argument 3 belongs to no flag: options are written --name value, and a value with spaces in quotes; see 'inferbeat run --help'`},
		{[]string{"--shard", "0/2"}, "--shard: needs --start-at, the time at which all shards start"},
		{[]string{"--start-at", "+1s"}, "--start-at: has no effect without --shard"},
		{[]string{"--shard", "2/2", "--start-at", "+1m"}, `--shard: "2/2" is not of the form i/n, with i from 0 to n-1`},
		{[]string{"--shard", "0", "--start-at", "+1m"}, `--shard: "0" is not of the form i/n, with i from 0 to n-1`},
		{[]string{"--shard", "0/2", "--start-at", "noon"}, `--start-at: "noon" is neither a time as in 2026-01-02T15:04:05Z nor a duration from now as in +90s`},
		{[]string{"--shard", "0/2", "--start-at", "2001-02-03T04:05:06Z", "--output-file", "x", "--output-details"}, "--start-at: 2001-02-03T04:05:06Z is over"},
		{[]string{"--shard", "0/2", "--start-at", "+1m"}, "--shard: needs --output-file and --output-details, from which 'inferbeat merge' makes the result, in --format sglang"},
		{[]string{"--shard", "0/2", "--start-at", "+1m", "--output-file", "x", "--output-details", "--repeats", "2", "--max-concurrency", "4", "--request-rate", "9"},
			"--shard: a cap on the requests in flight cannot be split: a slot of one shard is of no use to the others; leave it out\n" +
				"--shard: repeats cannot be split; start each of them with a start of its own"},
		{[]string{"--shard", "0/2", "--start-at", "+1m", "--output-file", "x", "--output-details", "--max-concurrency", "4"},
			"--shard: a closed loop cannot be split: its requests are due when others have ended; choose a finite rate or all at once without a cap"},
		{[]string{"--definitions", "openai"}, `--definitions: "openai" is neither sglang nor vllm`},
		{[]string{"--definitions", "sglang", "--connection", "reuse"}, `--connection: --definitions sglang needs a new connection for each request`},
		{[]string{"--random-range-ratio", "2"}, `--random-range-ratio: 2 is outside 0 to 1 (0.5 means lengths from half of the full one to the full one)`},
		{[]string{"--dataset-name", "sharegpt"}, `--dataset-path: missing, name the ShareGPT JSON file`},
		{[]string{"--dataset-name", "sharegpt", "--dataset-path", "/nope.json"}, `--dataset-path: /nope.json: no such file or directory`},
		{[]string{"--dataset-name", "sharegpt", "--dataset-path", "."}, `--dataset-path: .: is a directory, not a file`},
		{[]string{"--dataset-name", "mmlu"}, `--dataset-name: unknown "mmlu", use one of ["random" "random-ids" "sharegpt" "generated-shared-prefix" "image" "mmmu" "custom" "text" "trace" "mooncake" "burstgpt" "azure"]`},
		{[]string{"--sharegpt-output-len", "9"}, `--sharegpt-output-len: has no effect on dataset random`},
		{[]string{"--dataset-path", "x"}, `--dataset-path: dataset random reads no file`},
		{[]string{"--extra-request-body", "[1]"}, `--extra-request-body: must be one JSON object, such as {"top_k": 1}, in quotes for the shell`},
		{[]string{"--extra-request-body", "null"}, `--extra-request-body: must be one JSON object, such as {"top_k": 1}, in quotes for the shell`},
		{[]string{"--extra-request-body", `{"a":1} {"b":2}`}, `--extra-request-body: must be one JSON object, such as {"top_k": 1}, in quotes for the shell`},
		{[]string{"--extra-request-body", `{"stream":false}`}, `--extra-request-body: stream cannot be set here, use --disable-stream`},
		{[]string{"--header", "sk-SECRET", "--header", "A b=SECRET", "--header", "A=SECRET\nB: C"}, "--header: number 1 is not of the form K=V\n--header: number 2 has a name that HTTP does not allow: it may hold letters, digits and hyphens\n--header: number 3 has a line break or another control character in its value"},
		{[]string{"--backend", "vlm"}, `--backend: unknown name, did you mean "vllm"? …`},
		{[]string{"--backend", "gserver"}, `--backend: not implemented upstream either…`},
		{[]string{"--tokenizer", "gpt2"}, `--tokenizer: stat gpt2: no such file or directory; name a tokenizer.json or its folder, tiktoken:NAME (cl100k_base, gpt2, o200k_base, p50k_base, p50k_edit, r50k_base), server or approx: nothing is downloaded`},
		{[]string{"--tokenizer", "tiktoken:gpt5"}, `--tokenizer: unknown encoding "gpt5", known are cl100k_base, gpt2, o200k_base, p50k_base, p50k_edit, r50k_base`},
		{[]string{"--apply-chat-template"}, `--apply-chat-template: tokenizer "server" has no template here, set tokenizer to the path of a tokenizer.json with its tokenizer_config.json`},
		{[]string{"--apply-chat-template", "--tokenizer", tokenizerFolder, "--backend", "vllm-chat"}, `--apply-chat-template: backend vllm-chat applies the template itself`},
		{[]string{"--dataset-name", "random-ids", "--tokenizer", "approx"}, `--tokenizer: ids cannot be sent as text without a tokenizer, set --tokenize-prompt or --tokenizer server`},
		{[]string{"--backend", "vllm-chat", "--tokenize-prompt"}, `--tokenize-prompt: backend vllm-chat takes no token ids`},
		{[]string{"--connection", "maybe"}, `--connection: "maybe" is neither reuse nor new`},
		{[]string{"--port", "0"}, `--port: 0 is not from 1 to 65535`},
		{[]string{"--port", "70000", "--host", "a/b"}, "--port: 70000 is not from 1 to 65535\n--host: \"a/b\" is not a host"},
		{[]string{"--base-url", "http://h", "--port", "1", "--host", "h"}, "--host: contradicts --base-url, which holds host and port; leave one of them out\n--port: contradicts --base-url, which holds host and port; leave one of them out"},
		{[]string{"--base-url", "http://u:SECRET@h"}, `--base-url: must not hold a user or password; use --api-key-file or --header`},
		{[]string{"--base-url", "http://u:SEC RET@h"}, `--base-url: malformed, write scheme://host[:port][/prefix], an IPv6 address in brackets`},
		{[]string{"--api-key-file", "sk-SECRET"}, `--api-key-file: cannot be read: no such file or directory; name the file that holds the key`},
		{[]string{"--api-key-file", bad}, `--api-key-file: must hold one line, the key; name the file that holds the key`},
		{[]string{"--api-key-file", bad, "--header", "Authorization=SECRET"}, `--api-key-file: sets the header Authorization, which --header sets too; leave one of them out`},
		{[]string{"--timeout-total", "-1s", "--timeout-connect", "-2s"}, "--timeout-connect: -2s is negative; 0 is no bound\n--timeout-total: -1s is negative; 0 is no bound"},
		{[]string{"--output-details", "--tag", "x"}, "--output-details: has no effect without --output-file\n--tag: has no effect without --output-file"},
		{[]string{"--lora-request-distribution", "zipf", "--lora-name", "a", "b"}, `--lora-request-distribution: unknown "zipf", use one of ["uniform" "distinct" "skewed"]`},
		{[]string{"--lora-request-distribution", "distinct", "--lora-name", "a"}, `--lora-request-distribution: distinct chooses among at least two adapters, --lora-name names 1`},
		{[]string{"--lora-request-distribution", "skewed", "--lora-zipf-alpha", "1", "--lora-name", "a", "b"}, `--lora-zipf-alpha: 1 is not a number above 1`},
		{[]string{"--lora-zipf-alpha", "2", "--lora-name", "a", "a"}, "--lora-name: names \"a\" twice\n--lora-zipf-alpha: has no effect, --lora-request-distribution is not skewed"},
		{[]string{"--lora-zipf-alpha", "2"}, "--lora-zipf-alpha: has no effect, --lora-request-distribution is not skewed"},
		{[]string{"--backend", "trt", "--lora-name", "7", "poet"}, `--lora-name: choose lora adapter "poet": this server knows adapters by number, its lora_task_id`},
		{[]string{"--seed", "1", "stray", "--lora-name", "a"}, `argument 3 belongs to no flag: options are written --name value, and a value with spaces in quotes; see 'inferbeat run --help'`},
		{[]string{"--metrics-credentials"}, "--metrics-credentials: has no effect without --metrics-url"},
		{[]string{"--metrics-url", "http://u:SECRET@h"}, "--metrics-url: must not hold a user, a password, a query or a fragment: send credentials with --api-key-file or --header"},
		{[]string{"--metrics-url", ":8002", "--base-url", "http://h?SECRET"}, "--base-url: must not hold a query or a fragment"},
		{[]string{"--target", "a", "--probe", "b"}, "--target: chooses from a configuration; name that with --config\n--probe: chooses from a configuration; name that with --config"},
		{[]string{"--connection", "nope", "--base-url", "http://h?key=SECRET", "--request-rate", "x", "--random-input-len", "0", "--burstiness", "-1", "--max-concurrency", "-1", "--header", "z"},
			"--base-url: must not hold a query or a fragment\n--connection: \"nope\" is neither reuse nor new\n--header: number 1 is not of the form K=V\n--random-input-len: 0 is not a length, it must be at least 1\n--request-rate: \"x\" is neither a number nor inf\n--burstiness: -1 must be above 0\n--max-concurrency: must not be negative, is -1"},
	} {
		_, err := resolveArgs(nil, tt.args...)
		if err == nil {
			t.Errorf("%q: got no error, want %s", tt.args, tt.want)
			continue
		}
		text := err.Error()
		// What follows … lists the backends, which are others' to name.
		if want, open := strings.CutSuffix(tt.want, "…"); text != want && (!open || !strings.HasPrefix(text, want)) || strings.Contains(text, "SECRET") {
			t.Errorf("%q:\n got %s\nwant %s", tt.args, text, tt.want)
		}
	}
}

// A field that a stage refuses and that has a flag is told by the flag's name.
func TestFieldsAreFlags(t *testing.T) {
	flags := &flagSet{FlagSet: newFlags()}
	defineRunFlags(flags)
	flags.join()
	for field, flag := range flagOf {
		if flags.Lookup(flag) == nil {
			t.Errorf("field %s is said to be set by --%s, which does not exist", field, flag)
		}
	}
	for _, d := range datasetFlags {
		if flags.Lookup(d.flag) == nil {
			t.Errorf("--%s is bound to datasets and does not exist", d.flag)
		}
	}
	for _, name := range withConfig {
		if flags.Lookup(name) == nil {
			t.Errorf("--%s may stand beside --config and does not exist", name)
		}
	}
}
