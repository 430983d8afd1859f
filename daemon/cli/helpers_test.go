package cli

import (
	"bytes"
	"context"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

var update = flag.Bool("update", false, "write the golden files")

// result is what a call left behind.
type result struct {
	code           int
	stdout, stderr string
}

// call runs a command as main does, without a process.
func call(ctx context.Context, env []string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := Main(ctx, Process{Args: args, Env: env, Stdout: &stdout, Stderr: &stderr})
	return result{code, stdout.String(), stderr.String()}
}

// fakeServer is a simulated replica on loopback: the first token after 5 ms, the
// others 1 ms apart.
func fakeServer(t *testing.T, change func(*fakellm.Config), wrap func(http.Handler) http.Handler) (url string, engine *fakellm.Engine) {
	t.Helper()
	engine, handler := fakeEngine(t, change, wrap)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, engine
}

func fakeEngine(t *testing.T, change func(*fakellm.Config), wrap func(http.Handler) http.Handler) (*fakellm.Engine, http.Handler) {
	t.Helper()
	c := fakellm.Config{
		Model: "m", Engine: fakellm.VLLM, MeanOutputTokens: 1_000_000,
		Script: &fakellm.Script{TTFT: []time.Duration{5 * time.Millisecond}, ITL: time.Millisecond},
	}
	if change != nil {
		change(&c)
	}
	engine, err := fakellm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	handler := engine.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	return engine, handler
}

// network is where replicas are reached in a bubble: commands that measure take no time
// of the host, so that it is never too busy for them.
type network struct {
	fakellm.Network
	t *testing.T
}

func newNetwork(t *testing.T) *network {
	n := &network{t: t}
	t.Cleanup(n.Close)
	return n
}

// server is as fakeServer, on the network.
func (n *network) server(change func(*fakellm.Config), wrap func(http.Handler) http.Handler) (url string, engine *fakellm.Engine) {
	n.t.Helper()
	engine, handler := fakeEngine(n.t, change, wrap)
	return n.Serve(handler), engine
}

// call is as call, on the network.
func (n *network) call(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := Main(n.t.Context(), Process{Args: args, Stdout: &stdout, Stderr: &stderr, Dial: n.Dial})
	return result{code, stdout.String(), stderr.String()}
}

// deadURL is a URL at which nothing listens.
func deadURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// short is a run that is over at once.
func short(url string, more ...string) []string {
	return append([]string{
		"run", "--backend", "vllm", "--base-url", url, "--num-prompts", "3",
		"--random-input-len", "32", "--random-output-len", "4", "--random-range-ratio", "1",
	}, more...)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// resolved is what the arguments of run mean.
type resolved struct {
	Target  probes.Target
	Spec    probes.Spec
	Options runFlags
}

func resolveArgs(env []string, args ...string) (resolved, error) {
	flags := &flagSet{FlagSet: newFlags()}
	o := defineRunFlags(flags)
	if err := flags.parse("run", args); err != nil {
		return resolved{}, err
	}
	target, spec, err := o.resolve(flags.FlagSet, env)
	o.changed = nil // functions cannot be compared
	return resolved{target, spec, *o}, err
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(runFlags{}, against{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
