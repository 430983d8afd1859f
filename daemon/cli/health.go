package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

var healthCommand = command{
	name: "health", usage: "health [flags]", short: "ask a daemon whether it is ready",
	about: `Asks a daemon's /-/ready and exits with 0 when it is ready, else with 1. It is for images without
a shell, where a health check can call nothing else.`,
	define: func(f *flagSet) action {
		g := f.group("Flags")
		url := g.String("url", "http://127.0.0.1:9799", "`URL` of the daemon's page")
		timeout := g.Duration("timeout", 3*time.Second, "how long to wait for the answer")
		return func(ctx context.Context, p Process) (int, error) { return health(ctx, p, *url, *timeout) }
	},
}

func health(ctx context.Context, p Process, url string, timeout time.Duration) (int, error) {
	var m mistakes
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		m.add("url", "%q begins with neither http:// nor https://", url)
	}
	if timeout <= 0 {
		m.add("timeout", "%s is no time to wait", timeout)
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/-/ready", nil)
	if err != nil {
		return exitUsage, fmt.Errorf("flag --url: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return exitFail, fmt.Errorf("ask the daemon: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return exitFail, fmt.Errorf("read the daemon's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return exitFail, fmt.Errorf("the daemon answers %s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	fmt.Fprint(p.Stdout, string(text))
	return exitPass, nil
}
