package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// server is a web server as a transport. It breaks each answer off after limit bytes.
type server struct {
	content []byte
	limit   int  // 0: answers whole
	noRange bool // knows no ranges
	status  int
	asked   []string // the Range of each request
	body    io.Reader
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.Header.Get("Range"))
	status, content := http.StatusOK, s.content
	var from int
	if at, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && !s.noRange {
		for _, c := range strings.TrimSuffix(at, "-") {
			from = 10*from + int(c-'0')
		}
		status = http.StatusPartialContent
		if from >= len(content) {
			status = http.StatusRequestedRangeNotSatisfiable
		}
		content = content[min(from, len(content)):]
	}
	if s.status != 0 {
		status = s.status
	}
	var body io.Reader = bytes.NewReader(content)
	if s.limit > 0 && s.limit < len(content) {
		body = io.MultiReader(bytes.NewReader(content[:s.limit]), broken{})
	}
	if s.body != nil {
		body = s.body
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(body), Request: r}, nil
}

type broken struct{}

var errBroken = errors.New("connection reset")

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

const address = "https://user:SECRET@data.test/traces/day.jsonl?token=SECRET"

func TestGetFetchesOnce(t *testing.T) {
	content := []byte("one line\nand another\n")
	s := &server{content: content}
	dir := t.TempDir()
	f := Files{Transport: s, Dir: dir}
	for range 3 {
		path, err := f.Get(t.Context(), address, strings.ToUpper(sumOf(content)), "")
		if err != nil || path != filepath.Join(dir, sumOf(content)+".jsonl") {
			t.Fatalf("Get = %q, %v", path, err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, content) {
			t.Fatalf("file holds %q", got)
		}
	}
	other := Files{Transport: s, Dir: dir} // another process finds it too
	if _, err := other.Get(t.Context(), address, sumOf(content), ""); err != nil || len(s.asked) != 1 {
		t.Errorf("%v after %d requests, want 1", err, len(s.asked))
	}
}

func TestGetResumes(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 10)
	keep := filepath.Join(t.TempDir(), "trace.jsonl")
	s := &server{content: content, limit: 40}
	f := Files{Transport: s}
	for i := range 2 {
		if _, err := f.Get(t.Context(), address, sumOf(content), keep); !errors.Is(err, errBroken) || strings.Contains(err.Error(), "SECRET") {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
	if path, err := f.Get(t.Context(), address, sumOf(content), keep); err != nil || path != keep {
		t.Fatalf("Get = %q, %v", path, err)
	}
	if got := strings.Join(s.asked, ","); got != ",bytes=40-,bytes=80-" {
		t.Errorf("ranges asked: %q", got)
	}
	if got, _ := os.ReadFile(keep); !bytes.Equal(got, content) {
		t.Errorf("file holds %q", got)
	}
	if _, err := os.Stat(keep + ".part"); !os.IsNotExist(err) {
		t.Errorf("the part is still there: %v", err)
	}
}

// What an interrupted attempt has left is finished by servers of every kind.
func TestGetGoesOnFromAPart(t *testing.T) {
	content := []byte("0123456789")
	for name, test := range map[string]struct {
		s    server
		part string
	}{
		"the server knows no ranges": {server{noRange: true}, "0123"},
		"all has arrived already":    {server{}, "0123456789"},
	} {
		keep := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(keep+".part", []byte(test.part), 0o600); err != nil {
			t.Fatal(err)
		}
		test.s.content = content
		f := Files{Transport: &test.s}
		if _, err := f.Get(t.Context(), address, sumOf(content), keep); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile(keep); !bytes.Equal(got, content) {
			t.Errorf("%s: file holds %q", name, got)
		}
	}
}

func TestGetRefuses(t *testing.T) {
	content := []byte("content")
	for _, test := range []struct {
		name, sum, mine string
		status          int
		want            string
	}{
		{"wrong content", sumOf([]byte("other")), "", 0, "fetch https://data.test/traces/day.jsonl: its sha256 is " + sumOf(content)},
		{"a file of the user's", sumOf(content), "mine", 0, "move it away or correct the checksum"},
		{"a missing file", sumOf(content), "", 404, "the server answered Not Found"},
	} {
		keep := filepath.Join(t.TempDir(), "x")
		if test.mine != "" {
			if err := os.WriteFile(keep, []byte(test.mine), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := Files{Transport: &server{content: content, status: test.status}}
		_, err := f.Get(t.Context(), address, test.sum, keep)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if got, _ := os.ReadFile(keep); string(got) != test.mine {
			t.Errorf("%s: the file holds %q, want %q", test.name, got, test.mine)
		}
		if got, _ := os.ReadFile(keep + ".part"); len(got) > 0 {
			t.Errorf("%s: %q was kept", test.name, got)
		}
	}
}

// silent gives nothing until its context ends.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

type silentServer struct{}

func (silentServer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(silent{r.Context()}), Request: r}, nil
}

func TestGetGivesUpOnAStall(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "x")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := Files{Transport: silentServer{}}
		_, err := f.Get(t.Context(), address, sumOf(nil), keep)
		if err == nil || !strings.Contains(err.Error(), "nothing arrived for 1m0s") || time.Since(start) != stall {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
