package daemon

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// shardTarget dials for each request, so that shards reuse no fewer connections
// than one process does.
func shardTarget() probes.Target {
	t := fakeTarget("vllm")
	t.Connection.Policy = probes.ConnectionNew
	return t
}

// runShards runs all shards of a load at once, each in a process of its own, and
// reads their results back from what they wrote. Each comes to life at another time.
func runShards(t *testing.T, dial *Runner, spec probes.Spec, of int) []*probes.Run {
	t.Helper()
	start := time.Now().Add(time.Minute)
	runs := make([]*probes.Run, of)
	var all sync.WaitGroup
	for i := range of {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 7 * time.Second)
			runner := &Runner{UserAgent: "inferbeat/test", Dial: dial.Dial}
			defer runner.Close()
			part := spec
			part.Shard = probes.Shard{Index: i, Of: of, Start: start}
			runs[i] = runner.Run(context.Background(), shardTarget(), part, &loadgen.Progress{}, Hooks{})
		})
	}
	all.Wait()
	for i, run := range runs {
		if run.Error != "" {
			t.Fatalf("shard %d: %s", i, run.Error)
		}
		if !run.Start.Equal(start) {
			t.Fatalf("shard %d started at %s, want %s", i, run.Start, start)
		}
		runs[i] = reread(t, run)
	}
	return runs
}

// reread is a run as it comes out of its file.
func reread(t *testing.T, run *probes.Run) *probes.Run {
	t.Helper()
	text, err := jsonl.Encode(run, jsonl.Options{Details: true})
	if err != nil {
		t.Fatal(err)
	}
	read, err := jsonl.Read(fmt.Sprintf("shard-%d.jsonl", run.Spec.Shard.Index), bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return read[0]
}

// betweenTokens ends a window at an instant at which no token comes: whether one
// that comes with the cut is seen is chance.
const betweenTokens = 5*time.Second - 500*time.Microsecond

// A load that three processes send is the load that one process sends: the same
// requests at the same times, and a result that is equal to the bit. Only the ids
// differ, and what was seen of processes and of the server's own counters.
func TestMergedShardsEqualOneRun(t *testing.T) {
	for name, change := range map[string]func(*probes.Spec){
		"constant": func(*probes.Spec) {},
		"poisson":  func(s *probes.Spec) { s.Arrivals.Process, s.Workload.RangeRatio = probes.Poisson, 0.5 },
		"burst":    func(s *probes.Spec) { s.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)} },
		"window":   func(s *probes.Spec) { s.Requests, s.Duration = 0, betweenTokens },
		"cut":      func(s *probes.Spec) { s.Duration = betweenTokens },
		"trace": func(s *probes.Spec) {
			var rows strings.Builder
			for i := range 40 {
				fmt.Fprintf(&rows, `{"timestamp": %d, "prompt": "Request number %d.", "output_length": %d}`+"\n", 130*i+i*i, i, 5+i%7)
			}
			*s = replaySpec("trace", traceFile(t, rows.String()))
			s.Workload.Trace = probes.Trace{TimeUnit: "ms"}
			s.Workload.Cache = probes.CacheWarm // the two runs' salts are not equally many tokens
		},
		"promises": func(s *probes.Spec) {
			s.SLOs = []probes.SLO{{Name: "fast", Objective: 0.5, Bounds: map[probes.Signal]time.Duration{probes.TTFT: 150 * time.Millisecond}}}
			s.Limits = []probes.Limit{{Signal: probes.TTFT, Statistic: probes.StatP50, Severity: probes.Critical, Bound: 0.1}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := loadSpec()
			spec.KeepText = true
			change(&spec)
			engine := func(c *fakellm.Config) {
				if name == "burst" { // whichever comes first is served alike
					c.Script.TTFT = []time.Duration{100 * time.Millisecond}
				}
			}
			var one, merged *probes.Run
			synctest.Test(t, func(t *testing.T) {
				_, runner := scripted(t, engine)
				defer runner.Close()
				one = runner.Run(context.Background(), shardTarget(), spec, &loadgen.Progress{}, Hooks{})
			})
			synctest.Test(t, func(t *testing.T) {
				_, runner := scripted(t, engine)
				defer runner.Close()
				shards := runShards(t, runner, spec, 3)
				slices.Reverse(shards) // in whichever order the files are named
				var err error
				if merged, err = Merge(shards); err != nil {
					t.Fatal(err)
				}
			})
			byIndex := cmpopts.SortSlices(func(a, b probes.Record) bool { return a.Index < b.Index })
			ids := cmpopts.IgnoreFields(probes.Record{}, "ID", "Text")
			if d := cmp.Diff(one.Records, merged.Records, byIndex, ids, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("records (-one +merged):\n%s", d)
			}
			own := cmp.Options{
				cmpopts.IgnoreFields(probes.Summary{}, "Server"), cmpopts.IgnoreFields(probes.Client{}, "Process"),
			}
			if d := cmp.Diff(one.Summary, merged.Summary, own); d != "" {
				t.Errorf("summary (-one +merged):\n%s", d)
			}
			if one.Summary.Completed == 0 || one.Result != merged.Result || one.Fingerprint != merged.Fingerprint || merged.Merged != 3 {
				t.Errorf("results %s and %s of %d completed, fingerprints %s and %s, merged from %d; want the same of some, from 3",
					one.Result, merged.Result, one.Summary.Completed, one.Fingerprint, merged.Fingerprint, merged.Merged)
			}
			if d := cmp.Diff([]any{one.Validity, one.Verdict}, []any{merged.Validity, merged.Verdict}); d != "" {
				t.Errorf("judgement (-one +merged):\n%s", d)
			}
		})
	}
}

