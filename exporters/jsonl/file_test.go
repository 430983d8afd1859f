package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func runWithID(id string) probes.Event {
	r := run()
	r.ID = id
	return probes.Event{Kind: probes.EventRunDone, Run: r}
}

// ids reads the run ids of a file's lines; each line must be whole.
func ids(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}\n") {
			t.Errorf("broken line in %s: %q", path, line)
		}
		_, rest, _ := strings.Cut(line, `"run_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		out = append(out, id)
	}
	return out
}

func TestFileAppendsRunsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	f := NewFile(FileOptions{Path: path})
	for _, e := range []probes.Event{{Kind: probes.EventRunStarted}, runWithID("1"), {Kind: probes.EventRequestDone, Record: &probes.Record{}}, {Kind: probes.EventSkipped}, runWithID("2")} {
		if err := f.Export(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"1", "2"}, ids(t, path)); d != "" {
		t.Errorf("runs (-want +got):\n%s", d)
	}
	// Another sink on the same file appends, whatever the first one thinks its end is.
	if err := NewFile(FileOptions{Path: path}).Export(t.Context(), runWithID("3")); err != nil {
		t.Fatal(err)
	}
	// The file goes away under the sink.
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := f.Export(t.Context(), runWithID("4")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1", "2", "3"}, ids(t, path+".moved")); d != "" {
		t.Errorf("moved file (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"4"}, ids(t, path)); d != "" {
		t.Errorf("new file (-want +got):\n%s", d)
	}
	if f.Lines() != 3 || f.Failures() != 0 {
		t.Errorf("lines %d, failures %d, want 3 and 0", f.Lines(), f.Failures())
	}
}

func TestFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	line, err := Encode(run(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(line)-len("0195-run")+len("1")) + 1
	f := NewFile(FileOptions{Path: path, MaxBytes: 2 * size, Keep: 2})
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		if err := f.Export(t.Context(), runWithID(id)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{path: {"7"}, path + ".1": {"5", "6"}, path + ".2": {"3", "4"}} {
		if d := cmp.Diff(want, ids(t, name)); d != "" {
			t.Errorf("%s (-want +got):\n%s", filepath.Base(name), d)
		}
	}
	if _, err := os.Stat(path + ".3"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a third rotated file exists (%v), want two", err)
	}
}

// A line longer than the limit is written all the same, alone.
func TestFileRotatesAroundLongLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	f := NewFile(FileOptions{Path: path, MaxBytes: 10})
	for _, id := range []string{"1", "2", "3"} {
		if err := f.Export(t.Context(), runWithID(id)); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"3"}, ids(t, path)); d != "" {
		t.Errorf("file (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"2"}, ids(t, path+".1")); d != "" {
		t.Errorf("rotated file (-want +got):\n%s", d)
	}
}

func TestFileErrorsAreReturnedAndCounted(t *testing.T) {
	dir := t.TempDir()
	blocker := filepath.Join(dir, "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		want       error
	}{
		{"no_folder", filepath.Join(dir, "missing", "out.jsonl"), os.ErrNotExist},
		{"folder_is_a_file", filepath.Join(blocker, "out.jsonl"), syscall.ENOTDIR},
		{"path_is_a_folder", dir, syscall.EISDIR},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFile(FileOptions{Path: tt.path, MaxBytes: 1 << 20})
			for range 2 {
				if err := f.Export(t.Context(), runWithID("1")); !errors.Is(err, tt.want) {
					t.Errorf("Export = %v, want %v", err, tt.want)
				}
			}
			if f.Failures() != 2 || f.Lines() != 0 {
				t.Errorf("failures %d, lines %d, want 2 and 0", f.Failures(), f.Lines())
			}
		})
	}
}
