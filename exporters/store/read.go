package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// ErrNotFound is the answer when there is no such run.
var ErrNotFound = errors.New("no such run")

// ErrAmbiguous is the answer when several ids begin so.
var ErrAmbiguous = errors.New("several runs begin so")

// Query selects runs. Empty fields select all.
type Query struct {
	Target, Pool, Probe, Model string
	Environment                probes.Environment
	Fingerprint                string
	Kinds                      []probes.Kind
	Results                    []probes.RunResult
	// Since is the first start that is selected, Until the first one that is not.
	Since, Until time.Time
	// Limit is how many of the last runs are returned; 0 is all.
	Limit int
	// Records fills in the records of the runs too.
	Records bool
}

// selectRuns gives a row per run; %s are conditions.
const selectRuns = `SELECT runs.seq, runs.id, runs.body, runs.target, runs.spec, runs.facts, %s
FROM runs JOIN pairs ON pairs.id = runs.pair %s`

// Run returns the run whose id is, or begins with, the text, with its records as long
// as these are kept. It is an error when several ids begin so; ErrNotFound when none.
func (s *Store) Run(ctx context.Context, id string) (*probes.Run, error) {
	run, err := s.run(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read run %s of store %s: %w", id, s.file, s.explain(err))
	}
	return run, nil
}

func (s *Store) run(ctx context.Context, id string) (*probes.Run, error) {
	if id == "" {
		return nil, ErrNotFound
	}
	rows, err := s.reader.QueryContext(ctx, "SELECT id FROM runs WHERE id >= ? AND id < ? ORDER BY id LIMIT 4", id, id+"\U0010ffff")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(found) == 0:
		return nil, ErrNotFound
	case len(found) > 1 && found[0] != id:
		return nil, fmt.Errorf("%w: %s; give more of the id", ErrAmbiguous, strings.Join(found, ", "))
	}
	runs, err := s.load(ctx, "WHERE runs.id = ?", []any{found[0]}, true)
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, ErrNotFound // pruned between the two looks
	}
	return runs[0], nil
}