// The warm-up is split too, and is over before the common start.
func TestShardsWarmUpBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		spec := loadSpec()
		spec.Requests, spec.Warmup.Requests = 9, 2
		shards := runShards(t, runner, spec, 3)
		for i, want := range []int{1, 1, 0} {
			if got := len(shards[i].Warmup); got != want {
				t.Errorf("shard %d sent %d warm-up requests, want %d", i, got, want)
			}
			for _, r := range shards[i].Warmup {
				if end, _ := r.End.Get(); end >= 0 || r.Sent >= end {
					t.Errorf("shard %d: a warm-up request went from %s to %s, want it over before 0", i, r.Sent, end)
				}
			}
		}
		merged, err := Merge(shards)
		if err != nil || merged.Summary.Warmup != 2 || merged.Summary.Completed != 9 {
			t.Errorf("merged %d warm-up requests and %d results, error %v; want 2 and 9", merged.Summary.Warmup, merged.Summary.Completed, err)
		}
	})
}

// A shard that comes too late would send its first requests in a heap.
func TestShardTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		spec := loadSpec()
		spec.Shard = probes.Shard{Index: 1, Of: 2, Start: time.Now().Add(-1500 * time.Millisecond)}
		run := runner.Run(context.Background(), shardTarget(), spec, &loadgen.Progress{}, Hooks{})
		want := "start shard 1 of 2: it was ready 1.5s after the common start " + spec.Shard.Start.Format(time.RFC3339) + "; choose a later one"
		if run.Result != probes.RunFailed || run.Error != want || len(run.Records) != 0 {
			t.Errorf("result %s, error %q, %d records; want failed, %q, none", run.Result, run.Error, len(run.Records), want)
		}
	})
}

// A turn waits for an answer that another shard may get.
func TestSessionsAreNotSplit(t *testing.T) {
	spec := replaySpec("trace", traceFile(t, `{"timestamp": 0, "prompt": "One.", "output_length": 2}`+"\n"+`{"timestamp": 9, "prompt": "Two.", "output_length": 2, "session_id": "a"}`))
	spec.Workload.Trace = probes.Trace{TimeUnit: "ms"}
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		spec.Shard = probes.Shard{Index: 0, Of: 2, Start: time.Now().Add(time.Minute)}
		run := runner.Run(context.Background(), shardTarget(), spec, &loadgen.Progress{}, Hooks{})
		want := "read workload w: split the trace: it has sessions, whose turns wait for answers that another shard gets; run it in one piece"
		if run.Result != probes.RunFailed || run.Error != want {
			t.Errorf("result %s, error %q; want failed, %q", run.Result, run.Error, want)
		}
	})
}

