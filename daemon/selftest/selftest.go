package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/truth"
	"github.com/inferbeat/inferbeat/probes/wire"
)

// Options of a self test.
type Options struct {
	// Command starts this program again in a way that calls Worker first.
	Command []string
	// Streams are the levels, in rising order; nil is DefaultStreams.
	Streams []int
	// Rounds is how many requests each stream sends, one after the other; 0 is 3.
	Rounds int
	// Backend is the dialect of the measuring path, openai or vllm; empty is
	// openai. With vllm every event carries the usage so far.
	Backend string
	// Compare sends the same load with the other clients too, at every level.
	Compare bool
	// CPUQuota is how many processors each client may use, in a control group that is
	// made for it; 0 is no bound. The server is not bound.
	CPUQuota float64
	// Progress is told what comes next; may be nil.
	Progress func(text string)

	script script // of a test; the zero value is the usual one
	cage   *cage  // of the clients; nil without a quota
}

// DefaultStreams are the levels of a self test.
var DefaultStreams = []int{1, 64, 256, 1000}

// script is what is asked of the server and of the clients.
type script struct {
	truth.Config
	tokens int // of an answer
	// The open loop that proves the offered rate.
	rate            float64 // requests a second
	requests, short int     // how many, of how many tokens
}

// request is how long an answer takes.
func (s *script) request() time.Duration { return s.TTFT + s.ITL*time.Duration(s.tokens-1) }

// usualScript has common figures of a served model. The open loop keeps about 60
// streams busy, so that its rate is the pacer's and not a limit of the host.
var usualScript = script{
	Config: truth.Config{TTFT: 100 * time.Millisecond, ITL: 20 * time.Millisecond, Jitter: 0.1, Seed: 1, Thread: true},
	tokens: 50, rate: 200, requests: 400, short: 11,
}

// controlGroups is where Linux shows them.
const controlGroups = "/sys/fs/cgroup"

// MaxStreams bounds a level: beyond it loopback runs out of ports.
const MaxStreams = 20000

// Report is the result of a self test.
type Report struct {
	Host   Host   `json:"host"`
	Script Script `json:"script"`
	// Levels are inferbeat's own measuring path.
	Levels  []Level                  `json:"levels"`
	Offered probes.Optional[Offered] `json:"offered_rate"`
	Trust   []Trust                  `json:"trust"`
	// Busy is the share of the host's processor time that other processes took
	// meanwhile.
	Busy probes.Optional[float64] `json:"other_processes_cpu_ratio"`
	// Others are the other clients, level by level; Absent says why one is not there.
	Others []Level           `json:"comparison,omitempty"`
	Absent map[string]string `json:"not_compared,omitempty"`
}

// Host is where the test ran.
type Host struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	Go         string `json:"go"`
}

// Script is what the server was told to do.
type Script struct {
	TTFT   float64 `json:"ttft_seconds"`
	ITL    float64 `json:"itl_seconds"`
	Jitter float64 `json:"jitter_ratio"`
	Tokens int     `json:"tokens"`
	Rounds int     `json:"requests_per_stream"`
	// Backend is the dialect that was spoken.
	Backend string `json:"backend"`
	// CPUQuota is how many processors a client could use; unknown without a bound.
	CPUQuota probes.Optional[float64] `json:"client_cpu_quota"`
}

// Level is one client at one number of streams.
type Level struct {
	Client  string `json:"client"`
	Streams int    `json:"streams"`
	// Skipped says why nothing was measured; the other fields are then empty.
	Skipped string `json:"skipped,omitempty"`
	Figures
	CPUPerEvent       probes.Optional[float64] `json:"cpu_seconds_per_event"`
	ServerCPUPerEvent probes.Optional[float64] `json:"server_cpu_seconds_per_event"`
	// Throttled is for how long the client was held back by its CPU quota, unknown
	// without one.
	Throttled  probes.Optional[float64] `json:"throttled_seconds"`
	GCPauses   int                      `json:"gc_pauses"`
	GCPauseMax float64                  `json:"gc_pause_max_seconds"`
	// Trusted is the smallest bound of Bounds that the lag's p99 keeps; unknown
	// when it keeps none, when a request failed or when the stamps contradict
	// each other.
	Trusted probes.Optional[float64] `json:"trusted_to_seconds"`
}

// Bounds are the errors of a stamp that somebody may want to rely on.
var Bounds = []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond}

// Trust says up to where a bound holds: at this level and at all below it.
type Trust struct {
	Bound           float64                  `json:"lag_p99_seconds"`
	Streams         probes.Optional[int]     `json:"streams"`
	EventsPerSecond probes.Optional[float64] `json:"events_per_second"`
}

