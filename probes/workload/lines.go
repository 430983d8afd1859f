package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// lineReader reads a text file line by line in one buffer, whatever the file's size.
type lineReader struct {
	path string
	file *os.File
	in   *bufio.Reader
	line int    // number of the line that next returned, from 1
	long []byte // a line that did not fit into in's buffer
}

func openLines(path string) (*lineReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	return &lineReader{path: path, file: f, in: bufio.NewReaderSize(f, 256<<10)}, nil
}

// next returns the next line that is not blank, valid until the next call, and
// io.EOF after the last.
func (l *lineReader) next() ([]byte, error) {
	for {
		text, err := l.read()
		if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
			return nil, err
		}
		l.line++
		if l.line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return text, nil
		}
	}
}

func (l *lineReader) read() ([]byte, error) {
	text, err := l.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	l.long = append(l.long[:0], text...)
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = l.in.ReadSlice('\n')
		if l.long = append(l.long, text...); len(l.long) > maxRow {
			return nil, fmt.Errorf("read %s:%d: longer than %d bytes", l.path, l.line+1, maxRow)
		}
	}
	return l.long, err
}

// at names a mistake's place.
func (l *lineReader) at(err error) error { return fmt.Errorf("read %s:%d: %w", l.path, l.line, err) }

func (l *lineReader) close() error { return l.file.Close() }
