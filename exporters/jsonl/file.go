package jsonl

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/inferbeat/inferbeat/probes"
)

// FileOptions configures a File.
type FileOptions struct {
	Path string
	// MaxBytes is the size at which the file becomes Path.1 before the next line
	// is written, Path.1 becomes Path.2 and so on; 0 never rotates.
	MaxBytes int64
	// Keep is how many rotated files are kept; less than 1 is 1.
	Keep   int
	Encode Options
}

// File is a sink that appends one line per finished run.
//
// The file is opened for each line, which costs nothing beside a run and lets
// other tools rotate, truncate or delete it at any time. A failure (full disk,
// read-only file system) is returned and loses that line only.
type File struct {
	opts FileOptions

	lines, failures atomic.Uint64
}

// NewFile does not touch the file.
func NewFile(o FileOptions) *File {
	o.Keep = max(o.Keep, 1)
	return &File{opts: o}
}

// Name is the sink's name.
func (f *File) Name() string { return "jsonl" }

// Close does nothing: no file stays open.
func (f *File) Close() error { return nil }

// Lines counts the lines written since the start.
func (f *File) Lines() uint64 { return f.lines.Load() }

// Failures counts the lines lost since the start.
func (f *File) Failures() uint64 { return f.failures.Load() }

// Export writes finished runs and ignores everything else.
func (f *File) Export(_ context.Context, e probes.Event) error {
	if e.Kind != probes.EventRunDone {
		return nil
	}
	if err := f.append(e.Run); err != nil {
		f.failures.Add(1)
		return err
	}
	f.lines.Add(1)
	return nil
}

func (f *File) append(run *probes.Run) (err error) {
	data, err := Lines(run, f.opts.Encode)
	if err != nil {
		return err
	}
	if err := f.rotate(int64(len(data))); err != nil {
		return fmt.Errorf("rotate result file: %w", err)
	}
	file, err := os.OpenFile(f.opts.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open result file: %w", err)
	}
	defer func() {
		// Close tells what the write could not know (NFS, quotas).
		if closeErr := file.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("close result file: %w", closeErr)
		}
	}()
	return writeLine(file, data)
}

// writeLine writes in one call, so that lines of two writers do not mix. What a
// full disk has cut off is taken back: half a line would spoil the next one too.
func writeLine(file *os.File, data []byte) error {
	n, err := file.Write(data)
	if err == nil {
		return nil
	}
	if n > 0 {
		if info, statErr := file.Stat(); statErr == nil && info.Mode().IsRegular() {
			if cutErr := file.Truncate(info.Size() - int64(n)); cutErr != nil {
				return fmt.Errorf("write result file: %w (half a line stays: %w)", err, cutErr)
			}
		}
	}
	return fmt.Errorf("write result file: %w", err)
}

// rotate makes room when the next line would pass the limit.
func (f *File) rotate(next int64) error {
	if f.opts.MaxBytes <= 0 {
		return nil
	}
	info, err := os.Stat(f.opts.Path)
	if os.IsNotExist(err) || err == nil && (!info.Mode().IsRegular() || info.Size() == 0 || info.Size()+next <= f.opts.MaxBytes) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := f.opts.Keep - 1; i >= 1; i-- {
		if err := os.Rename(f.rotated(i), f.rotated(i+1)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return os.Rename(f.opts.Path, f.rotated(1))
}

func (f *File) rotated(i int) string { return fmt.Sprintf("%s.%d", f.opts.Path, i) }

// sink is exporters.Sink, repeated here because a stage does not import its
// neighbour.
var _ interface {
	Name() string
	Export(context.Context, probes.Event) error
	Close() error
} = (*File)(nil)
