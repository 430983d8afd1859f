package selftest

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// prompt is short: what is measured is the way back.
var prompt = strings.TrimSpace(strings.Repeat("word ", 32))

// sendOwn sends the load on inferbeat's own measuring path, the one that every
// run takes.
func sendOwn(ctx context.Context, clock probes.Clock, l load) ([]Exchange, error) {
	client, err := backend.New(ownTarget(l), backend.Options{UserAgent: "inferbeat/selftest"})
	if err != nil {
		return nil, fmt.Errorf("reach the truth server: %w", err)
	}
	defer client.Close()
	index := 0
	next := func() (*probes.Request, bool) {
		if index == l.Requests {
			return nil, false
		}
		request := ownRequest(index, l.Tokens)
		index++
		return request, true
	}
	exchanges := make([]Exchange, 0, l.Requests)
	stats := loadgen.Run(ctx, clock, loadgen.Load{
		Backend: client, Next: next, Offsets: constant(l.Rate), Concurrency: l.Streams, SlotGap: l.Gap, Count: l.Requests, Start: clock.Now(),
	}, func(record probes.Record) { exchanges = append(exchanges, exchangeOf(&record)) })
	return exchanges, stats.Err
}

func ownTarget(l load) probes.Target {
	return probes.Target{
		Name: "truth", Backend: l.Backend, BaseURL: "http://" + l.Address, Model: "truth",
		Connection: probes.Connection{Policy: probes.ConnectionReuse}, Timeouts: probes.Timeouts{Connect: l.Limit, Total: l.Limit},
	}
}

func ownRequest(index, tokens int) *probes.Request {
	return &probes.Request{
		ID: strconv.Itoa(index), Index: index, Prompt: prompt, MaxOutputTokens: tokens, Sampling: probes.Sampling{Stream: true},
	}
}

// constant are the offsets of a steady rate, nil for the closed loop.
func constant(rate float64) iter.Seq[time.Duration] {
	if rate == 0 {
		return nil
	}
	return func(yield func(time.Duration) bool) {
		for i := 0; yield(time.Duration(float64(i) / rate * float64(time.Second))); i++ {
		}
	}
}

func exchangeOf(r *probes.Record) Exchange {
	e := Exchange{ID: r.ID, Reused: r.Connection.Reused, Due: r.Due, Sent: r.Sent, Setup: r.Connection.Setup(), Receiving: r.Receiving, At: make([]time.Duration, len(r.Chunks))}
	for i, chunk := range r.Chunks {
		e.At[i] = chunk.At
	}
	if r.Outcome != probes.OK {
		e.Error = string(r.Outcome) + ": " + r.Error
	}
	return e
}