// All shards of a load salt their prompts alike; another load salts otherwise.
func TestShardsShareTheirSalt(t *testing.T) {
	spec := loadSpec()
	spec.Shard = probes.Shard{Index: 0, Of: 3, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	id := shardRunID(&spec)
	if !strings.HasPrefix(id, "019b7ca9-8c88-7") {
		t.Errorf("id = %s, want a UUIDv7 of the start", id)
	}
	other := spec
	if other.Shard.Index = 2; shardRunID(&other) != id {
		t.Error("two shards of a load have two ids")
	}
	for name, change := range map[string]func(*probes.Spec){
		"start": func(s *probes.Spec) { s.Shard.Start = s.Shard.Start.Add(1) },
		"seed":  func(s *probes.Spec) { s.Workload.Seed++ },
		"of":    func(s *probes.Spec) { s.Shard.Of++ },
	} {
		other := spec
		if change(&other); shardRunID(&other) == id {
			t.Errorf("another %s has the same id", name)
		}
	}
}

func TestCheckShard(t *testing.T) {
	for want, change := range map[string]func(*probes.Spec){
		"":                            func(*probes.Spec) {},
		"shard: 3 is not from 0 to 2": func(s *probes.Spec) { s.Shard.Index = 3 },
		"shard: a probe of kind peak cannot be split; a load or a replay can": func(s *probes.Spec) { s.Kind = probes.Peak },
		"shard: a closed loop cannot be split: its requests are due when others have ended; choose a finite rate or all at once without a cap": func(s *probes.Spec) {
			s.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 3}
		},
		"shard: a cap on the requests in flight cannot be split: a slot of one shard is of no use to the others; leave it out": func(s *probes.Spec) { s.Arrivals.MaxConcurrency = 6 },
		"shard: sessions cannot be split: a turn waits for the answer to the one before it":                                    func(s *probes.Spec) { s.Workload.Trace.Rounds = 2 },
		"shard: there are more shards than the 2 requests":                                                                     func(s *probes.Spec) { s.Requests, s.Shard.Index = 2, 2 },
		"shard: repeats cannot be split; start each of them with a start of its own":                                           func(s *probes.Spec) { s.Repeats = 2 },
		"shard: a part of a load has no throughput to compare with an offline result; leave that out":                          func(s *probes.Spec) { s.OfflineResult = "f" },
	} {
		spec := loadSpec()
		spec.Shard = probes.Shard{Index: 1, Of: 3, Start: time.Now()}
		change(&spec)
		got := ""
		if err := CheckShard(spec); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}

// shardOf is one result as it is read.
func shardOf(index, of int) *probes.Run {
	run := &probes.Run{ID: "id", Origin: fmt.Sprintf("%d.jsonl:1", index), Whole: "abc", Complete: true, Spec: loadSpec()}
	run.Spec.Requests = 2 * of
	run.Spec.Shard = probes.Shard{Index: index, Of: of, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for i := range 2 {
		run.Records = append(run.Records, probes.Record{Index: index + i*of, Outcome: probes.HTTP5xx})
	}
	return run
}

func TestMergeRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(shards []*probes.Run) []*probes.Run
		want   string
	}{
		{"none", func([]*probes.Run) []*probes.Run { return nil }, "merge shards: there are none"},
		{"missing", func(s []*probes.Run) []*probes.Run { return s[:2] }, "merge shards: shard 2 of 3 is missing; 0.jsonl:1 and the others are not the whole load"},
		{"twice", func(s []*probes.Run) []*probes.Run {
			again := shardOf(1, 3)
			again.Origin = "again.jsonl:1"
			return append(s, again)
		}, "again.jsonl:1: shard 1 of 3 is in 1.jsonl:1 too; leave one of them out"},
		{"no shard", func(s []*probes.Run) []*probes.Run {
			s[1].Spec.Shard = probes.Shard{}
			return s
		}, "1.jsonl:1: is no shard: it was run without --shard"},
		{"count", func(s []*probes.Run) []*probes.Run {
			s[1].Spec.Shard.Of = 4
			return s
		}, "1.jsonl:1: its number of shards is 4 and not 3 as in 0.jsonl:1, so they are not parts of one load"},
		{"start", func(s []*probes.Run) []*probes.Run {
			s[2].Spec.Shard.Start = s[2].Spec.Shard.Start.Add(time.Millisecond)
			return s
		}, "2.jsonl:1: its start is 2026-01-02T03:04:05.001Z and not 2026-01-02T03:04:05Z as in 0.jsonl:1, so they are not parts of one load"},
		{"seed", func(s []*probes.Run) []*probes.Run {
			s[2].Spec.Workload.Seed = 9
			return s
		}, "2.jsonl:1: its seed is 9 and not 1 as in 0.jsonl:1, so they are not parts of one load"},
		{"fingerprint", func(s []*probes.Run) []*probes.Run {
			s[2].Whole = "def"
			return s
		}, "2.jsonl:1: its fingerprint is def and not abc as in 0.jsonl:1, so they are not parts of one load"},
		{"run", func(s []*probes.Run) []*probes.Run {
			s[2].ID = "other"
			return s
		}, "2.jsonl:1: its run is other and not id as in 0.jsonl:1, so they are not parts of one load"},
		{"foreign request", func(s []*probes.Run) []*probes.Run {
			s[2].Records[1].Index = 3
			return s
		}, "2.jsonl:1: request 3 does not belong to shard 2 of 3"},
		{"request twice", func(s []*probes.Run) []*probes.Run {
			s[2].Records[1].Index = 2
			return s
		}, "2.jsonl:1: request 2 is there twice"},
		{"too many", func(s []*probes.Run) []*probes.Run {
			s[2].Records = append(s[2].Records, probes.Record{Index: 8})
			return s
		}, "2.jsonl:1: has 3 requests, but the shard's part is 2"},
	} {
		_, err := Merge(tt.change([]*probes.Run{shardOf(0, 3), shardOf(1, 3), shardOf(2, 3)}))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.name, err, tt.want)
		}
	}
}

