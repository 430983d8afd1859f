package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFullDisk(t *testing.T) {
	// Through a link, because a mistake in the rotation would rename the host's own.
	path := filepath.Join(t.TempDir(), "full")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	f := NewFile(FileOptions{Path: path, MaxBytes: 1 << 20})
	for range 2 {
		if err := f.Export(t.Context(), runWithID("1")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Export = %v, want %v", err, syscall.ENOSPC)
		}
	}
	if f.Failures() != 2 || f.Lines() != 0 {
		t.Errorf("failures %d, lines %d, want 2 and 0", f.Failures(), f.Lines())
	}
}

// A disk that fills up in the middle of a line must not leave half of it.
func TestHalfALineIsTakenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	f := NewFile(FileOptions{Path: path})
	if err := f.Export(t.Context(), runWithID("1")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	limitFileSize(t, uint64(info.Size())+100)
	if err := f.Export(t.Context(), runWithID("2")); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Export = %v, want %v", err, syscall.EFBIG)
	}
	if d := cmp.Diff([]string{"1"}, ids(t, path)); d != "" {
		t.Errorf("file (-want +got):\n%s", d)
	}
}

// limitFileSize lets every file of the process grow to size bytes only. The Go
// runtime ignores SIGXFSZ when nobody asked for it, so the write fails instead.
func limitFileSize(t *testing.T, size uint64) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	})
}
