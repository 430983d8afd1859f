package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"
)

// Pruned is what has been deleted.
type Pruned struct{ Runs, Samples, States int }

// pruneStep is how many rows one transaction deletes at most: between two of them
// others may write.
const pruneStep = 500

// sizeSlack is the share of MaxSize that remains after a store was too large, so that
// not every run is followed by a deletion.
const sizeSlack = 0.9

// Prune deletes what is older than it may be at the time now, and then as much of what
// is oldest as makes the store fit into MaxSize: records first, whose summaries stay,
// then whole runs. Acknowledgements and states without an expiry are never deleted.
func (s *Store) Prune(ctx context.Context, now time.Time) (p Pruned, err error) {
	err = s.prune(ctx, now, &p)
	if err != nil {
		err = fmt.Errorf("prune store %s: %w", s.file, s.explain(err))
	}
	return p, err
}

const (
	oldSamples  = "DELETE FROM samples WHERE run IN (SELECT seq FROM runs JOIN samples ON samples.run = runs.seq WHERE started < ? ORDER BY started LIMIT ?)"
	oldRuns     = "DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE started < ? ORDER BY started LIMIT ?)"
	oldCanaries = "DELETE FROM runs WHERE seq IN (SELECT seq FROM runs JOIN pairs ON pairs.id = runs.pair WHERE pairs.kind = 'canary' AND started < ? ORDER BY started LIMIT ?)"
	oldStates   = "DELETE FROM states WHERE key IN (SELECT key FROM states WHERE expires > 0 AND expires <= ? LIMIT ?)"
	orphans     = `DELETE FROM documents WHERE id NOT IN (SELECT target FROM runs UNION SELECT spec FROM runs UNION SELECT facts FROM runs)`
	lonePairs   = `DELETE FROM pairs WHERE id NOT IN (SELECT pair FROM runs)`
)

func (s *Store) prune(ctx context.Context, now time.Time, p *Pruned) error {
	for _, age := range []struct {
		keep  time.Duration
		query string
		count *int
	}{{s.options.Samples, oldSamples, &p.Samples}, {s.options.Continuous, oldCanaries, &p.Runs}, {s.options.Retention, oldRuns, &p.Runs}} {
		if age.keep <= 0 {
			continue
		}
		if err := s.deleteAll(ctx, age.query, now.Add(-age.keep).UnixNano(), age.count); err != nil {
			return err
		}
	}
	if err := s.deleteAll(ctx, oldStates, now.Unix(), &p.States); err != nil {
		return err
	}
	if err := s.shrink(ctx, now, p); err != nil {
		return err
	}
	if *p == (Pruned{}) {
		return nil
	}
	return s.sweepUp(ctx)
}

// deleteAll deletes in steps until nothing is older than the bound.
func (s *Store) deleteAll(ctx context.Context, query string, bound int64, count *int) error {
	for {
		n, err := s.deleteSome(ctx, query, bound, pruneStep)
		*count += n
		if err != nil || n < pruneStep {
			return err
		}
	}
}

func (s *Store) deleteSome(ctx context.Context, query string, bound int64, limit int) (deleted int, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, query, bound, limit)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		deleted = int(n)
		return err
	})
	return deleted, err
}

// shrink deletes the oldest until what is in use fits.
func (s *Store) shrink(ctx context.Context, now time.Time, p *Pruned) error {
	if s.options.MaxSize <= 0 {
		return nil
	}
	if size, err := s.Size(); err != nil || size <= s.options.MaxSize {
		return err
	}
	goal := int64(float64(s.options.MaxSize) * sizeSlack)
	for _, kind := range []struct {
		query string
		count *int
	}{{oldSamples, &p.Samples}, {oldRuns, &p.Runs}} {
		for {
			used, err := s.used(ctx)
			if err != nil || used <= goal {
				return err
			}
			n, err := s.deleteSome(ctx, kind.query, now.UnixNano(), shrinkStep)
			*kind.count += n
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// shrinkStep is small: the records of a single run may be a megabyte.
const shrinkStep = 20

// used is how many bytes of the file hold something.
func (s *Store) used(ctx context.Context) (int64, error) {
	var pages, free, size int64
	for pragma, to := range map[string]*int64{"page_count": &pages, "freelist_count": &free, "page_size": &size} {
		if err := s.writer.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(to); err != nil {
			return 0, err
		}
	}
	return (pages - free) * size, nil
}

// sweepUp deletes what nothing refers to any more, and gives the free pages and the log
// back to the disk.
func (s *Store) sweepUp(ctx context.Context) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, orphans); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, lonePairs)
		return err
	})
	if err != nil {
		return err
	}
	// The pragma gives a row for each page and frees one with each.
	rows, err := s.writer.QueryContext(ctx, "PRAGMA incremental_vacuum")
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	if err := rows.Close(); err != nil {
		return err
	}
	_, err = s.writer.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// Backup writes a copy of the store as it is at this moment into a new file, while
// others read and write.
func (s *Store) Backup(ctx context.Context, path string) error {
	if err := s.backup(ctx, path); err != nil {
		return fmt.Errorf("back store %s up to %s: %w", s.file, path, s.explain(err))
	}
	return nil
}

func (s *Store) backup(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("the file is there already; name a new one")
	}
	partial := path + ".partial"
	if err := os.Remove(partial); err != nil && !os.IsNotExist(err) {
		return err
	}
	copier, err := sql.Open("sqlite", s.dsn(copying))
	if err != nil {
		return err
	}
	defer copier.Close()
	if _, err := copier.ExecContext(ctx, "VACUUM INTO ?", partial); err != nil {
		_ = os.Remove(partial)
		return err
	}
	f, err := os.OpenFile(partial, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(partial, path) // what has the name is whole
}
