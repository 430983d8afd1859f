package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// maxRow bounds one element of a dataset, so that a broken file cannot take all
// memory.
const maxRow = 64 << 20

// rowIndex says where the elements of a dataset file lie, so that a file of many
// hundred megabytes is read once and only the drawn rows are kept.
type rowIndex struct {
	path     string
	size     int64
	modified time.Time
	sha256   string
	rows     []span
}

type span struct{ start, end int64 }

// read returns the bytes of one element.
func (x *rowIndex) read(row int) ([]byte, error) {
	f, err := os.Open(x.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at := x.rows[row]
	text := make([]byte, at.end-at.start)
	if _, err := f.ReadAt(text, at.start); err != nil {
		return nil, fmt.Errorf("read %s: element %d: %w (was the file replaced?)", x.path, row+1, err)
	}
	return text, nil
}

// indexFile reads a file that holds one JSON array of objects.
func indexFile(path string) (*rowIndex, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	sum := sha256.New()
	var cut splitter
	buffer := make([]byte, 256<<10)
	for {
		n, err := f.Read(buffer)
		sum.Write(buffer[:n])
		if err := cut.feed(buffer[:n]); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	if err := cut.close(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &rowIndex{
		path: path, size: info.Size(), modified: info.ModTime(),
		sha256: hex.EncodeToString(sum.Sum(nil)), rows: cut.rows,
	}, nil
}

// splitter finds the elements of a JSON array of objects in bytes that come in
// pieces. It counts brackets outside strings and leaves the rest of the syntax to
// whoever decodes an element.
type splitter struct {
	rows     []span
	at       int64 // offset of the next byte
	start    int64 // of the element that is open
	depth    int   // open brackets; 1 is between elements
	inString bool
	escaped  bool
	state    splitState
}

type splitState int

const (
	beforeArray splitState = iota
	wantFirst              // after [, where ] may follow
	wantElement            // after a comma
	wantComma              // after an element
	inElement
	afterArray
)

func (s *splitter) feed(b []byte) error {
	for _, c := range b {
		if s.state == inElement {
			s.inside(c)
			if s.at-s.start > maxRow {
				return fmt.Errorf("element %d: longer than %d bytes", len(s.rows)+1, maxRow)
			}
		} else if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			if err := s.between(c); err != nil {
				return err
			}
		}
		s.at++
	}
	return nil
}

func (s *splitter) inside(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.inString:
		s.escaped = c == '\\'
		s.inString = c != '"'
	case c == '"':
		s.inString = true
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		if s.depth--; s.depth == 1 {
			s.rows = append(s.rows, span{s.start, s.at + 1})
			s.state = wantComma
		}
	}
}

func (s *splitter) between(c byte) error {
	switch {
	case s.state == beforeArray && c == '[':
		s.state, s.depth = wantFirst, 1
	case s.state == beforeArray:
		return fmt.Errorf("starts with %q, want a JSON array (JSON lines are another dataset)", c)
	case (s.state == wantFirst || s.state == wantElement) && c == '{':
		s.state, s.depth, s.start = inElement, 2, s.at
	case (s.state == wantFirst || s.state == wantComma) && c == ']':
		s.state, s.depth = afterArray, 0
	case s.state == wantComma && c == ',':
		s.state = wantElement
	case s.state == afterArray:
		return fmt.Errorf("byte %d: %q after the end of the array", s.at, c)
	case s.state == wantComma:
		return fmt.Errorf("element %d: %q at byte %d, want a comma or the end of the array", len(s.rows), c, s.at)
	default:
		return fmt.Errorf("element %d: %q at byte %d, want an object", len(s.rows)+1, c, s.at)
	}
	return nil
}

func (s *splitter) close() error {
	switch s.state {
	case afterArray:
		return nil
	case beforeArray:
		return errors.New("is empty, want a JSON array")
	case inElement:
		return fmt.Errorf("element %d: the file ends inside it", len(s.rows)+1)
	}
	return fmt.Errorf("element %d: the file ends before the end of the array", len(s.rows)+1)
}

// Files remembers where the rows of dataset files lie, as long as a file's size and
// modification time stay the same. The zero value is ready and may be shared.
type Files struct {
	mu    sync.Mutex
	known map[string]*rowIndex
	sums  map[string]fileSum
}

// fileSum is the hash of a file of that size and time.
type fileSum struct {
	size     int64
	modified time.Time
	sha256   string
}

// sum hashes a file, in one pass and little memory.
func (f *Files) sum(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if s, ok := f.sums[path]; ok && s.size == info.Size() && s.modified.Equal(info.ModTime()) {
			return s.sha256, nil
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, untilDone{ctx, file}); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	text := hex.EncodeToString(hash.Sum(nil))
	if f != nil {
		if f.sums == nil {
			f.sums = map[string]fileSum{}
		}
		f.sums[path] = fileSum{info.Size(), info.ModTime(), text}
	}
	return text, nil
}

// untilDone stops a long read when the run is given up.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

func (f *Files) open(path string) (*rowIndex, error) {
	if f == nil {
		return indexFile(path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if x := f.known[path]; x != nil && x.size == info.Size() && x.modified.Equal(info.ModTime()) {
		return x, nil
	}
	x, err := indexFile(path)
	if err != nil {
		return nil, err
	}
	if f.known == nil {
		f.known = map[string]*rowIndex{}
	}
	f.known[path] = x
	return x, nil
}
