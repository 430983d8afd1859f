package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The life of a daemon: up, a reload that fails and changes nothing, one that
// succeeds, and an orderly end.
func TestServe(t *testing.T) {
	url, _ := fakeServer(t, nil, nil)
	good := readFile(t, configuration(t, url, "{}"))
	file := writeFile(t, "inferbeat.yaml", good)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hangup := make(chan os.Signal)
	logs, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, Process{
			Args:   []string{"serve", "--config", file, "--listen", "127.0.0.1:0", "--log-level", "info", "--watch", "0"},
			Stdout: io.Discard, Stderr: in, Hangup: hangup,
		})
		in.Close()
	}()
	lines := make(chan string, 1000) // read at once: a log that nobody reads would hold the daemon up
	go func() {
		for s := bufio.NewScanner(logs); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	next := func(part string) string {
		t.Helper()
		for line := range lines {
			if strings.Contains(line, part) {
				return line
			}
		}
		t.Fatalf("the log ended without %q", part)
		return ""
	}
	page := "http://" + regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(next(`msg="inferbeat is up"`))[1]
	contains(t, "/metrics", get(t, page+"/metrics"), "\ninferbeat_config_last_reload_successful 1\n", `target="a"`, `target="b"`)

	for _, step := range []struct{ text, log, metric string }{
		{strings.Replace(good, "kind: load", "kind: laod", 1), `inferbeat.yaml:5: probes.p.kind: must be one of`, "\ninferbeat_config_last_reload_successful 0\n"},
		{good, `msg="configuration reloaded" pairs=3`, "\ninferbeat_config_last_reload_successful 1\n"},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		hangup <- syscall.SIGHUP
		next(step.log)
		contains(t, "/metrics", get(t, page+"/metrics"), step.metric, `target="a"`, `target="b"`)
	}
	cancel()
	next("msg=stopping")
	if got := <-code; got != exitPass {
		t.Errorf("exit status %d, want 0", got)
	}
}
