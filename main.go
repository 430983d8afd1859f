// Command inferbeat benchmarks LLM inference servers continuously and tells
// Prometheus. See README.md; `inferbeat help` lists the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/inferbeat/inferbeat/daemon/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; after stop the next one has its
	// default effect and ends the process at once.
	context.AfterFunc(ctx, stop)
	nohup := signal.Ignored(syscall.SIGHUP)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)

	code := cli.Main(ctx, cli.Process{
		Args: os.Args[1:], Env: os.Environ(),
		Stdout: os.Stdout, Stderr: os.Stderr,
		Hangup: hangup, Nohup: nohup,
	})
	stop()
	os.Exit(code)
}