// Check says what is wrong with the options, under their flags' names. Zero values
// are not defaults here.
func (o *Options) Check() error {
	var errs []error
	for i, n := range o.Streams {
		if n < 1 || n > MaxStreams || i > 0 && n <= o.Streams[i-1] {
			errs = append(errs, fmt.Errorf("--streams: %v must rise, between 1 and %d", o.Streams, MaxStreams))
			break
		}
	}
	if o.Rounds < 1 || o.Rounds > 1000 {
		errs = append(errs, fmt.Errorf("--rounds: %d is not between 1 and 1000", o.Rounds))
	}
	if o.Backend != "openai" && o.Backend != "vllm" {
		errs = append(errs, fmt.Errorf("--backend: %q is neither openai nor vllm", o.Backend))
	}
	if o.CPUQuota != 0 && !(o.CPUQuota >= 0.01 && o.CPUQuota <= 1000) {
		errs = append(errs, fmt.Errorf("--cpu-quota: %g is not between 0.01 and 1000 processors", o.CPUQuota))
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	if o.Streams == nil {
		o.Streams = DefaultStreams
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.script == (script{}) {
		o.script = usualScript
	}
	if o.Backend == "" {
		o.Backend = "openai"
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// Run measures all levels, one after the other. It ends when ctx does.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	o.setDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	if _, _, err := wire.RaiseDescriptorLimit(); err != nil {
		return nil, fmt.Errorf("raise the limit of open files: %w", err)
	}
	r := &Report{
		Host:   Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), Go: runtime.Version()},
		Script: Script{TTFT: o.script.TTFT.Seconds(), ITL: o.script.ITL.Seconds(), Jitter: o.script.Jitter, Tokens: o.script.tokens, Rounds: o.Rounds, Backend: o.Backend},
	}
	if o.CPUQuota != 0 {
		var err error
		if o.cage, err = newCage(controlGroups, fmt.Sprint("inferbeat-selftest-", os.Getpid()), o.CPUQuota); err != nil {
			return nil, err
		}
		r.Script.CPUQuota = probes.Known(o.CPUQuota)
		defer func() { err = errors.Join(err, o.cage.close()) }()
	}
	host := startHostMeter()
	others := o.others(ctx, r)
	defer others.close()
	for _, streams := range o.Streams {
		level, err := measureLevel(ctx, o, clientOwn, streams)
		if err != nil {
			return nil, err
		}
		r.Levels = append(r.Levels, level)
		for _, client := range others.names {
			level, err := others.measure(ctx, o, client, streams)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				r.Absent[client] = err.Error()
				continue
			}
			r.Others = append(r.Others, level)
		}
	}
	r.Trust = trust(r.Levels)
	r.Offered, err = measureOffered(ctx, o)
	r.Busy = host.others()
	return r, err
}

// comparison is who is laid beside the measuring path.
type comparison struct {
	names []string
	bench *bench // nil without it
}

// others finds the other clients. Why one is absent goes into the report.
func (o *Options) others(ctx context.Context, r *Report) comparison {
	if !o.Compare {
		return comparison{}
	}
	c := comparison{names: []string{clientNaive, clientFloor, clientBench}}
	r.Absent = map[string]string{}
	var err error
	if o.CPUQuota != 0 {
		err = errors.New("it starts processes of its own, which are not held to the CPU quota")
	} else {
		c.bench, err = findBench(ctx)
	}
	if err != nil {
		c.names = c.names[:2]
		r.Absent[clientBench] = err.Error()
	}
	return c
}

func (c comparison) measure(ctx context.Context, o Options, client string, streams int) (Level, error) {
	if client == clientBench {
		return c.bench.measure(ctx, o, streams)
	}
	return measureLevel(ctx, o, client, streams)
}

func (c comparison) close() {
	if c.bench != nil {
		c.bench.close()
	}
}

