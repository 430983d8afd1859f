package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// startCommand runs a command until the test cancels it, and returns its output
// line by line.
func startCommand(t *testing.T, args ...string) (lines *bufio.Scanner, end func() result) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var stderr strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, Process{Args: args, Stdout: in, Stderr: &stderr})
		in.Close()
	}()
	lines = bufio.NewScanner(out)
	return lines, func() result {
		cancel()
		var rest strings.Builder
		for lines.Scan() {
			rest.WriteString(lines.Text() + "\n")
		}
		return result{<-code, rest.String(), stderr.String()}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("get %s: status %d, %v", url, response.StatusCode, err)
	}
	return string(text)
}

var ours = regexp.MustCompile(`github\.com/inferbeat/inferbeat/[a-z/]+\.[^\n]*`)

// leftovers are the goroutines of ours that run although their owner has ended.
func leftovers() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for _, stack := range strings.Split(string(stacks), "\n\n")[1:] { // the first is this one
		if found := ours.FindString(stack); found != "" && !strings.Contains(stack, "testing.tRunner") {
			left = append(left, stack)
		}
	}
	return left
}

func TestDemo(t *testing.T) {
	lines, end := startCommand(t, "demo", "--listen", "127.0.0.1:0")
	var page string
	for page == "" && lines.Scan() {
		page, _ = strings.CutPrefix(lines.Text(), "Page:")
		if page == lines.Text() {
			page = ""
		}
	}
	page = strings.TrimSpace(page)
	contains(t, "the page", get(t, page), "llama-prod-a", "llama-prod-b", "llama-staging-a", "llama-staging-b", demoBanner)
	metrics := get(t, page+"metrics")
	for _, target := range []string{"llama-prod-a", "llama-prod-b", "llama-staging-a", "llama-staging-b"} {
		contains(t, "/metrics", metrics, `target="`+target+`"`)
	}
	contains(t, "the embedded Prometheus", get(t, page+"api/v1/rules"), "InferbeatPoolDown", page+"runbooks/InferbeatPoolDown")
	contains(t, "the readiness", get(t, page+"-/ready"), "inferbeat is ready.")
	got := end()
	if got.code != exitPass || !strings.HasSuffix(got.stdout, "The demo has ended.\n") || got.stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q; want a clean end", got.code, got.stdout, got.stderr)
	}
	// Handlers of connections that were just closed need a moment to notice.
	for deadline := time.Now().Add(5 * time.Second); len(leftovers()) > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("goroutines are left:\n%s", strings.Join(leftovers(), "\n\n"))
		}
	}
}

// An address that is taken is an error that says what to do, and leaves nothing behind.
func TestDemoOnATakenAddress(t *testing.T) {
	lines, end := startCommand(t, "demo", "--listen", "127.0.0.1:0")
	var address string
	for address == "" && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Page:    http://"); ok {
			address = strings.TrimSuffix(rest, "/")
		}
	}
	got := call(t.Context(), nil, "demo", "--listen", address)
	want := "inferbeat demo: listen on web.listen_address: listen tcp " + address + ": bind: address already in use; end the process that has it, or choose another address with --listen\n"
	if got.code != exitUsage || got.stderr != want || got.stdout != "" {
		t.Errorf("code %d, stdout %q, stderr %q; want 2 and %q", got.code, got.stdout, got.stderr, want)
	}
	if got := end(); got.code != exitPass {
		t.Errorf("the first demo ended with %d: %s", got.code, got.stderr)
	}
}
