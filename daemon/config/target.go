package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

func (b *builder) target(name string, t *target) {
	path := "targets[" + name + "]"
	t.Pool = or(t.Pool, name)
	sections := b.discovery(path, t)
	out := probes.Target{
		Name: name, Pool: t.Pool, Site: t.Environment, Environment: b.environment(path, t), Backend: t.Backend,
		Path: t.Path, Model: t.Model, Labels: b.labels(path, t),
		Connection: probes.Connection{
			Policy: probes.ConnectionPolicy(t.Connection), Protocol: probes.Protocol(t.Protocol), FollowRedirects: t.FollowRedirects, Proxy: t.Proxy,
			TLS: probes.TLS(t.TLS), APIKey: t.APIKey, APIKeyFile: t.APIKeyFile, Headers: t.Headers,
		},
		Timeouts: probes.Timeouts(t.Timeouts), MetricsCredentials: t.MetricsKey,
	}
	if sections == nil {
		out.BaseURL = b.baseURL(path, t)
		out.MetricsURL = b.metricsURL(path, t)
	} else {
		b.laterMetricsURL(path, t)
	}
	if b.required(path, "backend", t.Backend != "") && b.checks.Backend != nil {
		if err := b.checks.Backend(t.Backend); err != nil {
			b.report(path+".backend", "%v", err)
		}
	}
	if t.Path != "" && !strings.HasPrefix(t.Path, "/") {
		b.report(path+".path", "must start with /")
	}
	b.tls(path, t)
	b.proxy(path, t)
	out = b.credentials(path, out)
	pairs := b.pairsOf(path, t, out)
	if sections != nil {
		b.cfg.entries = append(b.cfg.entries, Entry{Name: name, Sections: sections, Target: out, Pairs: pairs, metricsURL: t.MetricsURL})
		return
	}
	b.cfg.targets = append(b.cfg.targets, out)
	b.cfg.pairs = append(b.cfg.pairs, pairs...)
}

func (b *builder) environment(path string, t *target) probes.Environment {
	e, ok := b.doc.Environments[t.Environment]
	if !ok && t.Environment != "" {
		b.report(path+".environment", "there is no environment %q%s", t.Environment, DidYouMean(t.Environment, sortedKeys(b.doc.Environments)))
	}
	return e.Class
}

func (b *builder) baseURL(path string, t *target) string {
	if !b.required(path, "url", t.URL != "") {
		return ""
	}
	parse := parseURL
	if strings.HasPrefix(t.URL, "unix:") && b.checks.UnixURL != nil {
		parse = b.checks.UnixURL
	}
	u, err := parse(t.URL)
	if err != nil {
		b.report(path+".url", "%v", err)
	}
	t.URL = u
	return u
}

func (b *builder) metricsURL(path string, t *target) string {
	if t.MetricsURL == "" {
		if t.MetricsKey {
			b.report(path+".metrics_credentials", "has no effect without metrics_url")
		}
		return ""
	}
	u, err := MetricsURL(t.URL, t.MetricsURL)
	if err != nil {
		b.report(path+".metrics_url", "%v", err)
	}
	return u
}

// laterMetricsURL checks what becomes a URL only with an address.
func (b *builder) laterMetricsURL(path string, t *target) {
	with := *t
	with.URL = "http://discovered:1"
	b.metricsURL(path, &with)
}

// MetricsURL is the address of a server's metrics page: text is a URL, or :port[/path]
// on the host of the server's base URL. Its errors hold no part of either.
func MetricsURL(base, text string) (string, error) {
	if port, ok := strings.CutPrefix(text, ":"); ok {
		u, err := url.Parse(base)
		if err != nil || u.Hostname() == "" {
			return "", errors.New("names a port of a host that url does not have: write a whole URL")
		}
		port, path, _ := strings.Cut(port, "/")
		u.Host, u.Path, u.RawPath = strings.TrimSuffix(u.Host, ":"+u.Port())+":"+port, "", ""
		text = u.String() + "/" + path
	}
	clean, err := parseURL(text)
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(clean); err == nil && u.Path == "" {
		clean += "/metrics"
	}
	return clean, nil
}

// parseURL accepts scheme://host[:port][/prefix] and takes trailing slashes off.
// Its errors never hold any part of the URL: where a password was put is what
// could not be parsed.
func parseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil && strings.Count(text, ":") > 2 && !strings.Contains(text, "["):
		return "", errors.New("is not a URL; an IPv6 address needs brackets, e.g. http://[::1]:8000")
	case err != nil:
		return "", errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("must start with http:// or https://")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("must not hold a user, a password, a query or a fragment: send credentials with api_key_file or headers")
	case u.Hostname() == "":
		return "", errors.New("needs a host")
	case strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "["):
		return "", errors.New("holds an IPv6 address, which needs brackets, e.g. http://[::1]:8000")
	case strings.HasSuffix(u.Host, ":") || u.Port() != "" && !validPort(u.Port()):
		return "", errors.New("needs a port from 1 to 65535 after the colon")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func validPort(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0 && n < 65536
}

func checkListenAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return errors.New("must be host:port, e.g. 127.0.0.1:9799 or [::1]:9799")
	}
	return nil
}

// taken are label names that the exporter or Prometheus itself sets.
var taken = []string{
	"target", "pool", "target_env", "model", "probe", "engine", "engine_version", "endpoint", "service",
	"namespace", "pod", "container", "job", "instance", "env", "cluster",
}

func reservedLabel(name string) bool {
	return slices.Contains(taken, name) || strings.HasPrefix(name, "__")
}

func (b *builder) labels(path string, t *target) map[string]string {
	for _, name := range sortedKeys(t.Labels) {
		if reservedLabel(name) {
			b.report(join(path+".labels", name), "is a name that Prometheus or the exporter sets: choose another one")
		}
	}
	return t.Labels
}

func (b *builder) tls(path string, t *target) {
	o, at := t.TLS, path+".tls"
	if o != (tlsOptions{}) && strings.HasPrefix(t.URL, "http:") && !strings.HasPrefix(t.MetricsURL, "https:") {
		b.report(at, "has no effect: the url is not https")
	}
	if (o.CertFile == "") != (o.KeyFile == "") && b.sound(at) {
		b.report(at, "needs cert_file and key_file together")
	}
	b.readable(at+".ca_file", o.CAFile)
	b.readable(at+".cert_file", o.CertFile)
	b.readable(at+".key_file", o.KeyFile)
}

func (b *builder) proxy(path string, t *target) {
	if t.Proxy == "none" || t.Proxy == "env" || t.Proxy == "" {
		return
	}
	if strings.HasPrefix(t.URL, "unix:") {
		b.report(path+".proxy", "has no effect: the url is a socket of this machine")
	}
	if _, err := parseURL(t.Proxy); err != nil {
		b.report(path+".proxy", "must be none, env or the URL of a proxy without credentials (those go into HTTPS_PROXY, with env)")
	}
}

func (b *builder) credentials(path string, t probes.Target) probes.Target {
	if b.set(path+".api_key") && b.set(path+".api_key_file") {
		b.report(path+".api_key_file", "must not be written beside api_key")
	}
	for name := range t.Connection.Headers {
		if strings.EqualFold(name, "Authorization") && (b.set(path+".api_key") || b.set(path+".api_key_file")) {
			b.report(join(path+".headers", name), "must not be written beside api_key or api_key_file, which set it")
		}
	}
	read, err := ResolveSecrets(t)
	if err != nil {
		b.report(path+".api_key_file", "%v", errors.Unwrap(err))
		return t
	}
	return read
}

// ResolveSecrets reads the target's secrets from their files, so that a key can
// be rotated without a reload. It is called before each run; the error names the
// target, and neither the file nor what it holds.
func ResolveSecrets(t probes.Target) (probes.Target, error) {
	if t.Connection.APIKeyFile == "" {
		return t, nil
	}
	text, err := os.ReadFile(t.Connection.APIKeyFile)
	if err != nil {
		// Without its name: a key that was put in place of the path must not be printed.
		return t, fmt.Errorf("read key of target %s: %w", t.Name, errors.New("cannot be read: "+cause(err)))
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return t, fmt.Errorf("read key of target %s: %w", t.Name, errors.New("must hold one line, the key"))
	}
	t.Connection.APIKey = probes.Secret(key)
	return t, nil
}

// readable reports a file that cannot be opened.
func (b *builder) readable(path, file string) {
	if file == "" {
		return
	}
	switch info, err := os.Stat(file); {
	case err != nil:
		b.report(path, "cannot be read: %s", cause(err))
	case info.IsDir():
		b.report(path, "is a directory")
	default:
		f, err := os.Open(file)
		if err != nil {
			b.report(path, "cannot be read: %s", cause(err))
			return
		}
		f.Close()
	}
}

