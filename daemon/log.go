package daemon

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
)

// logLevels are the values of the label level, in the order of slog's levels.
var logLevels = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// logCounter counts the lines that were written, by level.
type logCounter struct{ lines [4]atomic.Uint64 }

func (c *logCounter) totals() map[string]uint64 {
	totals := make(map[string]uint64, len(logLevels))
	for i, level := range logLevels {
		totals[strings.ToLower(level.String())] = c.lines[i].Load()
	}
	return totals
}

// countingHandler counts each line before it is written.
type countingHandler struct {
	slog.Handler
	counter *logCounter
}

func (h countingHandler) Handle(ctx context.Context, r slog.Record) error {
	for i := len(logLevels) - 1; i >= 0; i-- {
		if r.Level >= logLevels[i] {
			h.counter.lines[i].Add(1)
			break
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h countingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return countingHandler{h.Handler.WithAttrs(attrs), h.counter}
}

func (h countingHandler) WithGroup(name string) slog.Handler {
	return countingHandler{h.Handler.WithGroup(name), h.counter}
}

// newLogger writes to w in the configured format, counting lines.
func newLogger(w io.Writer, format string, level slog.Leveler, counter *logCounter) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(countingHandler{handler, counter})
}
