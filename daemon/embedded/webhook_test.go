package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
)

// receiver notes what it is told and when.
type receiver struct {
	start time.Time
	fails int // how many of the next messages it refuses
	got   []string
	auth  string
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	at := time.Since(r.start).String()
	r.auth = request.Header.Get("Authorization")
	if r.fails > 0 {
		r.fails--
		r.got = append(r.got, at+" refused")
		return nil, errors.New("connection refused")
	}
	var m message
	if err := json.NewDecoder(request.Body).Decode(&m); err != nil {
		return nil, err
	}
	line := at + " " + m.Status
	for _, a := range m.Alerts {
		line += " " + a.Labels["alertname"] + "/" + a.Labels["target"] + "=" + a.Status
	}
	r.got = append(r.got, line)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func alert(name, target, severity string, began time.Time, ends time.Time) *notifier.Alert {
	return &notifier.Alert{
		Labels:      labels.FromStrings("alertname", name, "target", target, "severity", severity),
		Annotations: labels.FromStrings("summary", name+" is bad"),
		StartsAt:    began, EndsAt: ends, GeneratorURL: "http://page/#" + name,
	}
}

func newTestWebhook(r *receiver, log io.Writer) *webhook {
	external := &url.URL{Scheme: "http", Host: "page"}
	w := newWebhook(Destination{Name: "chat", URL: "http://chat/hook/SECRET", BearerToken: "TOKEN"}, external, slog.New(slog.NewTextHandler(log, nil)))
	w.client.Transport = r
	return w
}

func TestWebhookTellsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &receiver{start: start}
		w := newTestWebhook(r, io.Discard)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.run(ctx) }()
		far := start.Add(100 * time.Hour)

		w.tell([]*notifier.Alert{alert("A", "one", "critical", start, far), alert("Heartbeat", "", "none", start, far), alert("I", "one", "info", start, far)})
		time.Sleep(3 * time.Second)
		w.tell([]*notifier.Alert{alert("B", "two", "warning", start, far)})
		time.Sleep(time.Minute) // both in one message at 10 s
		w.tell([]*notifier.Alert{alert("A", "one", "critical", start, far)})
		time.Sleep(time.Minute) // said again by the rules: no news
		w.tell([]*notifier.Alert{alert("A", "one", "critical", start, time.Now())})
		time.Sleep(time.Minute) // A has ended
		// C begins and ends before anybody hears of it.
		w.tell([]*notifier.Alert{alert("C", "two", "critical", time.Now(), far)})
		w.tell([]*notifier.Alert{alert("C", "two", "critical", time.Now(), time.Now())})
		time.Sleep(time.Minute)
		time.Sleep(4 * time.Hour) // B still fires
		stop()
		<-ended

		want := []string{
			"10s firing A/one=firing B/two=firing",
			"2m13s firing A/one=resolved B/two=firing",
			"3m13s firing B/two=firing",   // C was news for a moment
			"4h3m13s firing B/two=firing", // the reminder
		}
		if diff := cmp.Diff(want, r.got); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
		if r.auth != "Bearer TOKEN" {
			t.Errorf("authorization %q, want the bearer token", r.auth)
		}
		if diff := cmp.Diff(Counts{Delivered: 4}, w.counts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

func TestWebhookTriesAgainAndKeepsItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &receiver{start: start, fails: 3}
		var log strings.Builder
		w := newTestWebhook(r, &log)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.run(ctx) }()

		// The rules stop confirming it after ten minutes.
		w.tell([]*notifier.Alert{alert("A", "one", "critical", start, start.Add(10*time.Minute))})
		time.Sleep(5 * time.Hour)
		stop()
		<-ended

		want := []string{"10s refused", "15s refused", "25s refused", "45s firing A/one=firing", "4h0m45s resolved A/one=resolved"}
		if diff := cmp.Diff(want, r.got); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
		if strings.Contains(log.String(), "SECRET") || strings.Contains(log.String(), "TOKEN") {
			t.Errorf("the log tells a secret:\n%s", log.String())
		}
		if !strings.Contains(log.String(), "webhook=chat") || !strings.Contains(log.String(), "connection refused") {
			t.Errorf("the log does not say what failed:\n%s", log.String())
		}
		if diff := cmp.Diff(Counts{Delivered: 2, Failed: 3}, w.counts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

// What a receiver was told is known after a restart: what still fires is no news and as
// old as it was, what ended meanwhile is told to have ended.
func TestWebhookRemembersWhatItTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &receiver{start: start}
		file := filepath.Join(t.TempDir(), "webhook-chat.json")
		run := func(work func(*webhook)) *webhook {
			w := newTestWebhook(r, io.Discard)
			w.file = file
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); w.run(ctx) }()
			work(w)
			stop()
			<-ended
			return w
		}
		far := start.Add(100 * time.Hour)
		run(func(w *webhook) {
			w.tell([]*notifier.Alert{alert("A", "one", "critical", start, far), alert("B", "two", "critical", start, far)})
			time.Sleep(time.Minute)
		})
		w := run(func(w *webhook) {
			time.Sleep(time.Minute)
			w.tell([]*notifier.Alert{alert("A", "one", "critical", time.Now(), far)})
			time.Sleep(time.Hour)
		})
		for _, a := range w.snapshot() {
			if !a.alert.StartsAt.Equal(start) {
				t.Errorf("%s began at %v after the restart, want %v", a.alert.Name(), a.alert.StartsAt, start)
			}
		}
		run(func(w *webhook) { // A ends before anything is told
			time.Sleep(time.Minute)
			w.tell([]*notifier.Alert{alert("A", "one", "critical", start, far)})
			w.tell([]*notifier.Alert{alert("A", "one", "critical", start, time.Now())})
			time.Sleep(time.Minute)
		})
		run(func(*webhook) { time.Sleep(time.Hour) })
		if err := os.WriteFile(file, []byte("half a fi"), 0o600); err != nil {
			t.Fatal(err)
		}
		run(func(*webhook) { time.Sleep(time.Hour) })

		want := []string{
			"10s firing A/one=firing B/two=firing",
			"16m0s firing A/one=firing B/two=resolved",
			"1h3m10s resolved A/one=resolved",
		}
		if diff := cmp.Diff(want, r.got); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
}

