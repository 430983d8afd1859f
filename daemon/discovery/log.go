package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

// discreet passes records on without the queries of URLs: Go's errors repeat the address
// that could not be reached, and a token may be in it. What has just been said is not
// said again: a log file in the folder that file_sd_configs watches would otherwise have
// each line about a broken file cause the next one, ten thousand times a second.
type discreet struct {
	slog.Handler
	with string // the attributes so far
	said *said
}

// repeatTime is for how long an equal record is not passed on.
const repeatTime = 30 * time.Second

// said remembers what was said when.
type said struct {
	mu sync.Mutex
	at map[string]time.Time
}

// again reports whether a text was said a short while ago, and remembers it else.
func (s *said) again(text string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, at := range s.at {
		if now.Sub(at) >= repeatTime {
			delete(s.at, old)
		}
	}
	if _, ok := s.at[text]; ok {
		return true
	}
	s.at[text] = now
	return false
}

func newDiscreet(h slog.Handler) discreet {
	return discreet{Handler: h, said: &said{at: map[string]time.Time{}}}
}

var queryRE = regexp.MustCompile(`(https?://[^\s"'?]*)\?[^\s"']*`)

func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, hide(r.Message), r.PC)
	var text strings.Builder
	fmt.Fprint(&text, d.with, " ", r.Level, " ", out.Message)
	r.Attrs(func(a slog.Attr) bool {
		shown := discreetly(a)
		fmt.Fprint(&text, " ", shown)
		out.AddAttrs(shown)
		return true
	})
	if d.said.again(text.String(), time.Now()) {
		return nil
	}
	return d.Handler.Handle(ctx, out)
}

func (d discreet) WithAttrs(attrs []slog.Attr) slog.Handler {
	shown := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		shown[i] = discreetly(a)
	}
	return discreet{d.Handler.WithAttrs(shown), d.with + fmt.Sprint(shown), d.said}
}

func (d discreet) WithGroup(name string) slog.Handler {
	return discreet{d.Handler.WithGroup(name), d.with + name, d.said}
}

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