// pairsOf joins the target with its probes and holds each pair against the
// limits of the target's environment.
func (b *builder) pairsOf(path string, t *target, out probes.Target) (pairs []Pair) {
	b.required(path, "probes", t.Probes != nil)
	env, known := b.doc.Environments[t.Environment]
	plan := &budget{environment: t.Environment, probes: t.Probes}
	b.budgets[out.Name] = plan
	for _, name := range t.Probes {
		spec, ok := b.specs[name]
		if !ok {
			b.report(path+".probes", "there is no probe %q%s", name, DidYouMean(name, sortedKeys(b.specs)))
			continue
		}
		p := b.doc.Probes[name]
		spec = within(spec, env)
		pair := Pair{Target: out, Spec: spec, Budget: budgetOf(spec, env)}
		pair.Target.Timeouts = probes.Timeouts(b.overlay(p.Timeouts, t.Timeouts, path+".timeouts"))
		pairs = append(pairs, pair)
		if accepts := b.checks.AcceptsTokenIDs; accepts != nil && spec.Workload.TokenIDs && !accepts(t.Backend) {
			b.report(path+".probes", "probe %s: backend %s does not take token ids (workload %s)", name, t.Backend, spec.Workload.Name)
		}
		if accepts := b.checks.AcceptsImages; accepts != nil && (spec.Workload.Dataset == "image" || spec.Workload.Dataset == "mmmu") && !accepts(t.Backend) {
			b.report(path+".probes", "probe %s: backend %s does not take images (workload %s)", name, t.Backend, spec.Workload.Name)
		}
		if chat := b.checks.AcceptsMessages; chat != nil && spec.Workload.ApplyChatTemplate && chat(t.Backend) {
			b.report(path+".probes", "probe %s: backend %s applies the chat template itself, without apply_chat_template (workload %s)", name, t.Backend, spec.Workload.Name)
		}
		if check := b.checks.Adapters; check != nil {
			if err := check(t.Backend, spec.Workload); err != nil {
				b.report(path+".probes", "probe %s: %v (workload %s)", name, err, spec.Workload.Name)
			}
		}
		b.mutates(path+".probes", "probe "+name, t.Environment, t.Backend, spec)
		if known && b.sound(join("probes", name)) && b.sound(join("workloads", spec.Workload.Name)) {
			over := func(format string, args ...any) {
				b.report(path+".probes", "probe %s exceeds environment %s: %s", name, t.Environment, fmt.Sprintf(format, args...))
			}
			checkKind(spec.Kind, env, over)
			plan.tokens += checkLoad(spec, interval(&p), env, over)
		}
	}
	return pairs
}

// mutates reports calls that change the server's state where its environment does not
// allow them or its backend has none.
func (b *builder) mutates(path, who, environment, backend string, spec probes.Spec) {
	allow := b.doc.Environments[environment].Allow
	if spec.FlushCache {
		if !slices.Contains(allow, "flush_cache") {
			b.report(path, "%s flushes the cache, which environment %s does not allow: add flush_cache to its allow", who, environment)
		}
		if check := b.checks.FlushCache; check != nil {
			b.refused(path, path, check(backend))
		}
	}
	if spec.Profile != nil {
		if !slices.Contains(allow, "profile") {
			b.report(path, "%s profiles the server, which environment %s does not allow: add profile to its allow", who, environment)
		}
		if check := b.checks.Profile; check != nil {
			b.refused(path, path, check(backend, spec.Profile))
		}
	}
}

// budget is what is planned for one target.
type budget struct {
	environment         string
	tokens              float64 // in a day
	probes, comparisons []string
}

// checkBudgets reports targets for which more is planned than their environment allows.
func (b *builder) checkBudgets() {
	for _, name := range sortedKeys(b.budgets) {
		plan := b.budgets[name]
		limit := b.doc.Environments[plan.environment].TokensPerDay
		if limit == 0 || plan.tokens <= float64(limit) {
			continue
		}
		who := "probes " + strings.Join(plan.probes, ", ")
		if len(plan.comparisons) > 0 {
			who += " and comparisons " + strings.Join(plan.comparisons, ", ")
		}
		b.report("targets["+name+"].probes", "%s plan %.0f tokens a day, environment %s allows %d (tokens_per_day)",
			who, plan.tokens, plan.environment, limit)
	}
}

func checkKind(kind probes.Kind, env Environment, over func(string, ...any)) {
	if !slices.Contains(env.Kinds, string(kind)) {
		over("kind %s is not among its kinds %v", kind, env.Kinds)
	}
}