// measureLevel sends one level with one client.
func measureLevel(ctx context.Context, o Options, client string, streams int) (Level, error) {
	level := Level{Client: client, Streams: streams}
	if soft, _, err := wire.RaiseDescriptorLimit(); err == nil && soft > 0 && uint64(streams)+64 > soft {
		level.Skipped = fmt.Sprintf("only %d files may be open", soft)
		return level, nil
	}
	o.Progress(fmt.Sprintf("%s, %d streams", client, streams))
	perRequest := o.script.request()
	l := load{
		Client: client, Streams: streams, Gap: perRequest / time.Duration(streams), Requests: streams * o.Rounds, Tokens: o.script.tokens, Backend: o.Backend,
		Limit: 3*perRequest*time.Duration(o.Rounds+1) + 10*time.Second,
	}
	sent, really, err := exchange(ctx, o, l)
	if err != nil {
		return level, fmt.Errorf("measure %s at %d streams: %w", client, streams, err)
	}
	level.Figures = compare(sent.Exchanges, really.Streams, sent.Start)
	if level.Events > 0 {
		level.CPUPerEvent = probes.Known(sent.Usage.CPU.Seconds() / float64(level.Events))
		level.ServerCPUPerEvent = probes.Known(really.CPU.Seconds() / float64(level.Events))
	}
	if t := sent.Usage.Throttling; t.Known && o.CPUQuota != 0 {
		level.Throttled = probes.Known(t.Held.Seconds())
	}
	level.GCPauses, level.GCPauseMax = sent.Usage.GCPauses, sent.Usage.GCPauseMax.Seconds()
	level.Trusted = trusted(level.Figures)
	return level, nil
}

// measureOffered runs the open loop.
func measureOffered(ctx context.Context, o Options) (probes.Optional[Offered], error) {
	o.Progress("offered rate")
	sent, _, err := exchange(ctx, o, load{
		Client: clientOwn, Requests: o.script.requests, Rate: o.script.rate, Tokens: o.script.short, Backend: o.Backend, Limit: time.Minute,
	})
	if err != nil {
		return probes.Optional[Offered]{}, fmt.Errorf("measure the offered rate: %w", err)
	}
	return offered(sent.Exchanges, o.script.rate), nil
}

// startServer starts a truth server in a process of its own.
func startServer(ctx context.Context, o Options) (*child, hello, error) {
	var known hello
	server, err := startChild(ctx, o.Command, nil, order{Serve: &o.script.Config})
	if err != nil {
		return nil, known, err
	}
	if err := server.answer(&known); err != nil {
		return nil, known, errors.Join(err, server.stop())
	}
	return server, known, nil
}

// takeStreams asks a server what it has done.
func takeStreams(server *child) (taken, error) {
	var really taken
	if err := server.out.Encode(true); err != nil {
		return really, fmt.Errorf("ask the truth server: %w", err)
	}
	return really, server.answer(&really)
}

// exchange lets one client process talk to one server process. The client's
// start comes back as its shift towards the server's clock.
func exchange(ctx context.Context, o Options, l load) (outcome, taken, error) {
	var sent outcome
	server, known, err := startServer(ctx, o)
	if err != nil {
		return sent, taken{}, err
	}
	defer func() { _ = server.stop() }()
	l.Address = known.Address
	client, err := startChild(ctx, o.Command, o.cage, order{Load: &l})
	if err != nil {
		return sent, taken{}, err
	}
	defer func() { _ = client.stop() }()
	if err := client.answer(&sent); err != nil {
		return sent, taken{}, err
	}
	sent.Start -= known.Start
	really, err := takeStreams(server)
	return sent, really, err
}

// clockDoubt is how far a stamp may seem to lie before the write that caused it:
// the error of laying two processes' time lines over each other is far smaller.
const clockDoubt = -20 * time.Microsecond

// trusted is the smallest bound that a level keeps.
func trusted(f Figures) probes.Optional[float64] {
	lag, known := f.Lag.Get()
	if !known || f.Failed > 0 || lag.Min < clockDoubt.Seconds() {
		return probes.Optional[float64]{}
	}
	for _, bound := range Bounds {
		if lag.P99 <= bound.Seconds() {
			return probes.Known(bound.Seconds())
		}
	}
	return probes.Optional[float64]{}
}

// trust finds for each bound the highest level up to which it holds.
func trust(levels []Level) []Trust {
	var out []Trust
	for _, bound := range Bounds {
		t := Trust{Bound: bound.Seconds()}
		for _, level := range levels {
			to, ok := level.Trusted.Get()
			if !ok || to > bound.Seconds() {
				break
			}
			t.Streams, t.EventsPerSecond = probes.Known(level.Streams), probes.Known(level.EventsPerSecond)
		}
		out = append(out, t)
	}
	return out
}

// Best is the highest level that keeps any bound, 0 when none does.
func (r *Report) Best() int {
	best := 0
	for _, t := range r.Trust {
		if n, ok := t.Streams.Get(); ok {
			best = max(best, n)
		}
	}
	return best
}

// beside finds another client's figures for a level.
func (r *Report) beside(client string, streams int) (Level, bool) {
	i := slices.IndexFunc(r.Others, func(l Level) bool { return l.Client == client && l.Streams == streams })
	if i < 0 {
		return Level{}, false
	}
	return r.Others[i], true
}
