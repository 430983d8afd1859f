package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/daemon/guard"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/inspect"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

const (
	// lookTime bounds everything that is asked of a server before or after a run.
	lookTime = 2 * time.Second
	// sampleEvery is how often the server's page is read during a run.
	sampleEvery = time.Second
	// maxSamples bounds the samples of a run; a longer one is sampled less often.
	maxSamples = 2048
	// glanceEvery is how often a continuous probe looks at its server. Its runs
	// are a request or two; a page more for each would double their load.
	glanceEvery = 5 * time.Minute
)

// observer reads the server's own view of a pair's runs. It has connections of
// its own: a page must not take the warm connection that a request would have had.
type observer struct {
	client *backend.Client
	reader *inspect.Reader

	facts  probes.ServerFacts // as far as ever read
	starts []string           // of the server, as its facts tell them apart; the latest last
	sample inspect.Sample     // of the last look of a continuous probe
	looked time.Time
}

func newObserver(target probes.Target, options backend.Options) (*observer, error) {
	target.Connection.Policy = probes.ConnectionReuse
	client, err := backend.New(target, options)
	if err != nil {
		return nil, err
	}
	return &observer{client: client, reader: inspect.NewReader(client, target.Backend, target.MetricsURL)}, nil
}

// look reads everything. What could be read before and not now stays known. fresh
// says that the server is in a life that was never seen before.
func (o *observer) look(ctx context.Context, model string) (facts probes.ServerFacts, sample inspect.Sample, fresh bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	facts, sample = o.reader.Read(ctx, model)
	o.looked = time.Now()
	sample.At = o.looked
	facts.FillFrom(&o.facts)
	o.facts = facts
	if fresh = !slices.Contains(o.starts, facts.Incarnation); fresh {
		o.starts = append(o.starts[max(0, len(o.starts)-maxStarts+1):], facts.Incarnation)
	}
	return facts, sample, fresh
}

// maxStarts bounds what is remembered of earlier lives.
const maxStarts = 64

func (o *observer) glimpse(ctx context.Context) inspect.Sample {
	sample := o.reader.Sample(ctx)
	sample.At = time.Now()
	return sample
}

// observation is what is seen of one run.
type observation struct {
	*observer
	run      *probes.Run
	before   inspect.Sample
	from     time.Time // what was sampled earlier is no part of the result; zero: all is
	stop     func() []inspect.Sample
	panicked func(any)
	guard    *guard.Watch
}

// observe begins with what the server is. A continuous probe looks later, and
// seldom.
func (o *observer) observe(ctx context.Context, run *probes.Run, hooks Hooks) *observation {
	seen := &observation{observer: o, run: run, panicked: hooks.Panicked, guard: hooks.watch, stop: notWatching}
	if !run.Spec.Kind.Continuous() {
		run.Facts, seen.before, _ = o.look(ctx, run.Target.Model)
		if waiting, ok := seen.before.Waiting.Get(); ok {
			seen.guard.Starting(waiting)
		}
	}
	return seen
}

func notWatching() []inspect.Sample { return nil }

// close ends the watch on a run that did not come to its end.
func (o *observation) close() []inspect.Sample {
	samples := o.stop()
	o.stop = notWatching
	return samples
}

// measuring is called when the measured part begins.
func (o *observation) measuring(ctx context.Context) {
	if !o.before.Readable() {
		return
	}
	if len(o.run.Warmup) > 0 {
		o.before = o.glimpse(ctx) // the warm-up is no part of the result
	}
	o.stop = o.watch(ctx)
}

// watch takes samples until it is stopped, one request at a time.
func (o *observation) watch(ctx context.Context) (stop func() []inspect.Sample) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan []inspect.Sample, 1)
	go func() {
		var samples []inspect.Sample
		defer func() {
			if cause := recover(); cause != nil && o.panicked != nil {
				o.panicked(cause)
			}
			done <- samples
		}()
		every := sampleEvery
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if sample := o.glimpse(ctx); sample.Readable() {
				samples = append(samples, sample)
				if waiting, ok := sample.Waiting.Get(); ok {
					o.guard.Waiting(waiting)
				}
			}
			if len(samples) == maxSamples {
				samples, every = everySecond(samples), 2*every
				ticker.Reset(every)
			}
		}
	}()
	return func() []inspect.Sample {
		cancel() // ends the request that may be under way, so this does not wait for the server
		return <-done
	}
}

func everySecond(samples []inspect.Sample) []inspect.Sample {
	for i := range len(samples) / 2 {
		samples[i] = samples[2*i]
	}
	return slices.Clip(samples[:len(samples)/2])
}

// ended is called when the last request has ended. It gives what the server says
// about the run and adds to the evidence.
func (o *observation) ended(ctx context.Context, evidence *verdict.Evidence) probes.ServerSummary {
	during := o.since(o.close())
	if o.run.Spec.Kind.Continuous() {
		return o.glance(ctx)
	}
	facts, after, fresh := o.look(ctx, o.run.Target.Model)
	server := inspect.Delta(o.before, after, during)
	evidence.Changed = o.run.Facts.Changed(&facts)
	// A life seen earlier is that of another replica under the same address.
	evidence.ServerRestarted = server.Restarted || fresh && o.run.Facts.Restarted(&facts)
	server.Restarted = evidence.ServerRestarted
	return server
}

// since leaves out what was sampled before the measured part, and lets its counters
// begin with the last such sample.
func (o *observation) since(samples []inspect.Sample) []inspect.Sample {
	n := 0
	for n < len(samples) && samples[n].At.Before(o.from) {
		n++
	}
	if n > 0 {
		o.before = samples[n-1]
	}
	return samples[n:]
}

// glance is the seldom look of a continuous probe. The counters speak about the
// time since the last one; a restart in that time is no fault of this run.
func (o *observation) glance(ctx context.Context) (server probes.ServerSummary) {
	if o.looked.IsZero() || time.Since(o.looked) >= glanceEvery {
		last := o.sample
		_, o.sample, _ = o.look(ctx, o.run.Target.Model)
		server = inspect.Delta(last, o.sample, []inspect.Sample{o.sample})
	}
	o.run.Facts = o.facts
	return server
}
