package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// Merge makes one run of all shards of a load: their records are pooled, and the
// summary, the validity and the verdict are computed anew, as if one process had
// sent them all. What each process saw alone is handled apart: of what the
// processes used the worst counts, what happened to the server is taken over, and
// the server's own counters, which each shard read at other moments, are left out.
//
// An error names the file and line of each run that does not belong to the others,
// and the shards that are missing.
func Merge(shards []*probes.Run) (*probes.Run, error) {
	if err := checkShards(shards); err != nil {
		return nil, err
	}
	shards = slices.SortedFunc(slices.Values(shards), func(a, b *probes.Run) int {
		return cmp.Compare(a.Spec.Shard.Index, b.Spec.Shard.Index)
	})
	first := shards[0]
	run := &probes.Run{
		ID: first.ID, Target: first.Target, Spec: first.Spec, Start: first.Start, Facts: first.Facts,
		Complete: true, Fingerprint: first.Whole, Merged: len(shards),
	}
	run.Spec.Shard = probes.Shard{}
	var process probes.Process
	var evidence verdict.Evidence
	for _, s := range shards {
		run.Records, run.Warmup = append(run.Records, s.Records...), append(run.Warmup, s.Warmup...)
		run.Complete = run.Complete && s.Complete
		run.SkippedRows = max(run.SkippedRows, s.SkippedRows)
		run.Sending.End = max(run.Sending.End, s.Sending.End)
		run.Sending.Window = run.Sending.Window || s.Sending.Window
		if s.End.After(run.End) {
			run.End = s.End
		}
		process = worse(process, s.Summary.Client.Process)
		evidence.Shards = append(evidence.Shards, s.Validity)
	}
	// In the order in which one process would have seen them end.
	slices.SortStableFunc(run.Records, func(a, b probes.Record) int {
		return cmp.Or(cmp.Compare(a.End.Or(a.Due), b.End.Or(b.Due)), cmp.Compare(a.Index, b.Index))
	})
	evidence.Interrupted = !run.Complete
	condense(run, probes.ServerSummary{}, process, evidence)
	return run, nil
}

// checkShards makes sure that the runs are all parts of one load, each of them once.
func checkShards(shards []*probes.Run) error {
	if len(shards) == 0 {
		return errors.New("merge shards: there are none")
	}
	var errs []error
	first := shards[0]
	owner := map[int]*probes.Run{}
	for _, run := range shards {
		if err := belongs(run, first); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", run.Origin, err))
			continue
		}
		s := run.Spec.Shard
		if other := owner[s.Index]; other != nil {
			errs = append(errs, fmt.Errorf("%s: shard %d of %d is in %s too; leave one of them out", run.Origin, s.Index, s.Of, other.Origin))
			continue
		}
		owner[s.Index] = run
		errs = append(errs, checkRecords(run))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range first.Spec.Shard.Of {
		if owner[i] == nil {
			errs = append(errs, fmt.Errorf("merge shards: shard %d of %d is missing; %s and the others are not the whole load", i, first.Spec.Shard.Of, first.Origin))
		}
	}
	return errors.Join(errs...)
}

// belongs reports how a run differs from the first in what all shards have in common.
func belongs(run, first *probes.Run) error {
	a, b := run.Spec.Shard, first.Spec.Shard
	for _, d := range []struct {
		what        string
		mine, other any
	}{
		{"number of shards", a.Of, b.Of},
		{"start", a.Start.UTC().Format(time.RFC3339Nano), b.Start.UTC().Format(time.RFC3339Nano)},
		{"seed", run.Spec.Workload.Seed, first.Spec.Workload.Seed},
		{"fingerprint", run.Whole, first.Whole},
		{"run", run.ID, first.ID},
	} {
		if !a.Split() {
			return errors.New("is no shard: it was run without --shard")
		}
		if d.mine != d.other {
			return fmt.Errorf("its %s is %v and not %v as in %s, so they are not parts of one load", d.what, d.mine, d.other, first.Origin)
		}
	}
	if a.Index < 0 || a.Index >= a.Of {
		return fmt.Errorf("shard %d is not from 0 to %d", a.Index, a.Of-1)
	}
	return nil
}

// checkRecords refuses a file that has been cut, mixed or written twice.
func checkRecords(run *probes.Run) error {
	seen := make(map[int]bool, len(run.Records))
	for i := range run.Records {
		index := run.Records[i].Index
		if index < 0 || !run.Spec.Shard.Has(index) {
			return fmt.Errorf("%s: request %d does not belong to shard %d of %d", run.Origin, index, run.Spec.Shard.Index, run.Spec.Shard.Of)
		}
		if seen[index] {
			return fmt.Errorf("%s: request %d is there twice", run.Origin, index)
		}
		seen[index] = true
	}
	if want := run.Spec.Shard.Share(run.Spec.Requests); run.Complete && !run.Sending.Window && run.Spec.Arrivals.Process != probes.FromTrace && want > 0 && len(seen) > want {
		return fmt.Errorf("%s: has %d requests, but the shard's part is %d", run.Origin, len(seen), want)
	}
	return nil
}

// worse is what two processes used and were refused, as far as both or one know it:
// sums of what adds up, the highest share and the longest pause, the least room.
func worse(a, b probes.Process) probes.Process {
	return probes.Process{
		CPUShare:         join(a.CPUShare, b.CPUShare, highest),
		GCPauses:         join(a.GCPauses, b.GCPauses, sum),
		GCPauseTotal:     join(a.GCPauseTotal, b.GCPauseTotal, sum),
		GCPauseMax:       join(a.GCPauseMax, b.GCPauseMax, highest),
		ThrottledPeriods: join(a.ThrottledPeriods, b.ThrottledPeriods, sum),
		Throttled:        join(a.Throttled, b.Throttled, sum),
		DescriptorRoom:   join(a.DescriptorRoom, b.DescriptorRoom, lowest),
		PortRoom:         join(a.PortRoom, b.PortRoom, lowest),
	}
}

func join[T cmp.Ordered](a, b probes.Optional[T], both func(x, y T) T) probes.Optional[T] {
	x, okX := a.Get()
	y, okY := b.Get()
	switch {
	case okX && okY:
		return probes.Known(both(x, y))
	case okX:
		return a
	}
	return b
}

func sum[T cmp.Ordered](x, y T) T     { return x + y }
func highest[T cmp.Ordered](x, y T) T { return max(x, y) }
func lowest[T cmp.Ordered](x, y T) T  { return min(x, y) }
