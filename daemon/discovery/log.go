package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
)

// discreet passes records on without the queries of URLs: Go's errors repeat the address
// that could not be reached, and a token may be in it.
type discreet struct{ slog.Handler }

var queryRE = regexp.MustCompile(`(https?://[^\s"'?]*)\?[^\s"']*`)

func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, hide(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(discreetly(a))
		return true
	})
	return d.Handler.Handle(ctx, out)
}

func (d discreet) WithAttrs(attrs []slog.Attr) slog.Handler {
	shown := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		shown[i] = discreetly(a)
	}
	return discreet{d.Handler.WithAttrs(shown)}
}

func (d discreet) WithGroup(name string) slog.Handler { return discreet{d.Handler.WithGroup(name)} }

func discreetly(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, hide(v.String()))
	case slog.KindAny:
		return slog.String(a.Key, hide(fmt.Sprint(v.Any())))
	}
	return a
}

func hide(text string) string { return queryRE.ReplaceAllString(text, "$1?<secret>") }
