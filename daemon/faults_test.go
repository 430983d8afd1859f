package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

const faultsFile = "FAULTS.md"

// A replica is well for so many nights before a fault, which lasts for so many.
const (
	wellNights = 16
	sickNights = 8
)

// nightlyFault is something that befalls a replica one night and stays.
type nightlyFault struct {
	name   string
	sick   func(*fakellm.Config)
	spec   func() probes.Spec
	engine func() fakellm.Config
}

// speculating is a replica that drafts tokens; its steps scatter by a tenth.
func speculating() fakellm.Config {
	return fakellm.Config{
		Model: "m", Engine: fakellm.SGLang, MaxBatch: 16, Jitter: 0.1, MeanOutputTokens: 1_000_000,
		PrefillBase: 30 * time.Millisecond, DecodeBase: 12 * time.Millisecond, DecodePerSequence: 500 * time.Microsecond,
		Speculation: fakellm.Speculation{DraftTokens: 4, AcceptLength: 3},
	}
}

// capacitated is a replica that a sweep can saturate cheaply.
func capacitated() fakellm.Config {
	return fakellm.Config{
		Model: "m", Engine: fakellm.SGLang, MaxBatch: 8, Jitter: 0.1, MeanOutputTokens: 1_000_000,
		PrefillBase: 20 * time.Millisecond, PrefillTokensPerSecond: 1e6, DecodeBase: 8 * time.Millisecond, DecodePerSequence: 500 * time.Microsecond,
	}
}

func nightlyLoad() probes.Spec {
	s := loadSpec()
	s.Requests, s.Arrivals = 120, probes.Arrivals{Process: probes.Poisson, Rate: 4}
	s.Workload.InputTokens, s.Workload.OutputTokens = 256, 100
	s.Workload.Dataset, s.Workload.TokenIDs = "random-ids", true
	s.Regression = probes.Regression{Enabled: true, Confirm: true}
	s.SLOs = []probes.SLO{{Name: "answered", Objective: 0.99, Bounds: map[probes.Signal]time.Duration{probes.E2E: 2 * time.Second}}}
	return s
}

func nightlySweep() probes.Spec {
	s := sweepSpec(1)
	s.Sweep.Rates = []float64{14, 17, 20, 23, 26, 30}
	s.Requests, s.Regression = 300, probes.Regression{Enabled: true}
	return s
}

var nightlyFaults = []nightlyFault{
	{"time per output token +20 %", func(c *fakellm.Config) {
		c.DecodeBase, c.DecodePerSequence = c.DecodeBase*6/5, c.DecodePerSequence*6/5
	}, nightlyLoad, speculating},
	{"time to first token +200 ms", func(c *fakellm.Config) {
		c.Faults = []fakellm.Fault{{Kind: fakellm.Stall, Delay: 200 * time.Millisecond}}
	}, nightlyLoad, speculating},
	{"1 % of the streams stall for 2 s", func(c *fakellm.Config) {
		c.Faults = []fakellm.Fault{{Kind: fakellm.Stall, Probability: 0.01, AfterTokens: 20, Delay: 2 * time.Second}}
	}, nightlyLoad, speculating},
	{"0.5 % of the streams are truncated", func(c *fakellm.Config) {
		c.Faults = []fakellm.Fault{{Kind: fakellm.Truncate, Probability: 0.005, AfterTokens: 20}}
	}, nightlyLoad, speculating},
	{"5 % of the streams are truncated", func(c *fakellm.Config) {
		c.Faults = []fakellm.Fault{{Kind: fakellm.Truncate, Probability: 0.05, AfterTokens: 20}}
	}, nightlyLoad, speculating},
	{"accept length 3 to 1.2", func(c *fakellm.Config) { c.Speculation.AcceptLength = 1.2 }, nightlyLoad, speculating},
	{"every step takes 1/0.85 of its time", func(c *fakellm.Config) {
		slower := func(d time.Duration) time.Duration { return d * 100 / 85 }
		c.PrefillBase, c.DecodeBase, c.DecodePerSequence = slower(c.PrefillBase), slower(c.DecodeBase), slower(c.DecodePerSequence)
	}, nightlySweep, capacitated},
}

