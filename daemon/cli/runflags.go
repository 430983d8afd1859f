package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// runFlags are the options of `inferbeat run`, named as in bench_serving where
// it has them.
type runFlags struct {
	configFiles      []string
	target, probe    string
	backend          string
	baseURL, host    string
	port             int
	model            string
	apiKeyFile       string
	headers          []string
	connection       string
	dataset, path    string
	tokenizer        string
	vocabSize        int
	numPrompts       int
	duration         time.Duration
	requestRate      string
	burstiness       float64
	maxConcurrency   int
	warmup           int
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
	lora             string
	flushCache       bool
	timeouts         probes.Timeouts
	outputFile       string
	outputDetails    bool
	tag              string
	noProgress       bool
}

func defineRunFlags(f *pflag.FlagSet) *runFlags {
	o := &runFlags{}
	f.StringArrayVar(&o.configFiles, "config", nil, "configuration `file`; repeat to overlay (then --target and --probe choose)")
	f.StringVar(&o.target, "target", "", "target of the configuration")
	f.StringVar(&o.probe, "probe", "", "probe of the configuration")

	f.StringVar(&o.backend, "backend", "sglang", "wire dialect: "+strings.Join(backend.Names(), ", "))
	f.StringVar(&o.baseURL, "base-url", "", "server `URL`, with a prefix if it has one")
	f.StringVar(&o.host, "host", "127.0.0.1", "server host, when there is no --base-url")
	f.IntVar(&o.port, "port", 0, "server port (default: the backend's)")
	f.StringVar(&o.model, "model", "", "model name (default: the first of /v1/models)")
	f.StringVar(&o.apiKeyFile, "api-key-file", "", "`file` with the bearer key (default: environment OPENAI_API_KEY)")
	f.StringArrayVar(&o.headers, "header", nil, "extra request header `K=V`; repeatable")
	f.StringVar(&o.connection, "connection", "reuse", "reuse connections, or open a new one for each request as bench_serving does: reuse, new")

	f.StringVar(&o.dataset, "dataset-name", "random", "random, random-ids or sharegpt")
	f.StringVar(&o.path, "dataset-path", "", "`file` of the sharegpt dataset")
	f.StringVar(&o.tokenizer, "tokenizer", "server", "server (the target's own /tokenize) or approx")
	f.IntVar(&o.vocabSize, "vocab-size", 0, "random-ids: token ids are below this (default 32000)")
	f.IntVar(&o.inputLen, "random-input-len", 1024, "random datasets: input tokens")
	f.IntVar(&o.outputLen, "random-output-len", 1024, "random datasets: output tokens")
	f.Float64Var(&o.rangeRatio, "random-range-ratio", 0, "lengths are uniform between this share of the full length and the full length, as sglang means it; 1 is constant")
	f.IntVar(&o.shareGPTOutput, "sharegpt-output-len", 0, "fixed output length instead of the dataset's")
	f.IntVar(&o.shareGPTContext, "sharegpt-context-len", 0, "drop conversations longer than this")
	f.BoolVar(&o.tokenizePrompt, "tokenize-prompt", false, "send token ids instead of text (random-ids)")
	f.BoolVar(&o.fixedPrompts, "fixed-prompts", false, "send the same prompts every run; a prefix cache will then be warm")
	f.Int64Var(&o.seed, "seed", 1, "seed of lengths, texts and arrivals")

	f.IntVar(&o.numPrompts, "num-prompts", 1000, "requests to measure; 0 is until --duration")
	f.DurationVar(&o.duration, "duration", 0, "stop sending and cut what is in flight after this long")
	f.StringVar(&o.requestRate, "request-rate", "inf", "requests per second (Poisson), or inf for all at once")
	f.Float64Var(&o.burstiness, "burstiness", 1, "gamma shape of the gaps: 1 is Poisson, below it burstier, inf constant")
	f.IntVar(&o.maxConcurrency, "max-concurrency", 0, "most requests in flight; 0 is no bound")
	f.IntVar(&o.warmup, "warmup-requests", 1, "requests before the measurement, with prompts of their own")

	f.Float64Var(&o.temperature, "temperature", 0, "sampling temperature")
	f.BoolVar(&o.disableStream, "disable-stream", false, "ask for one whole answer; there is then no TTFT, TPOT or ITL")
	f.BoolVar(&o.disableIgnoreEOS, "disable-ignore-eos", false, "let answers end early")
	f.StringVar(&o.extraBody, "extra-request-body", "", "`JSON` object merged over each request body")
	f.StringVar(&o.lora, "lora-name", "", "LoRA adapter to ask for")
	f.BoolVar(&o.flushCache, "flush-cache", false, "empty the server's prefix cache before the run")

	f.DurationVar(&o.timeouts.Connect, "timeout-connect", 10*time.Second, "bound on DNS, connect and TLS; 0 none")
	f.DurationVar(&o.timeouts.FirstToken, "timeout-first-token", 0, "bound on the first token; 0 none")
	f.DurationVar(&o.timeouts.Idle, "timeout-idle", 5*time.Minute, "bound on silence; 0 none")
	f.DurationVar(&o.timeouts.Total, "timeout-total", 0, "bound on the whole answer; 0 none")

	f.StringVar(&o.outputFile, "output-file", "", "append the result as one JSON line, with the keys of bench_serving")
	f.BoolVar(&o.outputDetails, "output-details", false, "add per-request arrays, generated texts included")
	f.StringVar(&o.tag, "tag", "", "tag of the result line")
	f.BoolVar(&o.noProgress, "disable-tqdm", false, "no progress bar")
	return o
}

