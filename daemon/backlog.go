package daemon

import (
	"context"
	"sync"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// maxBacklog bounds the bytes of runs that wait for a disk: some 60,000 runs of canaries,
// or 90 loads of 1,000 requests with the times of each.
const maxBacklog = 64 << 20

// backlog are ended runs that could not be written. They wait in the order in which they
// ended, because the states of a later run must not be overwritten by those of an
// earlier one. When there are too many the oldest are lost, and counted.
type backlog struct {
	write func(context.Context, *store.Packed) error
	most  int // bytes; 0 is maxBacklog

	flushing sync.Mutex // one writer at a time; mu is never held while the disk is waited for

	mu      sync.Mutex
	waiting []waitingRun
	bytes   int
	lost    uint64
	// missing is the last run of a pair that is not on the disk.
	missing map[pairKey]string
}

type waitingRun struct {
	key pairKey
	run *store.Packed
}

// add writes a run, or lets it wait. The error is why something could not be written.
func (b *backlog) add(ctx context.Context, key pairKey, run *store.Packed) error {
	b.mu.Lock()
	free := len(b.waiting) == 0
	b.mu.Unlock()
	if free { // many at once share a transaction
		err := b.write(ctx, run)
		if err == nil {
			b.written(key)
			return nil
		}
		b.keep(key, run, store.Refused(err))
		return err
	}
	b.keep(key, run, false)
	return b.flush(ctx)
}

// written forgets that a pair's last run was missing: one that came after it is there.
func (b *backlog) written(key pairKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.missing, key)
}

// keep lets a run wait, or counts it as lost when it could never be written.
func (b *backlog) keep(key pairKey, run *store.Packed, refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.missing == nil {
		b.missing = map[pairKey]string{}
	}
	b.missing[key] = run.ID()
	if refused {
		b.lost++
		return
	}
	b.waiting = append(b.waiting, waitingRun{key, run})
	b.bytes += run.Size()
	most := b.most
	if most == 0 {
		most = maxBacklog
	}
	for b.bytes > most {
		b.drop()
		b.lost++
	}
}

// drop takes the first that waits out. b.mu is held.
func (b *backlog) drop() {
	b.bytes -= b.waiting[0].run.Size()
	b.waiting[0] = waitingRun{} // the slice's memory must not keep it
	b.waiting = b.waiting[1:]
}

// flush writes what waits, the oldest first, until one cannot be written.
func (b *backlog) flush(ctx context.Context) error {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	for {
		b.mu.Lock()
		if len(b.waiting) == 0 {
			b.waiting = nil
			b.mu.Unlock()
			return nil
		}
		first := b.waiting[0]
		b.mu.Unlock()
		err := b.write(ctx, first.run)
		if err != nil && !store.Refused(err) {
			return err
		}
		b.mu.Lock()
		if len(b.waiting) > 0 && b.waiting[0] == first {
			b.drop()
		} else {
			b.lost-- // it was dropped meanwhile, and is no more lost than it ever was
		}
		if err != nil {
			b.lost++
		} else if b.missing[first.key] == first.run.ID() {
			delete(b.missing, first.key)
		}
		b.mu.Unlock()
	}
}

// state is how many runs wait, and how many were lost.
func (b *backlog) state() (waiting int, lost uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting), b.lost
}

// lacks reports whether a run, the last of its pair, is not on the disk.
func (b *backlog) lacks(key pairKey, runID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.missing[key] == runID
}

// add writes a run with the states that follow from it; broken is why the last of these
// could not be made.
func (m *memory) add(ctx context.Context, run *probes.Run, states []store.State, broken error) {
	if broken != nil {
		m.note(storeAdd, broken)
		states = states[:len(states)-1]
	}
	packed, err := m.store.Pack(run, states...)
	if err == nil {
		err = m.backlog.add(ctx, keyOf(run.Pair()), packed)
	}
	m.note(storeAdd, err)
}

// sayUnstored marks the pairs whose last run is not on the disk.
func (m *memory) sayUnstored(pairs []probes.PairStatus) {
	for i := range pairs {
		p := &pairs[i]
		p.Unstored = p.Last != nil && m.backlog.lacks(keyOf(p.Pair), p.Last.ID)
	}
}

// catchUp writes what had to wait for the disk, as far as it can be written now.
func (m *memory) catchUp(ctx context.Context) {
	if waiting, _ := m.backlog.state(); waiting > 0 {
		m.note(storeAdd, m.backlog.flush(ctx))
	}
}
