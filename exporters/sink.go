// Package exporters carries what happened from the measurer to every sink.
//
// The story of the data: the daemon publishes each [probes.Event] once to a
// [Fanout]. The fanout puts it into one bounded queue per sink and returns at
// once: a sink that is slow, stuck or broken costs its own events, never a
// measurement and never another sink. One goroutine per sink takes events off
// its queue and calls [Sink.Export]; it alone touches the sink. What could not
// be queued is counted as dropped, what could not be exported as an error; both
// are read with [Fanout.Stats] and are metrics.
//
// Events and everything they point to are immutable once published.
package exporters

import (
	"context"

	"github.com/inferbeat/inferbeat/probes"
)

// Sink receives events, one at a time, from one goroutine.
type Sink interface {
	// Name is short, unique and fixed: it is a label.
	Name() string
	// Export takes one event and ignores the kinds it has no use for. It gives up
	// when ctx ends, which happens only when the deadline of Fanout.Close passes.
	Export(ctx context.Context, e probes.Event) error
	// Close is called once, after the last Export.
	Close() error
}
