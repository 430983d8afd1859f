package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/workload"
)

var replayCommand = command{
	name: "replay", usage: "replay [flags]", short: "send the requests of a trace at the trace's own times",
	about: `Sends recorded traffic again: each request at its own time, counted from the first one, and
each turn of a session once the turn before it has been answered. It is run with the times of
the trace (--use-trace-timestamps), all of its rows and --dataset-name trace as defaults, and
reports and exits like run.`,
	define: func(f *flagSet) action {
		options := defineKindFlags(f, probes.Replay)
		f.byDefault("dataset-name", workload.TraceRows)
		f.byDefault("use-trace-timestamps", "true")
		f.byDefault("num-prompts", "0")
		return func(ctx context.Context, p Process) (int, error) { return run(ctx, p, options, f.FlagSet) }
	},
}

// byDefault gives a flag another default.
func (f *flagSet) byDefault(name, value string) {
	for _, g := range f.groups {
		if flag := g.flags.Lookup(name); flag != nil {
			if err := flag.Value.Set(value); err != nil {
				panic("default of --" + name + ": " + err.Error()) // the command is written wrong
			}
			flag.DefValue = value
		}
	}
}

// traceArrivals are those of the trace; flags that say otherwise contradict it.
func (o *runFlags) traceArrivals(m *mistakes) probes.Arrivals {
	for _, name := range []string{"request-rate", "burstiness"} {
		if o.changed(name) {
			m.add(name, "contradicts the times of the trace; stretch them with --mooncake-slowdown-factor")
		}
	}
	if !workload.HasTimes(o.dataset) && !o.changed("use-trace-timestamps") {
		m.add("dataset-name", "dataset %s has no times to replay, use one of %q", o.dataset, timedDatasets)
	}
	a := probes.Arrivals{Process: probes.FromTrace, MaxConcurrency: o.maxConcurrency, StartTogether: o.startTogether}
	m.addFields(arrival.Validate(a))
	return a
}

// shape fills in what belongs to the dataset and to no other.
func (o *runFlags) shape(w *probes.Workload) {
	w.URL, w.SHA256, w.SkipBadRows = o.url, o.sha256, o.skipBadRows
	switch w.Dataset {
	case workload.GeneratedSharedPrefix:
		w.Groups = o.groups
		if o.groupChoice == "zipf" && !o.changed("gsp-zipf-alpha") {
			w.Groups.ZipfAlpha = 1
		}
	case workload.Image:
		w.Images = o.images
	case workload.TraceRows, workload.Mooncake, workload.BurstGPT, workload.Azure:
		w.Trace = o.trace
		if w.Dataset != workload.Mooncake {
			w.Trace.Name = ""
		}
	}
	if workload.Shares(w.Dataset) || w.Dataset == workload.TraceRows {
		w.Cache = probes.CacheShared
	}
}

// groupPrompts is how many prompts generated-shared-prefix has, which is what is
// asked for unless the call says otherwise; 0 for other datasets.
func (o *runFlags) groupPrompts() int {
	if o.dataset != workload.GeneratedSharedPrefix || o.changed("num-prompts") {
		return 0
	}
	return o.groups.Count * o.groups.PromptsOfEach
}

// datasetFile is the file that --dataset-path means.
func (o *runFlags) datasetFile() string {
	if info, err := os.Stat(o.path); o.dataset == workload.Mooncake && err == nil && info.IsDir() {
		return filepath.Join(o.path, o.trace.Name+"_trace.jsonl")
	}
	return o.path
}