// resolve turns flags into what is run. All mistakes come back at once.
func (o *runFlags) resolve(flags *pflag.FlagSet, env []string) (probes.Target, probes.Spec, error) {
	if len(o.configFiles) > 0 {
		return o.fromConfig(flags, env)
	}
	if o.target != "" || o.probe != "" {
		return probes.Target{}, probes.Spec{}, errors.New("--target and --probe choose from a configuration; add --config")
	}
	target, targetErr := o.buildTarget(env)
	spec, specErr := o.buildSpec(target)
	return target, spec, errors.Join(targetErr, specErr)
}

// fromConfig picks a pair of a configuration; flags that would change it are
// refused, so that a number always belongs to what is written down.
func (o *runFlags) fromConfig(flags *pflag.FlagSet, env []string) (probes.Target, probes.Spec, error) {
	var mistakes []error
	allowed := map[string]bool{"config": true, "target": true, "probe": true, "output-file": true, "output-details": true, "tag": true, "disable-tqdm": true}
	flags.Visit(func(f *pflag.Flag) {
		if !allowed[f.Name] {
			mistakes = append(mistakes, fmt.Errorf("--%s cannot be combined with --config; change the configuration", f.Name))
		}
	})
	loaded, err := loadConfig(o.configFiles, env, nil)
	if err != nil {
		return probes.Target{}, probes.Spec{}, errors.Join(append(mistakes, err)...)
	}
	var names []string
	for _, pair := range loaded.Pairs() {
		names = append(names, fmt.Sprintf("--target %s --probe %s", pair.Target.Name, pair.Spec.Probe))
		if pair.Target.Name != o.target || pair.Spec.Probe != o.probe {
			continue
		}
		target, err := config.ResolveSecrets(pair.Target)
		return target, pair.Spec, errors.Join(append(mistakes, err)...)
	}
	mistakes = append(mistakes, fmt.Errorf("no pair --target %q --probe %q; the configuration has: %s", o.target, o.probe, strings.Join(names, "; ")))
	return probes.Target{}, probes.Spec{}, errors.Join(mistakes...)
}

func (o *runFlags) buildTarget(env []string) (probes.Target, error) {
	var mistakes []error
	t := probes.Target{Name: "run", Environment: probes.Development, Backend: o.backend, Model: o.model, Timeouts: o.timeouts}
	if err := backend.Check(o.backend); err != nil {
		mistakes = append(mistakes, fmt.Errorf("--backend: %w", err))
	}
	base, err := o.resolveBaseURL()
	if err != nil {
		mistakes = append(mistakes, err)
	}
	t.BaseURL = base
	t.Connection.Policy = probes.ConnectionPolicy(o.connection)
	if t.Connection.Policy != probes.ConnectionReuse && t.Connection.Policy != probes.ConnectionNew {
		mistakes = append(mistakes, fmt.Errorf("--connection: %q is neither reuse nor new", o.connection))
	}
	if o.apiKeyFile != "" {
		key, err := os.ReadFile(o.apiKeyFile)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("--api-key-file: %w", err))
		}
		t.Connection.APIKey = probes.Secret(strings.TrimSpace(string(key)))
	} else {
		for _, entry := range env {
			if key, ok := strings.CutPrefix(entry, "OPENAI_API_KEY="); ok {
				t.Connection.APIKey = probes.Secret(key)
			}
		}
	}
	for i, header := range o.headers {
		name, value, ok := strings.Cut(header, "=")
		if !ok || name == "" {
			// The text itself may be a secret and is not repeated.
			mistakes = append(mistakes, fmt.Errorf("--header number %d is not of the form K=V", i+1))
			continue
		}
		if t.Connection.Headers == nil {
			t.Connection.Headers = map[string]probes.Secret{}
		}
		t.Connection.Headers[name] = probes.Secret(value)
	}
	for name, d := range map[string]time.Duration{"connect": o.timeouts.Connect, "first-token": o.timeouts.FirstToken, "idle": o.timeouts.Idle, "total": o.timeouts.Total} {
		if d < 0 {
			mistakes = append(mistakes, fmt.Errorf("--timeout-%s: %s is negative; 0 is no bound", name, d))
		}
	}
	return t, errors.Join(mistakes...)
}