func TestMessageIsThatOfAlertmanager(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	m := newMessage([]standing{
		{alert: alert("A", "one", "critical", began, began.Add(time.Hour))},
		{alert: alert("A", "two", "critical", began, began.Add(time.Minute)), resolved: true},
	}, &url.URL{Scheme: "http", Host: "page"})
	got, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "version": "4",
  "groupKey": "{}:{}",
  "truncatedAlerts": 0,
  "status": "firing",
  "receiver": "inferbeat",
  "groupLabels": {},
  "commonLabels": {
    "alertname": "A",
    "severity": "critical"
  },
  "commonAnnotations": {
    "summary": "A is bad"
  },
  "externalURL": "http://page",
  "alerts": [
    {
      "status": "firing",
      "labels": {
        "alertname": "A",
        "severity": "critical",
        "target": "one"
      },
      "annotations": {
        "summary": "A is bad"
      },
      "startsAt": "2026-05-01T12:00:00Z",
      "endsAt": "0001-01-01T00:00:00Z",
      "generatorURL": "http://page/#A",
      "fingerprint": "FINGERPRINT1"
    },
    {
      "status": "resolved",
      "labels": {
        "alertname": "A",
        "severity": "critical",
        "target": "two"
      },
      "annotations": {
        "summary": "A is bad"
      },
      "startsAt": "2026-05-01T12:00:00Z",
      "endsAt": "2026-05-01T12:01:00Z",
      "generatorURL": "http://page/#A",
      "fingerprint": "FINGERPRINT2"
    }
  ]
}`
	want = strings.NewReplacer("FINGERPRINT1", m.Alerts[0].Fingerprint, "FINGERPRINT2", m.Alerts[1].Fingerprint).Replace(want)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if a, b := m.Alerts[0].Fingerprint, m.Alerts[1].Fingerprint; a == b || len(a) != 16 {
		t.Errorf("fingerprints %q and %q, want two of 16 digits", a, b)
	}
}