// Of what the processes used the worst counts, what a shard saw happen to the server
// is not lost, and a shard that was cut cuts the whole.
func TestMergeKeepsWhatOneShardSaw(t *testing.T) {
	shards := []*probes.Run{shardOf(0, 3), shardOf(1, 3), shardOf(2, 3)}
	shards[0].Summary.Client.Process = probes.Process{CPUShare: probes.Known(0.25), GCPauses: probes.Known(2), GCPauseMax: probes.Known(time.Second), PortRoom: probes.Known(5)}
	shards[1].Summary.Client.Process = probes.Process{CPUShare: probes.Known(0.5), GCPauses: probes.Known(3), GCPauseMax: probes.Known(time.Minute), PortRoom: probes.Known(9)}
	shards[1].Validity = probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "server_restarted", Text: "the server restarted during the run"}}}
	shards[2].Complete = false
	run, err := Merge(shards)
	if err != nil {
		t.Fatal(err)
	}
	want := probes.Process{CPUShare: probes.Known(0.5), GCPauses: probes.Known(5), GCPauseMax: probes.Known(time.Minute), PortRoom: probes.Known(5)}
	if d := cmp.Diff(want, run.Summary.Client.Process); d != "" {
		t.Errorf("process (-want +got):\n%s", d)
	}
	if !slices.Contains(run.Validity.Reasons, probes.Reason{Code: "server_restarted", Text: "shard 1: the server restarted during the run"}) {
		t.Errorf("reasons %+v lack the restart that shard 1 saw", run.Validity.Reasons)
	}
	if run.Result != probes.RunAborted || run.Complete {
		t.Errorf("result %s, complete %v; want aborted, as one shard was", run.Result, run.Complete)
	}
}
