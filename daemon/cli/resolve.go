package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// resolve turns flags into what is run. All mistakes come back at once.
func (o *runFlags) resolve(flags *pflag.FlagSet, env []string) (probes.Target, probes.Spec, error) {
	return o.resolveAs(o.buildSpec, flags, env)
}

// resolveAs takes the spec from build unless there is a configuration.
func (o *runFlags) resolveAs(build func(*mistakes) probes.Spec, flags *pflag.FlagSet, env []string) (probes.Target, probes.Spec, error) {
	var (
		m      mistakes
		target probes.Target
		spec   probes.Spec
	)
	if o.outputFile == "" {
		for _, name := range []string{"output-details", "format", "tag"} {
			if o.changed(name) {
				m.add(name, "has no effect without --output-file")
			}
		}
	}
	if !slices.Contains(jsonl.Formats, o.format) {
		m.add("format", "%q is none of %s", o.format, strings.Join(jsonl.Formats, ", "))
	}
	if len(o.configFiles) > 0 {
		target, spec = o.fromConfig(&m, flags, env)
	} else {
		for _, name := range []string{"target", "probe"} {
			if o.changed(name) {
				m.add(name, "chooses from a configuration; name that with --config")
			}
		}
		target = o.buildTarget(&m, env)
		spec = build(&m)
	}
	o.split(&m, &spec)
	spec.KeepText = o.outputDetails
	o.define(&m, &target, &spec)
	return target, spec, m.join()
}

// define takes over another tool's definitions. SGLang's take the set-up of a
// connection for each request into every latency.
func (o *runFlags) define(m *mistakes, target *probes.Target, spec *probes.Spec) {
	spec.Definitions = probes.Definitions(o.definitions)
	if spec.Definitions != probes.OwnDefinitions && !slices.Contains(probes.OtherDefinitions, spec.Definitions) {
		m.add("definitions", "%q is neither sglang nor vllm", o.definitions)
	}
	if spec.Definitions != probes.SGLangDefinitions || len(o.configFiles) > 0 {
		return
	}
	if o.changed("connection") && o.connection != "new" {
		m.add("connection", "--definitions sglang needs a new connection for each request")
	}
	target.Connection.Policy = probes.ConnectionNew
}

// fromConfig picks a pair of a configuration; flags that would change it are
// refused, so that a number always belongs to what is written down.
func (o *runFlags) fromConfig(m *mistakes, flags *pflag.FlagSet, env []string) (probes.Target, probes.Spec) {
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(withConfig, f.Name) && !slices.Contains(sweepWithConfig, f.Name) && !slices.Contains(pairedWithConfig, f.Name) {
			m.add(f.Name, "cannot be combined with --config; change the configuration")
		}
	})
	loaded, err := loadConfig(o.configFiles, env, nil)
	if err == nil {
		loaded, err = named(loaded, o.target)
	}
	if err != nil {
		*m = append(*m, err)
		return probes.Target{}, probes.Spec{}
	}
	var all, chosen []config.Pair
	for _, pair := range loaded.Pairs() {
		if !o.runs(pair.Spec.Kind) {
			continue
		}
		all = append(all, pair)
		if (o.target == "" || o.target == pair.Target.Name) && (o.probe == "" || o.probe == pair.Spec.Probe) {
			chosen = append(chosen, pair)
		}
	}
	switch {
	case len(all) == 0:
		m.add("config", "no target of the configuration has a probe%s", ofKind(o.kind))
	case len(chosen) == 0:
		m.add("config", "it has no such pair of target and probe; choose one of: %s", choices(all))
	case len(chosen) > 1:
		m.add("config", "it has several pairs of target and probe; choose one of: %s", choices(chosen))
	default:
		target, err := config.ResolveSecrets(chosen[0].Target)
		if err != nil {
			*m = append(*m, err)
		}
		return target, chosen[0].Spec
	}
	return probes.Target{}, probes.Spec{}
}

// runs reports whether the command runs probes of a kind: `run` does with all,
// `paired` with loads, the other commands with their own.
func (o *runFlags) runs(kind probes.Kind) bool {
	switch o.kind {
	case probes.Load:
		return true
	case probes.Paired:
		return kind == probes.Load || kind == probes.Replay
	}
	return kind == o.kind
}

