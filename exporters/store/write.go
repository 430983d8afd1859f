package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/inferbeat/inferbeat/probes"
)

// State is something small that a daemon must know again after a restart.
type State struct {
	Key   string
	Value []byte
	// Latest replaces Value, and is called when it is written: of writers that come at
	// once the last one writes the newest. It may be called twice, and must not use the
	// store.
	Latest func() []byte
	// Expires is when Prune may delete it; zero is never.
	Expires time.Time
}

// ErrReadOnly is the answer to a write on a store that was opened to be read.
var ErrReadOnly = errors.New("the store was opened for reading")

// Add keeps a run and, in the same transaction, states that follow from it. When it
// returns nil both are on the disk. A run whose id is there already is not added
// again.
func (s *Store) Add(ctx context.Context, run *probes.Run, states ...State) error {
	p, err := s.Pack(run, states...)
	if err != nil {
		return err
	}
	return s.AddPacked(ctx, p)
}

// Packed is a run with its states as they will be written: small, and of known size, so
// that it can wait for a disk that is full.
type Packed struct {
	row    *row
	states []State
}

// ID is the run's.
func (p *Packed) ID() string { return p.row.id }

// Size is about how many bytes of memory it takes.
func (p *Packed) Size() int {
	n := packedOverhead + len(p.row.body) + len(p.row.samples)
	for _, d := range p.row.documents {
		n += len(d.body)
	}
	for i := range p.states {
		n += len(p.states[i].Key) + len(p.states[i].Value)
	}
	return n
}

// packedOverhead is for what has no length: strings, pointers and the list it is in.
const packedOverhead = 1024

// Pack does all of Add that needs no disk.
func (s *Store) Pack(run *probes.Run, states ...State) (*Packed, error) {
	row, err := s.rowOf(run)
	if err != nil {
		return nil, fmt.Errorf("add run %s to store %s: %w", run.ID, s.file, err)
	}
	return &Packed{row, states}, nil
}

// AddPacked is the rest of Add.
func (s *Store) AddPacked(ctx context.Context, p *Packed) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		if err := p.row.insert(ctx, tx); err != nil {
			return err
		}
		return putStates(ctx, tx, p.states)
	})
	if err != nil {
		return fmt.Errorf("add run %s to store %s: %w", p.row.id, s.file, s.explain(err))
	}
	return nil
}

// Refused reports whether a write failed for what was written, so that it will fail
// again however the disk is.
func Refused(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return true
	}
	return false
}

// PutState keeps states, each over the one with the same key. They are on the disk
// when it returns nil.
func (s *Store) PutState(ctx context.Context, states ...State) error {
	err := s.write(ctx, func(tx *sql.Tx) error { return putStates(ctx, tx, states) })
	if err != nil {
		return fmt.Errorf("keep state in store %s: %w", s.file, s.explain(err))
	}
	return nil
}

// Acknowledge keeps that a change was accepted. Acknowledgements are never deleted.
func (s *Store) Acknowledge(ctx context.Context, a probes.Acknowledgement) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO acknowledgements (at, since, target, probe, metric, author, reason) VALUES (?, ?, ?, ?, ?, ?, ?)",
			a.At.UnixNano(), instant(a.Since), a.Target, a.Probe, string(a.Metric), a.Author, a.Reason)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep acknowledgement in store %s: %w", s.file, s.explain(err))
	}
	return nil
}

// instant is NULL for the zero time.
func instant(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixNano(), Valid: !t.IsZero()}
}

func putStates(ctx context.Context, tx *sql.Tx, states []State) error {
	for _, state := range states {
		expires := int64(0)
		if !state.Expires.IsZero() {
			expires = state.Expires.Unix()
		}
		value := state.Value
		if state.Latest != nil {
			value = state.Latest()
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO states (key, value, expires) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires",
			state.Key, orEmpty(value), expires)
		if err != nil {
			return err
		}
	}
	return nil
}

// orEmpty keeps a nil slice from becoming NULL.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// row is a run as it is written.
type row struct {
	id, fingerprint, result string
	pair                    probes.Pair
	kind                    probes.Kind
	started                 int64
	documents               [3]document // target, spec, facts
	body, samples           []byte
}

type document struct{ hash, body []byte }

