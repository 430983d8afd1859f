package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// fileName is the database in the folder that Options.Path names.
const fileName = "inferbeat.db"

// Access is what a store is opened for.
type Access int

const (
	// Own is the daemon's: it makes the folder and the file, migrates it, and is alone.
	Own Access = iota
	// Write adds to a store that a daemon may have open at the same time.
	Write
	// Read changes nothing, and does not disturb a daemon.
	Read
	// copying is Read for a statement that SQLite takes for a write.
	copying
)

// Options say where a store is and how much of it is kept.
type Options struct {
	// Path is the folder of the store.
	Path   string
	Access Access
	// Retention is how long runs are kept, Samples how long their records, and Continuous
	// how long the runs of continuous probes; 0 is for ever.
	Retention, Samples, Continuous time.Duration
	// MaxSize bounds the files, in bytes: beyond it the oldest records go first and then
	// the oldest runs. 0 is no bound.
	MaxSize int64
}

// Store is the memory of a daemon. Its methods may be called at once.
type Store struct {
	options Options
	file    string
	lock    *os.File // held by an owner
	writer  *sql.DB  // one connection
	reader  *sql.DB

	writes writeQueue
	packer packer
}

// Open opens the store in a folder. Its errors name the file and say what to do; no
// file that cannot be read is ever changed.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{options: o, file: filepath.Join(o.Path, fileName)}
	if err := s.open(ctx); err != nil {
		s.closeAll()
		return nil, fmt.Errorf("open store %s: %w", s.file, s.explain(err))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if s.options.Access == Own {
		if err := s.own(); err != nil {
			return err
		}
	} else if _, err := os.Stat(s.file); errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no store yet; a daemon with this storage.path makes it")
	}
	if err := s.checkHeader(); err != nil {
		return err
	}
	if s.options.Access != Read {
		var err error
		if s.writer, err = sql.Open("sqlite", s.dsn(s.options.Access)); err != nil {
			return err
		}
		s.writer.SetMaxOpenConns(1)
		if err := s.prepare(ctx); err != nil {
			return err
		}
	}
	var err error
	if s.reader, err = sql.Open("sqlite", s.dsn(Read)); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(4)
	version, err := schemaVersion(ctx, s.reader)
	if err != nil {
		return err
	}
	return s.checkVersion(version)
}

// own makes the folder and keeps every other daemon out of it.
func (s *Store) own() error {
	if err := os.MkdirAll(s.options.Path, 0o750); err != nil {
		if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("storage.path must name a folder: %w", err)
		}
		return err
	}
	lock, err := lockFile(filepath.Join(s.options.Path, "inferbeat.lock"))
	s.lock = lock
	return err
}

// prepare makes the tables of a new file, or brings an old one up to date.
func (s *Store) prepare(ctx context.Context) error {
	version, err := schemaVersion(ctx, s.writer)
	if err != nil {
		return err
	}
	if s.options.Access == Own && version < len(migrations) {
		// Tables come before the write-ahead log, so that the header of a file always says
		// whose it is, and only an empty file can be told to give space back.
		if version == 0 {
			if _, err := s.writer.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
				return err
			}
		}
		if err := migrate(ctx, s.writer, version); err != nil {
			return err
		}
		version = len(migrations)
	}
	if err := s.checkVersion(version); err != nil {
		return err
	}
	_, err = s.writer.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	return err
}

