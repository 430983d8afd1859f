// Command soak runs the whole daemon against truth servers on loopback at high
// speed and watches what it keeps:
//
//	go run ./daemon/selftest/soak --for 20m
//
// The story of the data:
//
//  1. Three truth servers (package truth) answer a fast canary and a load probe
//     each; runs overlap, results go to a file, and again and again a reload takes
//     a target away and another one brings it back.
//  2. At every sample probing is paused, which cuts the runs, and then the live
//     heap (after a collection), the goroutines and the resident memory are
//     printed, and /metrics is scraped.
//  3. At the end a straight line is laid through the second half of the samples.
//     What still rises there rises for ever: the exit status is then 1, as it is
//     when a probe has had no success for two minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command parses the flags, soaks and returns the exit status: 0 when nothing
// grew, 1 when something did or nothing was measured, 2 for a mistake.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options{}
	flags.DurationVar(&o.length, "for", 20*time.Minute, "how long")
	flags.DurationVar(&o.every, "sample", 0, "time between samples; 0 is 30s, or an eighth of --for when that is shorter")
	flags.Float64Var(&o.bounds.heapMiB, "heap-growth", 2, "MiB by which the heap may grow in the second half")
	flags.Float64Var(&o.bounds.goroutines, "goroutine-growth", 5, "goroutines by which their number may grow in the second half")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.every == 0 {
		o.every = min(30*time.Second, o.length/8)
	}
	if flags.NArg() > 0 || o.every <= 0 || o.length < minSamples*o.every {
		fmt.Fprintln(stderr, "soak: wants --for of at least four samples and no arguments")
		return 2
	}
	samples, err := soak(ctx, o, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return 1
	}
	failures := judge(samples, o.bounds, stdout)
	for _, f := range failures {
		fmt.Fprintln(stdout, "FAIL:", f)
	}
	if len(failures) > 0 {
		return 1
	}
	fmt.Fprintln(stdout, "PASS: nothing grows.")
	return 0
}