func ofKind(kind probes.Kind) string {
	if kind == probes.Load {
		return ""
	}
	return " of the kind " + string(kind)
}

// choices lists pairs as they are asked for.
func choices(pairs []config.Pair) string {
	var list []string
	for _, p := range pairs {
		list = append(list, fmt.Sprintf("--target %s --probe %s", p.Target.Name, p.Spec.Probe))
	}
	return strings.Join(list, ", ")
}

func (o *runFlags) buildTarget(m *mistakes, env []string) probes.Target {
	t := probes.Target{Name: "run", Environment: probes.Development, Backend: o.backend, Model: o.model, Timeouts: o.timeouts}
	if err := backend.Check(o.backend); err != nil {
		m.add("backend", "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("use backend %q: ", o.backend)))
	}
	t.BaseURL = o.resolveBaseURL(m)
	t.MetricsURL, t.MetricsCredentials = o.resolveMetricsURL(m, t.BaseURL), o.metricsKey
	t.Connection.Policy = probes.ConnectionPolicy(o.connection)
	if t.Connection.Policy != probes.ConnectionReuse && t.Connection.Policy != probes.ConnectionNew {
		m.add("connection", "%q is neither reuse nor new", o.connection)
	}
	t.Connection.Headers = o.parseHeaders(m)
	t.Connection.APIKeyFile = o.apiKeyFile
	t = o.readKey(m, t, env)
	for _, bound := range []struct {
		flag string
		d    time.Duration
	}{
		{"timeout-connect", o.timeouts.Connect}, {"timeout-first-token", o.timeouts.FirstToken},
		{"timeout-idle", o.timeouts.Idle}, {"timeout-total", o.timeouts.Total},
	} {
		if bound.d < 0 {
			m.add(bound.flag, "%s is negative; 0 is no bound", bound.d)
		}
	}
	return t
}

func (o *runFlags) resolveBaseURL(m *mistakes) string {
	if o.baseURL != "" {
		for _, name := range []string{"host", "port"} {
			if o.changed(name) {
				m.add(name, "contradicts --base-url, which holds host and port; leave one of them out")
			}
		}
		base, err := backend.CleanURL(o.baseURL)
		if err != nil {
			m.add("base-url", "%s", inFlags.Replace(strings.TrimPrefix(err.Error(), "parse base url: ")))
		}
		return base
	}
	port := o.port
	if port < 0 || port > math.MaxUint16 || port == 0 && o.changed("port") {
		m.add("port", "%d is not from 1 to 65535", port)
		port = 0
	}
	base, err := backend.BaseURL(o.backend, o.host, port)
	if err != nil {
		m.add("host", "%s", strings.TrimPrefix(err.Error(), "build base url: "))
	}
	return base
}

func (o *runFlags) resolveMetricsURL(m *mistakes, base string) string {
	switch {
	case o.metricsURL == "" && o.metricsKey:
		m.add("metrics-credentials", "has no effect without --metrics-url")
	case o.metricsURL != "" && (base != "" || o.metricsURL[0] != ':'): // a base that is wrong is told already
		u, err := config.MetricsURL(base, o.metricsURL)
		if err != nil {
			m.add("metrics-url", "%s", inFlags.Replace(err.Error()))
		}
		return u
	}
	return ""
}

// parseHeaders reads K=V. The texts may be secrets and are not repeated.
func (o *runFlags) parseHeaders(m *mistakes) map[string]probes.Secret {
	headers := map[string]probes.Secret{}
	for i, header := range o.headers {
		name, value, ok := strings.Cut(header, "=")
		switch {
		case !ok || name == "":
			m.add("header", "number %d is not of the form K=V", i+1)
		case strings.ContainsFunc(name, func(r rune) bool { return !isToken(r) }):
			m.add("header", "number %d has a name that HTTP does not allow: it may hold letters, digits and hyphens", i+1)
		case hasControl(value):
			m.add("header", "number %d has a line break or another control character in its value", i+1)
		default:
			headers[name] = probes.Secret(value)
		}
	}
	return headers
}

// isToken reports whether a header's name may hold the character (RFC 9110, 5.6.2).
func isToken(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// readKey takes the bearer key from its file, or from the environment unless a
// header says who we are.
func (o *runFlags) readKey(m *mistakes, t probes.Target, env []string) probes.Target {
	var header bool
	for name := range t.Connection.Headers {
		header = header || strings.EqualFold(name, "Authorization")
	}
	switch {
	case o.apiKeyFile != "" && header:
		m.add("api-key-file", "sets the header Authorization, which --header sets too; leave one of them out")
	case o.apiKeyFile != "":
		read, err := config.ResolveSecrets(t)
		if err != nil {
			// The name is not repeated: it may be the key itself.
			m.add("api-key-file", "%v; name the file that holds the key", errors.Unwrap(err))
		}
		return read
	case !header:
		for _, entry := range env {
			if key, ok := strings.CutPrefix(entry, "OPENAI_API_KEY="); ok {
				t.Connection.APIKey = probes.Secret(strings.TrimSpace(key))
			}
		}
		if hasControl(t.Connection.APIKey.Reveal()) {
			*m = append(*m, errors.New("OPENAI_API_KEY: must hold one line, the key"))
		}
	}
	return t
}

func (o *runFlags) buildSpec(m *mistakes) probes.Spec {
	s := probes.Spec{
		Probe: "run", Kind: o.kind, Requests: o.numPrompts, Duration: o.duration,
		Warmup: probes.Warmup{Requests: o.warmup}, FlushCache: o.flushCache, OfflineResult: o.offlineResult,
		Profile: o.buildProfile(m),
	}
	if o.kind != probes.Load {
		s.Probe = string(o.kind)
	}
	if n := o.groupPrompts(); n > 0 {
		s.Requests = n
	}
	s.Workload = o.buildWorkload(m)
	if o.offlineResult != "" {
		if err := readable(o.offlineResult); err != nil {
			m.add("offline-result", "%s: %v", o.offlineResult, err)
		}
	}
	switch o.kind {
	case probes.Peak:
		o.buildPeak(m, &s)
		return s
	case probes.Batch:
		o.buildBatch(m, &s)
		return s
	}
	s.Arrivals = o.buildArrivals(m)
	if s.Repeats = o.repeats; o.repeats < 1 && o.kind != probes.Paired {
		m.add("repeats", "%d is less than one run", o.repeats)
	}
	o.amounts(m)
	switch {
	case o.numPrompts != 0 || s.Arrivals.Process == probes.FromTrace:
	case s.Arrivals.Process == probes.Burst:
		m.add("num-prompts", "0 needs a finite --request-rate or a --max-concurrency: everything at once must have an end")
	case o.duration == 0:
		m.add("num-prompts", "0 needs a --duration")
	}
	return s
}

// amounts refuses numbers below zero.
func (o *runFlags) amounts(m *mistakes) {
	for _, amount := range []struct {
		flag  string
		value any
		wrong bool
	}{
		{"num-prompts", o.numPrompts, o.numPrompts < 0},
		{"duration", o.duration, o.duration < 0},
		{"warmup-requests", o.warmup, o.warmup < 0},
	} {
		if amount.wrong {
			m.add(amount.flag, "%v is negative", amount.value)
		}
	}
}

func (o *runFlags) buildWorkload(m *mistakes) probes.Workload {
	w := probes.Workload{
		Name: "run", Dataset: o.dataset, Path: o.path,
		InputTokens: o.inputLen, OutputTokens: o.outputLen, RangeRatio: o.rangeRatio,
		FixedOutputTokens: o.shareGPTOutput, ContextTokens: o.shareGPTContext,
		Tokenizer: o.tokenizer, ApplyChatTemplate: o.applyTemplate, VocabSize: o.vocabSize, TokenIDs: o.tokenizePrompt,
		Cache: probes.CacheCold, Seed: o.seed,
		Sampling: probes.Sampling{Temperature: o.temperature, IgnoreEOS: !o.disableIgnoreEOS, Stream: !o.disableStream},
	}
	o.shape(&w)
	w.SetAdapters(o.chosenAdapters())
	if o.fixedPrompts {
		w.Cache = probes.CacheWarm
	}
	w.Sampling.ExtraBody = o.parseExtraBody(m)
	m.addFields(daemon.CheckWorkload(w))
	if o.tokenizePrompt && backend.Check(o.backend) == nil && !backend.AcceptsTokenIDs(o.backend) {
		m.add("tokenize-prompt", "backend %s takes no token ids", o.backend)
	}
	if o.applyTemplate && backend.AcceptsMessages(o.backend) {
		m.add("apply-chat-template", "backend %s applies the template itself", o.backend)
	}
	switch {
	case o.groupChoice != "" && o.groupChoice != "uniform" && o.groupChoice != "zipf":
		m.add("gsp-group-distribution", "%q is neither uniform nor zipf", o.groupChoice)
	case o.groupChoice == "uniform" && o.groups.ZipfAlpha != 0:
		m.add("gsp-group-distribution", "uniform contradicts --gsp-zipf-alpha")
	}
	if slices.Contains(workload.Datasets, o.dataset) {
		for _, d := range datasetFlags {
			if o.changed(d.flag) && !slices.Contains(d.datasets, o.dataset) {
				m.add(d.flag, "has no effect on dataset %s", o.dataset)
			}
		}
	}
	if err := backend.CheckAdapters(o.backend, w); err != nil {
		m.add("lora-name", "%v", err)
	}
	if workload.HasImages(o.dataset) && backend.Check(o.backend) == nil && !backend.AcceptsImages(o.backend) {
		m.add("dataset-name", "backend %s takes no images, choose a chat backend or sglang", o.backend)
	}
	if workload.ReadsFile(o.dataset) && o.path != "" && o.url == "" {
		if err := readable(o.datasetFile()); err != nil {
			m.add("dataset-path", "%s: %v", o.path, err)
		}
	}
	return w
}

// chosenAdapters leaves out what was not asked for.
func (o *runFlags) chosenAdapters() probes.Adapters {
	a := o.adapters
	if a.Choice != probes.AdaptersSkewed && !o.changed("lora-zipf-alpha") {
		a.Alpha = 0
	}
	if len(a.Names) == 0 && a.Choice == probes.AdaptersUniform {
		a.Choice = ""
	}
	return a
}

// parseExtraBody keeps numbers as they are written: a large one would lose digits
// as a float.
func (o *runFlags) parseExtraBody(m *mistakes) map[string]any {
	if o.extraBody == "" {
		return nil
	}
	var body map[string]any
	d := json.NewDecoder(bytes.NewReader([]byte(o.extraBody)))
	d.UseNumber()
	err := d.Decode(&body)
	if _, more := d.Token(); err == nil && (body == nil || more != io.EOF) {
		err = errors.New("not one object")
	}
	if err != nil {
		m.add("extra-request-body", `must be one JSON object, such as {"top_k": 1}, in quotes for the shell`)
		return nil
	}
	return body
}

// readable looks whether a file can be opened, so that a wrong name is a wrong
// call and not a failed run.
func readable(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return bare(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return errors.New("is a directory, not a file")
	}
	return nil
}

// bare is the cause of a file error, without the name that the user has given.
func bare(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

func (o *runFlags) buildArrivals(m *mistakes) probes.Arrivals {
	if o.traceTimes {
		return o.traceArrivals(m)
	}
	rate, err := strconv.ParseFloat(o.requestRate, 64)
	if err != nil {
		m.add("request-rate", "%q is neither a number nor inf", o.requestRate)
		rate = 1 // so that the other flags are looked at
	}
	a := probes.Arrivals{Process: probes.Poisson, Rate: rate, CV: 1, MaxConcurrency: o.maxConcurrency, Ramp: o.ramp, StartTogether: o.startTogether}
	atOnce := math.IsInf(rate, 1)
	switch {
	case !(o.burstiness > 0): // NaN fails the comparison
		m.add("burstiness", "%v must be above 0", o.burstiness)
	case atOnce && o.burstiness != 1:
		m.add("burstiness", "has no effect without a finite --request-rate")
	case math.IsInf(o.burstiness, 1):
		a.Process, a.CV = probes.Constant, 0
	case o.burstiness != 1:
		a.Process, a.CV = probes.Gamma, probes.BurstinessToCV(o.burstiness)
	}
	switch {
	case atOnce && o.maxConcurrency > 0:
		// All at once through N slots is a closed loop of N workers: nobody waits
		// for a due time that was never meant.
		a.Process = probes.ClosedLoop
	case atOnce:
		a.Process = probes.Burst
	}
	m.addFields(arrival.Validate(a))
	return a
}