func schemaVersion(ctx context.Context, db *sql.DB) (version int, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

func (s *Store) checkVersion(version int) error {
	switch {
	case version > len(migrations):
		return fmt.Errorf("it was written by a newer inferbeat (schema %d, this one knows %d); use that version, or another storage.path", version, len(migrations))
	case version < len(migrations):
		return fmt.Errorf("it was written by an older inferbeat (schema %d, this one needs %d); start the daemon once, which brings it up to date", version, len(migrations))
	}
	return nil
}

// dsn is how SQLite is told to open the file.
func (s *Store) dsn(access Access) string {
	q := url.Values{}
	pragmas := []string{"busy_timeout(10000)", "trusted_schema(0)", "cell_size_check(1)", "foreign_keys(1)"}
	switch access {
	case Read:
		q.Set("mode", "ro")
		pragmas = append(pragmas, "query_only(1)")
	case copying:
		q.Set("mode", "ro")
	default:
		q.Set("_txlock", "immediate")
		// FULL: the log is on the disk before a commit returns. NORMAL would survive a
		// killed process but lose the last runs with the power.
		pragmas = append(pragmas, "synchronous(FULL)", "journal_size_limit(16777216)")
		if access == Write {
			q.Set("mode", "rw")
		}
	}
	q["_pragma"] = pragmas
	path := s.file
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// checkHeader refuses a file that is another program's before it is touched.
func (s *Store) checkHeader() error {
	info, err := os.Stat(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder; remove it, or choose another storage.path")
	case info.Size() == 0:
		return nil // a daemon was killed before it had written anything
	}
	if _, err := os.Stat(s.file + "-journal"); err == nil {
		return nil // a daemon was killed while it made the file; SQLite undoes that
	}
	f, err := os.Open(s.file)
	if err != nil {
		return err
	}
	defer f.Close()
	header := make([]byte, 100)
	if _, err := io.ReadFull(f, header); err != nil || !bytes.HasPrefix(header, []byte("SQLite format 3\x00")) {
		return errNotAStore
	}
	// One page has no table: a daemon was killed between telling SQLite how to lay the
	// file out, which writes that page, and making the tables.
	bare := info.Size() <= int64(binary.BigEndian.Uint16(header[16:]))
	if id := binary.BigEndian.Uint32(header[68:]); id != applicationID && !(id == 0 && bare) {
		return errors.New("it is a database of another program; choose another storage.path")
	}
	return nil
}

var errNotAStore = errors.New("it is no database, or damaged from its first bytes on; it was left as it is: restore a backup over it, or move it away to begin anew")

// explain says in words what SQLite says in numbers, and what to do.
func (s *Store) explain(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	advice := ""
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		advice = "the disk is full; free space, or lower storage.max_size or storage.retention"
	case sqlite3.SQLITE_READONLY:
		advice = "it may not be written; give the user of inferbeat the right to write the folder and its files"
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		advice = "it cannot be opened; check that the folder exists and that the user of inferbeat may read and write it"
	case sqlite3.SQLITE_CORRUPT:
		advice = "it is damaged and was left as it is; restore a backup, or move it away to begin anew"
	case sqlite3.SQLITE_NOTADB:
		advice = errNotAStore.Error()
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		advice = "another process has kept it locked for 10 s; end that process"
	case sqlite3.SQLITE_IOERR:
		advice = "the disk cannot be read or written; look at the system's log"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", advice, err)
}

// Close ends all use of the store. The log is merged into the file.
func (s *Store) Close() error {
	if err := s.closeAll(); err != nil {
		return fmt.Errorf("close store %s: %w", s.file, s.explain(err))
	}
	return nil
}

func (s *Store) closeAll() error {
	var errs []error
	for _, db := range []*sql.DB{s.reader, s.writer} { // the last to leave merges the log
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

// Path is the store's file.
func (s *Store) Path() string { return s.file }

// Size is how many bytes the store takes on the disk, its log included.
func (s *Store) Size() (int64, error) {
	var sum int64
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(s.file + suffix)
		if err == nil {
			sum += info.Size()
		} else if suffix == "" {
			return 0, fmt.Errorf("measure store: %w", err)
		}
	}
	return sum, nil
}

// Check reads every page and compares it with the others. It takes seconds a gigabyte.
// What is wrong is in the error.
func (s *Store) Check(ctx context.Context) error {
	rows, err := s.reader.QueryContext(ctx, "PRAGMA integrity_check(20)")
	if err != nil {
		return fmt.Errorf("check store %s: %w", s.file, s.explain(err))
	}
	defer rows.Close()
	var wrong []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return fmt.Errorf("check store %s: %w", s.file, err)
		}
		if line != "ok" {
			wrong = append(wrong, line)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("check store %s: %w", s.file, s.explain(err))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("check store %s: it is damaged and was left as it is; restore a backup, or move it away to begin anew: %s", s.file, strings.Join(wrong, "; "))
	}
	return nil
}
