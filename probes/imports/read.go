package imports

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/inferbeat/inferbeat/probes"
)

// Options say what the files leave out.
type Options struct {
	// Target takes part in each run; Backend and Model of a result replace its own.
	Target probes.Target
	// Probe names the series that the runs belong to.
	Probe string
}

// Read returns the runs of a file and what is wrong with it: an error for each
// result that could not be read, with file and line. One does not spoil the others.
func Read(file string, r io.Reader, o Options) ([]*probes.Run, error) {
	var runs []*probes.Run
	any := false
	err := eachResult(file, r, func(line int, text []byte) error {
		any = true
		run, err := parse(text, o)
		if err != nil {
			return err
		}
		run.Origin = fmt.Sprintf("%s:%d", filepath.Base(file), line)
		runs = append(runs, run)
		return nil
	})
	if err == nil && !any {
		err = fmt.Errorf("%s: holds no result", file)
	}
	return runs, err
}

// eachResult calls do with every result of a file and joins its errors, each under
// file and line.
func eachResult(file string, r io.Reader, do func(line int, text []byte) error) error {
	var problems []error
	add := func(line int, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", file, line, err))
		}
	}
	lines := bufio.NewReaderSize(r, 1<<16)
	for number, last := 1, false; !last; number++ {
		text, err := lines.ReadBytes('\n')
		last = err != nil
		if text = bytes.TrimSpace(text); string(text) == "{" { // one result over many lines
			var rest []byte
			rest, err = io.ReadAll(lines)
			text, last = append(text, rest...), true
		}
		if err != nil && !errors.Is(err, io.EOF) {
			add(number, fmt.Errorf("read: %w", err))
			break
		}
		if len(text) > 0 {
			add(number, do(number, text))
		}
	}
	return errors.Join(problems...)
}

// strict turns what Python writes into JSON: Infinity, -Infinity and NaN outside
// of strings become "inf", "-inf" and null.
func strict(text []byte) []byte {
	if !bytes.Contains(text, []byte("Infinity")) && !bytes.Contains(text, []byte("NaN")) {
		return text
	}
	words := []struct{ from, to string }{{"-Infinity", `"-inf"`}, {"Infinity", `"inf"`}, {"NaN", "null"}}
	out := make([]byte, 0, len(text)+16)
	quoted := false
scan:
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
			c = text[i]
		case c == '"':
			quoted = !quoted
		case !quoted:
			for _, w := range words {
				if bytes.HasPrefix(text[i:], []byte(w.from)) {
					out = append(out, w.to...)
					i += len(w.from) - 1
					continue scan
				}
			}
		}
		out = append(out, c)
	}
	return out
}
