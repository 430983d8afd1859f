package discovery

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLogIsDiscreet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(newDiscreet(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		fail := func(entry string) {
			log.With("entry", entry).Error("cannot refresh", "err", errors.New(`Get "http://h/list?token=hunter2": refused`), "n", 3)
		}
		fail("a")
		fail("a") // said already
		fail("b")
		time.Sleep(repeatTime)
		fail("a")
		log.With("url", "https://h/?key=hunter2").WithGroup("g").Info("see http://h/?hunter2 there", "x", "y")
		want := []string{
			`level=ERROR msg="cannot refresh" entry=a err="Get \"http://h/list?<secret>\": refused" n=3`,
			`level=ERROR msg="cannot refresh" entry=b err="Get \"http://h/list?<secret>\": refused" n=3`,
			`level=ERROR msg="cannot refresh" entry=a err="Get \"http://h/list?<secret>\": refused" n=3`,
			`level=INFO msg="see http://h/?<secret> there" url=https://h/?<secret> g.x=y`,
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(b.String()), "\n")); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