// diagnosis is what the nights of a replica led to.
type diagnosis struct {
	alarms   map[probes.RegressionMetric]int // first night, from 1, on which it is confirmed; of the sick nights
	effects  map[probes.RegressionMetric]string
	warned   int // first sick night whose verdict is not pass; 0: none
	reason   string
	runs     int // in all nights
	falsely  int // confirmed before there was a fault
	judged   int // metrics
	unjudged int // nights that could not be believed
}

// live plays the nights of a replica through the whole chain: workload, arrivals,
// backend, stream, summary, validity and the judgement of nights. Every night has a
// server of its own, whose scatter is drawn from the night's number.
func live(t *testing.T, f nightlyFault, sick int) diagnosis {
	t.Helper()
	out := diagnosis{alarms: map[probes.RegressionMetric]int{}, effects: map[probes.RegressionMetric]string{}}
	synctest.Test(t, func(t *testing.T) {
		spec, target := f.spec(), fakeTarget("sglang")
		server, runner := newServed(t, nil)
		defer runner.Close()
		app := &App{
			tracker: newTracker(time.Now), config: config.Default(), log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			nights: nights{past: &ephemeral{}}, runner: runner,
		}
		app.tracker.replace([]config.Pair{{Target: target, Spec: spec}}, nil, nil)
		confirmed := map[probes.RegressionMetric]bool{}
		for night := range wellNights + sickNights {
			time.Sleep(24*time.Hour - time.Since(time.Now().Truncate(24*time.Hour)))
			c := f.engine()
			c.Seed = int64(1000 + night)
			ill := night - wellNights + 1 // from 1
			if ill > 0 && sick > 0 {
				f.sick(&c)
			}
			server.set(engineHandler(t, c))
			run := runner.Run(context.Background(), target, spec, &loadgen.Progress{}, Hooks{Odd: app.oddNight})
			app.judgeNights(&spec, run)
			out.runs += max(1, len(run.Parts))
			if run.Changes == nil {
				out.unjudged++
			}
			if ill > 0 && out.warned == 0 && run.Verdict.State != probes.Pass {
				out.warned, out.reason = ill, run.Verdict.Reasons[0].Code
			}
			for _, c := range run.Changes {
				switch {
				case c.State != probes.ChangeWorse && c.State != probes.ChangeDrift:
					delete(confirmed, c.Metric)
					continue
				case ill > 0 && sick > 0:
					if out.alarms[c.Metric] == 0 {
						out.alarms[c.Metric] = ill
					}
					out.effects[c.Metric] = fmt.Sprintf("%+.0f %%", 100*c.Effect.Or(0))
				case !confirmed[c.Metric]:
					out.falsely++
				}
				confirmed[c.Metric] = true
			}
			out.judged = len(run.Changes)
		}
	})
	return out
}

func engineHandler(t *testing.T, c fakellm.Config) http.Handler {
	t.Helper()
	engine, err := fakellm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Handler()
}

// row is the table's line of a fault, beside the twin of the same nights without it.
func (f nightlyFault) row(sick, well diagnosis) string {
	var seen []string
	for _, metric := range probes.RegressionMetrics {
		if night := sick.alarms[metric]; night > 0 {
			seen = append(seen, fmt.Sprintf("%s %s (night %d)", metric, sick.effects[metric], night))
		}
	}
	found := strings.Join(seen, ", ")
	if found == "" {
		found = "-"
	}
	verdict := "-"
	if sick.warned > 0 {
		verdict = fmt.Sprintf("night %d: %s", sick.warned, sick.reason)
	}
	nights := wellNights + sickNights
	return fmt.Sprintf("| %s | %s | %s | %.1f | %d in %d nights of %d metrics |", f.name, found, verdict, float64(sick.runs)/float64(nights), well.falsely+sick.falsely, 2*nights-sickNights, well.judged)
}