// History returns the selected runs in the order of their starts, without records
// unless these are asked for.
func (s *Store) History(ctx context.Context, q Query) ([]*probes.Run, error) {
	where, args := q.where()
	order := " ORDER BY runs.started DESC, runs.seq DESC"
	if q.Limit > 0 {
		order += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	runs, err := s.load(ctx, where+order, args, q.Records)
	if err != nil {
		return nil, fmt.Errorf("read history of store %s: %w", s.file, s.explain(err))
	}
	slices.Reverse(runs)
	return runs, nil
}

// where is the condition of a query and its arguments.
func (q *Query) where() (string, []any) {
	var conditions []string
	var args []any
	is := func(column, value string) {
		if value != "" {
			conditions, args = append(conditions, column+" = ?"), append(args, value)
		}
	}
	is("pairs.target", q.Target)
	is("pairs.pool", q.Pool)
	is("pairs.probe", q.Probe)
	is("pairs.model", q.Model)
	is("pairs.environment", string(q.Environment))
	is("runs.fingerprint", q.Fingerprint)
	if len(q.Kinds) > 0 {
		conditions = append(conditions, "pairs.kind IN ("+marks(len(q.Kinds))+")")
		for _, kind := range q.Kinds {
			args = append(args, string(kind))
		}
	}
	if len(q.Results) > 0 {
		conditions = append(conditions, "runs.result IN ("+marks(len(q.Results))+")")
		for _, result := range q.Results {
			args = append(args, string(result))
		}
	}
	if !q.Since.IsZero() {
		conditions, args = append(conditions, "runs.started >= ?"), append(args, q.Since.UnixNano())
	}
	if !q.Until.IsZero() {
		conditions, args = append(conditions, "runs.started < ?"), append(args, q.Until.UnixNano())
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return "WHERE " + strings.Join(conditions, " AND "), args
}

// marks are n placeholders.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// load reads runs. Documents are read once, however many of the runs share them.
func (s *Store) load(ctx context.Context, tail string, args []any, records bool) ([]*probes.Run, error) {
	samples, join := "NULL", ""
	if records {
		samples, join = "samples.body", "LEFT JOIN samples ON samples.run = runs.seq "
	}
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one state of the file for all reads
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(selectRuns, samples, join+tail), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	type found struct {
		run       *probes.Run
		documents [3]int64
	}
	var all []found
	for rows.Next() {
		var f found
		var seq int64
		var id string
		var body, sampled []byte
		if err := rows.Scan(&seq, &id, &body, &f.documents[0], &f.documents[1], &f.documents[2], &sampled); err != nil {
			return nil, err
		}
		if f.run, err = decodeRow(body, sampled); err != nil {
			return nil, fmt.Errorf("run %s: %w", id, err)
		}
		all = append(all, f)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	docs := documentCache{targets: map[int64]probes.Target{}, specs: map[int64]probes.Spec{}, facts: map[int64]probes.ServerFacts{}}
	runs := make([]*probes.Run, len(all))
	for i, f := range all {
		runs[i] = f.run
		if err := docs.fill(ctx, tx, f.run, f.documents); err != nil {
			return nil, fmt.Errorf("run %s: %w", f.run.ID, err)
		}
	}
	return runs, nil
}

func decodeRow(body, samples []byte) (*probes.Run, error) {
	text, err := unpack(body)
	if err != nil {
		return nil, err
	}
	run := &probes.Run{}
	if err := unmarshal(text, run); err != nil {
		return nil, err
	}
	if text, err = unpack(samples); err != nil {
		return nil, err
	}
	return run, decodeSamples(text, groups(run))
}

// documentCache holds what has been read. Runs may share what it gives: they are never
// changed.
type documentCache struct {
	targets map[int64]probes.Target
	specs   map[int64]probes.Spec
	facts   map[int64]probes.ServerFacts
}

func (d *documentCache) fill(ctx context.Context, tx *sql.Tx, run *probes.Run, ids [3]int64) (err error) {
	if run.Target, err = cached(ctx, tx, d.targets, ids[0]); err != nil {
		return err
	}
	if run.Spec, err = cached(ctx, tx, d.specs, ids[1]); err != nil {
		return err
	}
	run.Facts, err = cached(ctx, tx, d.facts, ids[2])
	return err
}

func cached[T any](ctx context.Context, tx *sql.Tx, seen map[int64]T, id int64) (T, error) {
	if v, ok := seen[id]; ok {
		return v, nil
	}
	var v T
	var body []byte
	if err := tx.QueryRowContext(ctx, "SELECT body FROM documents WHERE id = ?", id).Scan(&body); err != nil {
		return v, err
	}
	if err := unmarshal(body, &v); err != nil {
		return v, err
	}
	seen[id] = v
	return v, nil
}

// State returns the value of a key, and false when there is none.
func (s *Store) State(ctx context.Context, key string) ([]byte, bool, error) {
	var value []byte
	err := s.reader.QueryRowContext(ctx, "SELECT value FROM states WHERE key = ?", key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read state %s of store %s: %w", key, s.file, s.explain(err))
	}
	return value, true, nil
}

// States returns all states whose keys begin with the prefix, by key.
func (s *Store) States(ctx context.Context, prefix string) ([]State, error) {
	rows, err := s.reader.QueryContext(ctx, "SELECT key, value, expires FROM states WHERE key >= ? AND key < ? ORDER BY key", prefix, prefix+"\U0010ffff")
	if err != nil {
		return nil, fmt.Errorf("read states of store %s: %w", s.file, s.explain(err))
	}
	defer rows.Close()
	var out []State
	for rows.Next() {
		var state State
		var expires int64
		if err := rows.Scan(&state.Key, &state.Value, &expires); err != nil {
			return nil, fmt.Errorf("read states of store %s: %w", s.file, err)
		}
		if expires != 0 {
			state.Expires = time.Unix(expires, 0)
		}
		out = append(out, state)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read states of store %s: %w", s.file, s.explain(err))
	}
	return out, nil
}

// Acknowledgements returns those of a target and a probe in the order in which they
// were given; an empty name selects all.
func (s *Store) Acknowledgements(ctx context.Context, target, probe string) ([]probes.Acknowledgement, error) {
	said, _, err := s.acknowledgements(ctx, "(?1 = '' OR target = ?1) AND (?2 = '' OR probe = ?2) ORDER BY at, id", target, probe)
	return said, err
}

// AcknowledgedSince returns the acknowledgements that were given after the one with a
// number, and the number of the last one. The first has a number above 0. It costs next
// to nothing when there are none, so that it can be asked all the time.
func (s *Store) AcknowledgedSince(ctx context.Context, number int64) ([]probes.Acknowledgement, int64, error) {
	said, last, err := s.acknowledgements(ctx, "id > ?1 ORDER BY id", number)
	return said, max(number, last), err
}

// acknowledgements returns those of a WHERE clause, and the largest of their numbers.
func (s *Store) acknowledgements(ctx context.Context, where string, args ...any) (out []probes.Acknowledgement, last int64, err error) {
	fail := func(err error) ([]probes.Acknowledgement, int64, error) {
		return nil, 0, fmt.Errorf("read acknowledgements of store %s: %w", s.file, s.explain(err))
	}
	rows, err := s.reader.QueryContext(ctx, "SELECT id, at, since, target, probe, metric, author, reason FROM acknowledgements WHERE "+where, args...)
	if err != nil {
		return fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var a probes.Acknowledgement
		var id, at int64
		var since sql.NullInt64
		if err := rows.Scan(&id, &at, &since, &a.Target, &a.Probe, &a.Metric, &a.Author, &a.Reason); err != nil {
			return fail(err)
		}
		a.At = time.Unix(0, at).UTC()
		if since.Valid {
			a.Since = time.Unix(0, since.Int64).UTC()
		}
		out, last = append(out, a), max(last, id)
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	return out, last, nil
}