func (o *runFlags) resolveBaseURL() (string, error) {
	if o.baseURL == "" {
		base, err := backend.BaseURL(o.backend, o.host, o.port)
		if err != nil {
			return "", fmt.Errorf("--host: %w", err)
		}
		return base, nil
	}
	base, err := backend.CleanURL(o.baseURL)
	if err != nil {
		return "", fmt.Errorf("--base-url: %w", err)
	}
	return base, nil
}

func (o *runFlags) buildSpec(target probes.Target) (probes.Spec, error) {
	var mistakes []error
	s := probes.Spec{
		Probe: "run", Kind: probes.Load, Requests: o.numPrompts, Duration: o.duration,
		Warmup: probes.Warmup{Requests: o.warmup}, FlushCache: o.flushCache,
	}
	s.Workload = probes.Workload{
		Name: "run", Dataset: o.dataset, Path: o.path,
		InputTokens: o.inputLen, OutputTokens: o.outputLen, RangeRatio: o.rangeRatio,
		FixedOutputTokens: o.shareGPTOutput, ContextTokens: o.shareGPTContext,
		Tokenizer: o.tokenizer, VocabSize: o.vocabSize, TokenIDs: o.tokenizePrompt,
		Cache: probes.CacheCold, Seed: o.seed,
		Sampling: probes.Sampling{Temperature: o.temperature, IgnoreEOS: !o.disableIgnoreEOS, Stream: !o.disableStream, LoRA: o.lora},
	}
	if o.fixedPrompts {
		s.Workload.Cache = probes.CacheWarm
	}
	if o.extraBody != "" {
		if err := json.Unmarshal([]byte(o.extraBody), &s.Workload.Sampling.ExtraBody); err != nil {
			mistakes = append(mistakes, fmt.Errorf("--extra-request-body: not a JSON object: %w", err))
		}
	}
	if o.tokenizePrompt && !backend.AcceptsTokenIDs(target.Backend) {
		mistakes = append(mistakes, fmt.Errorf("--tokenize-prompt: backend %s takes no token ids", target.Backend))
	}
	if err := workload.Validate(s.Workload); err != nil {
		mistakes = append(mistakes, err)
	}
	if o.numPrompts < 0 || o.warmup < 0 || o.duration < 0 {
		mistakes = append(mistakes, errors.New("--num-prompts, --warmup-requests and --duration may not be negative"))
	}
	if o.numPrompts == 0 && o.duration == 0 {
		mistakes = append(mistakes, errors.New("--num-prompts 0 needs a --duration"))
	}
	arrivals, err := o.buildArrivals()
	if err != nil {
		mistakes = append(mistakes, err)
	}
	if arrivals.Process == probes.Burst && o.numPrompts == 0 {
		mistakes = append(mistakes, errors.New("--request-rate inf needs --num-prompts: a burst without end never starts"))
	}
	s.Arrivals = arrivals
	return s, errors.Join(mistakes...)
}

func (o *runFlags) buildArrivals() (probes.Arrivals, error) {
	rate, err := strconv.ParseFloat(o.requestRate, 64)
	if err != nil {
		return probes.Arrivals{}, fmt.Errorf("--request-rate: %q is neither a number nor inf", o.requestRate)
	}
	a := probes.Arrivals{Process: probes.Poisson, Rate: rate, CV: 1, MaxConcurrency: o.maxConcurrency}
	switch {
	case math.IsInf(rate, 1) && o.maxConcurrency > 0:
		// All at once through N slots is a closed loop of N workers: nobody waits
		// for a due time that was never meant.
		a.Process = probes.ClosedLoop
	case math.IsInf(rate, 1):
		a.Process = probes.Burst
	case !(o.burstiness > 0):
		return a, fmt.Errorf("--burstiness: %v must be above 0", o.burstiness)
	case math.IsInf(o.burstiness, 1):
		a.Process, a.CV = probes.Constant, 0
	case o.burstiness != 1:
		a.Process, a.CV = probes.Gamma, probes.BurstinessToCV(o.burstiness)
	}
	if err := arrival.Validate(a); err != nil {
		return a, fmt.Errorf("arrivals from --request-rate and --max-concurrency: %w", err)
	}
	return a, nil
}
