package cli

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// On a full disk the result is lost and said to be; the report stays.
func TestOutputFileOnAFullDisk(t *testing.T) {
	url, _ := fakeServer(t, nil, nil)
	got := call(t.Context(), nil, short(url, "--output-file", "/dev/full")...)
	want := "inferbeat run: --output-file: write result file: write /dev/full: no space left on device; nothing was added to it, what was printed is all there is\n"
	if got.code != exitUsage || got.stderr != want || !strings.Contains(got.stdout, "Successful requests:                     3") {
		t.Errorf("code %d, stderr %q, stdout %q; want 2, %q and the report", got.code, got.stderr, got.stdout, want)
	}
}

// A line that does not fit as a whole is not there at all.
func TestOutputFileIsNeverHalfWritten(t *testing.T) {
	url, _ := fakeServer(t, nil, nil)
	// The limit holds for all files of the process. go test keeps one of its own, which
	// must stay below it: the earlier line is longer than that ever gets.
	earlier := `{"earlier":"` + strings.Repeat("x", 1<<20) + "\"}\n"
	path := writeFile(t, "out.jsonl", earlier)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails, as it does on a full disk
	defer signal.Reset(syscall.SIGXFSZ)
	small := limit
	small.Cur = uint64(len(earlier)) + 300
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	got := call(t.Context(), nil, short(url, "--output-file", path)...)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if text := readFile(t, path); text != earlier || got.code != exitUsage || !strings.Contains(got.stderr, "file too large") {
		t.Errorf("code %d, stderr %q, file of %d bytes; want 2, why, and the earlier line alone", got.code, got.stderr, len(text))
	}
}

// A report that nobody can read is no success.
func TestStandardOutputOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"help"}, {"version"}, {"run", "--help"}, {"check", "--config", "../../deploy/examples/minimal.yaml"}, {"check", "--print", "--config", "../../deploy/examples/minimal.yaml"}} {
		var stderr strings.Builder
		code := Main(t.Context(), Process{Args: args, Stdout: full, Stderr: &stderr})
		if code != exitUsage || !strings.HasSuffix(stderr.String(), ": write to standard output: write /dev/full: no space left on device\n") {
			t.Errorf("%q: code %d, stderr %q; want 2 and why", args, code, stderr.String())
		}
	}
}