// checkLoad reports every limit of the environment that the spec would exceed,
// or that it cannot be shown to keep. It returns the tokens planned for a day.
func checkLoad(spec probes.Spec, every time.Duration, env Environment, over func(string, ...any)) float64 {
	a, n := spec.Arrivals, spec.Requests
	inFlight := spec.MostInFlight()
	switch limit := env.MaxInFlight; {
	case limit > 0 && inFlight == 0:
		over("requests in flight are not bounded, max_in_flight is %d: set max_concurrency", limit)
	case limit > 0 && inFlight > limit:
		over("%d requests in flight, max_in_flight is %d: set max_concurrency", inFlight, limit)
	}
	bounded := a.Process == probes.ClosedLoop && a.Rate > 0 && !math.IsInf(a.Rate, 1)
	paced := bounded || a.Process == probes.Constant || a.Process == probes.Poisson || a.Process == probes.Gamma
	switch limit := env.MaxRate; {
	case spec.Kind == probes.Sweep:
		checkSweepRate(spec, env, over)
	case limit == 0:
	case bounded && a.Rate > limit:
		over("up to %v requests per second, max_rate is %v", a.Rate, limit)
	case paced && a.Rate > limit:
		over("request_rate %v, max_rate is %v", a.Rate, limit)
	case !paced && n == 1:
		if asked := 1 + questions(spec); every > 0 && limit*every.Seconds() < float64(asked) {
			over("%s every %s, max_rate is %v", plural(asked, "request"), formatDuration(every), limit)
		}
	case !paced:
		over("the rate of %s arrivals is not bounded, max_rate is %v: set request_rate", a.Process, limit)
	}
	in, out := lengths(spec.Workload)
	out = max(out, spec.Expect.MaxTokens)
	for _, l := range []struct {
		what         string
		length, most int
	}{{"input", in, env.MaxInputTokens}, {"output", out, env.MaxOutputTokens}} {
		switch {
		case l.most > 0 && l.length == 0:
			over("%s lengths of workload %s are not bounded, max_%s_tokens is %d", l.what, spec.Workload.Name, l.what, l.most)
		case l.most > 0 && l.length > l.most:
			over("%d %s tokens, max_%s_tokens is %d", l.length, l.what, l.what, l.most)
		}
	}
	return tokensPerDay(spec, every, env, over)
}

func plural(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// questions is how many requests a run has beside the measured ones and warm-up.
func questions(spec probes.Spec) int {
	if spec.Expect == (probes.Expect{}) {
		return 0
	}
	return 1
}

// budgetOf is what one run asks for, beside what its environment allows.
func budgetOf(spec probes.Spec, env Environment) Budget {
	out := Budget{TokensPerDay: env.TokensPerDay}
	requests, bounded := runRequests(spec)
	if !bounded {
		return out
	}
	out.Tokens = requests * tokensPerRequest(spec)
	if env.MaxRate > 0 {
		out.Span = time.Duration(requests / env.MaxRate * float64(time.Second))
	}
	return out
}

// tokensPerRequest is the most that a prompt and its answer have, as far as it is known.
func tokensPerRequest(spec probes.Spec) float64 {
	in, out := lengths(spec.Workload)
	return float64(in + max(out, spec.Expect.MaxTokens))
}

// runRequests is the most that one run sends, warm-up and questions included; false
// when nothing bounds it.
func runRequests(spec probes.Spec) (requests float64, bounded bool) {
	if spec.Kind == probes.Sweep {
		requests, bounded = sweepRequests(spec)
		return math.Ceil(requests), bounded
	}
	rate, known := spec.Arrivals.Rate, spec.Arrivals.Rate > 0 && !math.IsInf(spec.Arrivals.Rate, 1)
	if !known && (spec.Requests == 0 || spec.Warmup.Duration > 0) {
		return 0, false
	}
	repeats := float64(max(1, spec.Repeats))
	requests = float64(spec.MostRequests()+questions(spec)) + repeats*float64(spec.Warmup.Requests)
	if spec.Requests == 0 {
		requests += repeats * rate * spec.Duration.Seconds()
	}
	if spec.Warmup.Duration > 0 {
		requests += repeats * rate * spec.Warmup.Duration.Seconds()
	}
	return math.Ceil(requests), true
}

// tokensPerDay is the most that the schedule asks for in a day; a cron
// expression counts once, since its hours are not read here.
func tokensPerDay(spec probes.Spec, every time.Duration, env Environment, over func(string, ...any)) float64 {
	if env.TokensPerDay == 0 || every == 0 {
		return 0
	}
	requests, bounded := runRequests(spec)
	if perRequest := tokensPerRequest(spec); bounded && perRequest > 0 {
		return requests * perRequest * max(1, float64(day)/float64(every))
	}
	missing := "num_prompts, warmup.requests and lengths"
	if spec.Kind == probes.Sweep {
		missing = "num_prompts, warmup.requests, lengths, and rates or max_steps"
	}
	over("its tokens are not bounded, tokens_per_day is %d: set %s", env.TokensPerDay, missing)
	return 0
}