// pools are eight replicas under a canary, of which the last one is slower.
func slowReplica(t *testing.T, factor float64) (marked map[string]string) {
	t.Helper()
	marked = map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		server, runner := newServed(t, nil)
		defer runner.Close()
		var pairs []probes.PairStatus
		for i := range 8 {
			c := speculating()
			c.Seed = int64(i)
			if i == 7 {
				c.DecodeBase = time.Duration(float64(c.DecodeBase) * factor)
				c.DecodePerSequence = time.Duration(float64(c.DecodePerSequence) * factor)
			}
			server.set(engineHandler(t, c))
			spec, target := nightlyLoad(), fakeTarget("sglang")
			target.Name = fmt.Sprintf("replica-%d", i+1)
			run := runner.Run(context.Background(), target, spec, &loadgen.Progress{}, Hooks{})
			pairs = append(pairs, probes.PairStatus{
				Pair: run.Pair(), Kind: spec.Kind, Spec: spec,
				Result: &probes.Result{CompletedAt: run.End, Summary: run.Summary, Validity: run.Validity},
			})
		}
		outliers(pairs)
		for _, p := range pairs {
			for _, reason := range p.Peers {
				metric, _, _ := strings.Cut(reason.Text, " ")
				marked[p.Pair.Target] += metric + " "
			}
		}
	})
	return marked
}

// TestFaultTable injects faults into a simulated replica and asks the whole chain what
// it made of them. With -long it writes the table; else it repeats the first line.
func TestFaultTable(t *testing.T) {
	if *long {
		if err := os.WriteFile(faultsFile, []byte(faultTable(t)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(faultsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range nightlyFaults {
		if !strings.Contains(string(text), "\n| "+f.name+" |") {
			t.Errorf("%s lacks %q; go test ./daemon -run TestFaultTable -args -long writes it", faultsFile, f.name)
		}
	}
	f := nightlyFaults[0]
	sick := live(t, f, sickNights)
	if want := f.row(sick, diagnosis{judged: sick.judged}); !strings.Contains(string(text), want[:strings.LastIndex(strings.TrimSuffix(want, " |"), "|")]) {
		t.Errorf("%s does not say what happens now:\n%s", faultsFile, want)
	}
	if sick.alarms[probes.MetricTPOTp50] != 2 {
		t.Errorf("time per output token + 20 %% is confirmed on night %d, want the second one", sick.alarms[probes.MetricTPOTp50])
	}
}

func faultTable(t *testing.T) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What is found, and when

Written by `+"`go test ./daemon -run TestFaultTable -args -long`"+`; do not edit. The default test repeats the first line.

A simulated replica goes through the whole chain in virtual time: %d nights well, then %d with a fault. Each night is another
process with a scatter of its own; an odd run is run twice more at once. A load has 120 requests of 100 tokens, a sweep six
rates. Night 1 is the first one with the fault; positive changes are for the worse. The load promises that 99 %% of its requests
take less than 2 s. A verdict may come before a regression is confirmed, from what the
run alone shows. False alarms are those of the nights before the fault and of a twin without it.

| fault | confirmed | first verdict other than pass | runs a night | false alarms |
| --- | --- | --- | --- | --- |
`, wellNights, sickNights)
	twins := map[probes.Kind]diagnosis{}
	for _, f := range nightlyFaults {
		kind := f.spec().Kind
		twin, ok := twins[kind]
		if !ok {
			twin = live(t, f, 0)
			twins[kind] = twin
		}
		b.WriteString(f.row(live(t, f, sickNights), twin) + "\n")
	}
	marked := slowReplica(t, 1.2)
	fmt.Fprintf(&b, "\nOne replica of eight whose time per output token is 20 %% longer is marked after its first run, by: %s.\nOf the seven others %d are marked, and %d of eight that are alike.\n",
		strings.Join(strings.Fields(marked["replica-8"]), ", "), len(marked)-min(1, len(marked["replica-8"])), len(slowReplica(t, 1)))
	return b.String()
}
