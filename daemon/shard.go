package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// measuringLead is how long before a shard's start its last look at the server is:
// long enough for that look, short enough to say what the load found.
const measuringLead = 500 * time.Millisecond

// CheckShard reports everything that keeps a load from being split into the shards
// of its spec, joined, each error naming its field.
func CheckShard(spec probes.Spec) error {
	s := spec.Shard
	if !s.Split() {
		return nil
	}
	var errs []error
	add := func(field, format string, args ...any) { errs = append(errs, fmt.Errorf(field+": "+format, args...)) }
	if s.Index < 0 || s.Index >= s.Of {
		add("shard", "%d is not from 0 to %d", s.Index, s.Of-1)
	}
	switch {
	case spec.Kind != probes.Load && spec.Kind != probes.Replay:
		add("shard", "a probe of kind %s cannot be split; a load or a replay can", spec.Kind)
	case spec.Arrivals.Process == probes.ClosedLoop:
		add("shard", "a closed loop cannot be split: its requests are due when others have ended; choose a finite rate or all at once without a cap")
	case spec.Arrivals.MaxConcurrency > 0:
		add("shard", "a cap on the requests in flight cannot be split: a slot of one shard is of no use to the others; leave it out")
	case spec.Workload.Trace.Rounds > 1:
		add("shard", "sessions cannot be split: a turn waits for the answer to the one before it")
	case spec.Requests > 0 && s.Share(spec.Requests) < 1:
		add("shard", "there are more shards than the %d requests", spec.Requests)
	}
	if spec.Repeats > 1 {
		add("shard", "repeats cannot be split; start each of them with a start of its own")
	}
	if spec.OfflineResult != "" {
		add("shard", "a part of a load has no throughput to compare with an offline result; leave that out")
	}
	return errors.Join(errs...)
}

// shardRunID is the same for all shards of one load, since it is the salt of the
// prompts: with salts of their own the shards would share no prefix that the load
// shares. It is a UUIDv7 of the common start.
func shardRunID(spec *probes.Spec) string {
	var seen [3]uint64
	seen[0], seen[1], seen[2] = uint64(spec.Shard.Start.UnixNano()), uint64(spec.Workload.Seed), uint64(spec.Shard.Of)
	hash := sha256.New()
	if err := binary.Write(hash, binary.BigEndian, seen); err != nil {
		panic(fmt.Sprintf("daemon: hash integers: %v", err)) // a hash refuses nothing
	}
	fmt.Fprintf(hash, "%q %q %d", spec.Probe, spec.Workload.Dataset, spec.Requests)
	var id uuid.UUID
	copy(id[:], hash.Sum(nil))
	ms := uint64(spec.Shard.Start.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// clockOf starts a run's clock: now, or for a shard at the common start, before
// which its offsets are negative.
func clockOf(spec *probes.Spec) probes.Clock {
	now := time.Now()
	if spec.Shard.Split() {
		now = now.Add(spec.Shard.Start.Sub(now)) // keeps the monotonic reading
	}
	return probes.Clock{Start: now}
}

// split is how one shard takes its part out of the whole plan.
type split struct {
	probes.Shard
	session bool // the plan has a session
}

// next passes the shard's requests on. Those of the others are made and thrown
// away, so that each request is the one that the whole plan has.
func (s *split) next(whole func() (*probes.Request, bool)) func() (*probes.Request, bool) {
	if !s.Split() {
		return whole
	}
	position := 0
	return func() (*probes.Request, bool) {
		for {
			request, ok := whole()
			if !ok {
				return nil, false
			}
			if request.Session != "" {
				s.session = true
				return nil, false
			}
			position++
			if s.Has(position - 1) {
				return request, true
			}
		}
	}
}

// warms reports whether a part of the warm-up is the shard's.
func (s *split) warms(w probes.Warmup) bool {
	return w != probes.Warmup{} && (w.Requests == 0 || s.Share(w.Requests) > 0)
}

// load takes the shard's due times out of a load.
func (s *split) load(l loadgen.Load) loadgen.Load {
	if !s.Split() {
		return l
	}
	l.Next, l.Offsets = s.next(l.Next), s.offsets(l.Offsets)
	if l.Count > 0 {
		l.Count = s.Share(l.Count)
	}
	return l
}

func (s *split) offsets(whole iter.Seq[time.Duration]) iter.Seq[time.Duration] {
	if whole == nil {
		return nil
	}
	return func(yield func(time.Duration) bool) {
		position := 0
		for offset := range whole {
			if s.Has(position) && !yield(offset) {
				return
			}
			position++
		}
	}
}

// err says that the plan could not be split after all.
func (s *split) err() error {
	if s.session {
		return errors.New("split the trace: it has sessions, whose turns wait for answers that another shard gets; run it in one piece")
	}
	return nil
}

// await blocks until the common start is near.
func (s *split) await(ctx context.Context, clock probes.Clock) error {
	if !s.Split() {
		return nil
	}
	timer := time.NewTimer(-measuringLead - clock.Now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the start of shard %d of %d: %w", s.Index, s.Of, context.Cause(ctx))
	}
}

// start is when the measured load begins: now, or for a shard at the common start,
// if that is not over.
func (s *split) start(clock probes.Clock) (time.Duration, error) {
	now := clock.Now()
	if !s.Split() {
		return now, nil
	}
	if now > 0 {
		return 0, fmt.Errorf("start shard %d of %d: it was ready %s after the common start %s; choose a later one",
			s.Index, s.Of, now.Round(time.Millisecond), s.Start.Format(time.RFC3339))
	}
	return 0, nil
}

// wholeFingerprint is that of the load which a shard is a part of.
func wholeFingerprint(run *probes.Run, version string) string {
	if !run.Spec.Shard.Split() {
		return ""
	}
	spec := run.Spec
	spec.Shard = probes.Shard{}
	return verdict.Fingerprint(spec, run.Target, run.Facts, version)
}