// rowOf does all the work that needs no database.
func (s *Store) rowOf(run *probes.Run) (*row, error) {
	p, err := takeApart(run)
	if err != nil {
		return nil, err
	}
	r := &row{
		id: run.ID, fingerprint: run.Fingerprint, result: string(run.Result), pair: run.Pair(), kind: run.Spec.Kind, started: run.Start.UnixNano(),
	}
	for i, body := range [][]byte{p.target, p.spec, p.facts} {
		sum := sha256.Sum256(body)
		r.documents[i] = document{sum[:16], body}
	}
	if r.body, err = s.packer.pack(p.body, true); err != nil {
		return nil, err
	}
	if samples := encodeSamples(p.records); samples != nil {
		if r.samples, err = s.packer.pack(samples, false); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *row) insert(ctx context.Context, tx *sql.Tx) error {
	var known int
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM runs WHERE id = ?", r.id).Scan(&known)
	if !errors.Is(err, sql.ErrNoRows) {
		return err // nil when the run is there already
	}
	pair, err := idOf(ctx, tx, "pairs", "target = ? AND probe = ? AND pool = ? AND environment = ? AND model = ? AND kind = ?",
		"(target, probe, pool, environment, model, kind) VALUES (?, ?, ?, ?, ?, ?)",
		r.pair.Target, r.pair.Probe, r.pair.Pool, string(r.pair.Environment), r.pair.Model, string(r.kind))
	if err != nil {
		return err
	}
	var documents [3]int64
	for i, d := range r.documents {
		if documents[i], err = documentID(ctx, tx, d); err != nil {
			return err
		}
	}
	result, err := tx.ExecContext(ctx, "INSERT INTO runs (id, pair, started, fingerprint, result, target, spec, facts, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.id, pair, r.started, r.fingerprint, r.result, documents[0], documents[1], documents[2], r.body)
	if err != nil || r.samples == nil {
		return err
	}
	seq, err := result.LastInsertId()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO samples (run, body) VALUES (?, ?)", seq, r.samples)
	return err
}

// idOf finds the row of a table, or makes it.
func idOf(ctx context.Context, tx *sql.Tx, table, where, values string, args ...any) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT id FROM "+table+" WHERE "+where, args...).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	result, err := tx.ExecContext(ctx, "INSERT INTO "+table+" "+values, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func documentID(ctx context.Context, tx *sql.Tx, d document) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT id FROM documents WHERE hash = ?", d.hash).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	result, err := tx.ExecContext(ctx, "INSERT INTO documents (hash, body) VALUES (?, ?)", d.hash, d.body)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// writeQueue lets writers that come at once share one transaction: what a commit costs
// is the wait for the disk, and a hundred canaries need not wait a hundred times.
type writeQueue struct {
	mu      sync.Mutex
	leading bool // somebody writes
	waiting []*writeJob
}

type writeJob struct {
	apply func(*sql.Tx) error
	done  chan error    // gets the result
	lead  chan struct{} // closed when it is this writer's turn to write for all that wait
}

// write runs apply in a transaction and returns when that is on the disk. apply may be
// run twice: when somebody else's part of the transaction fails, each is tried alone.
func (s *Store) write(ctx context.Context, apply func(*sql.Tx) error) error {
	if s.writer == nil {
		return ErrReadOnly
	}
	job := &writeJob{apply: apply, done: make(chan error, 1), lead: make(chan struct{})}
	q := &s.writes
	q.mu.Lock()
	q.waiting = append(q.waiting, job)
	if !q.leading {
		q.leading = true
		close(job.lead)
	}
	q.mu.Unlock()
	select {
	case err := <-job.done:
		return err
	case <-job.lead:
	}
	q.mu.Lock()
	jobs := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	s.commitAll(ctx, jobs)
	q.mu.Lock()
	if len(q.waiting) > 0 {
		close(q.waiting[0].lead)
	} else {
		q.leading = false
	}
	q.mu.Unlock()
	return <-job.done
}

// commitAll commits jobs together, or one by one when that does not work.
func (s *Store) commitAll(ctx context.Context, jobs []*writeJob) {
	ctx = context.WithoutCancel(ctx) // it is not only the leader's
	err := s.commit(ctx, jobs)
	for _, job := range jobs {
		if err != nil && len(jobs) > 1 {
			job.done <- s.commit(ctx, []*writeJob{job})
			continue
		}
		job.done <- err
	}
}

func (s *Store) commit(ctx context.Context, jobs []*writeJob) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if err := job.apply(tx); err != nil {
			_ = tx.Rollback()
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		_ = tx.Rollback()
		return err
	}
	return nil
}
