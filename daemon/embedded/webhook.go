package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
)

const (
	// webhookWait collects what begins to fire together into one message.
	webhookWait = 10 * time.Second
	// webhookRepeat is how often a message is sent again while nothing changes.
	webhookRepeat  = 4 * time.Hour
	webhookTimeout = 10 * time.Second
	// webhookRetry and webhookRetryMax are the first and the longest pause before a
	// message that did not get through is sent again.
	webhookRetry    = 5 * time.Second
	webhookRetryMax = 5 * time.Minute
)

// webhookSeverities are those that a webhook is told; the others are for dashboards
// and for a dead man's switch, which needs an Alertmanager.
var webhookSeverities = []string{"critical", "warning"}

// webhook tells one URL which alerts fire. What it holds is the state of each alert
// and not a queue of messages: a receiver that was away is told how things are now,
// and nothing can pile up.
type webhook struct {
	destination Destination
	external    *url.URL
	log         *slog.Logger
	client      *http.Client
	changed     chan struct{} // holds one: something is to be told
	file        string        // what the receiver knows, for the next start; empty keeps nothing

	mu     sync.Mutex
	alerts map[uint64]*standing
	sent   Counts
}

// standing is an alert and what the receiver knows of it.
type standing struct {
	alert    *notifier.Alert
	resolved bool
	told     bool // the receiver may have heard that it fires
}

// Counts are the messages of one destination.
type Counts struct{ Delivered, Failed uint64 }

func newWebhook(d Destination, external *url.URL, log *slog.Logger) *webhook {
	return &webhook{
		destination: d, external: external, log: log, changed: make(chan struct{}, 1), alerts: map[uint64]*standing{},
		// A message must not follow a redirect with its token to another host.
		client: &http.Client{Timeout: webhookTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// tell takes over the states of alerts.
func (w *webhook) tell(alerts []*notifier.Alert) {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := false
	for _, a := range alerts {
		if !slices.Contains(webhookSeverities, a.Labels.Get("severity")) {
			continue
		}
		id := a.Labels.Hash()
		before := w.alerts[id]
		switch {
		case a.Resolved() && (before == nil || !before.told):
			delete(w.alerts, id) // nobody has heard of it
		case before == nil:
			w.alerts[id] = &standing{alert: a}
			news = true
		default:
			news = news || before.resolved != a.Resolved()
			before.alert, before.resolved = since(before.alert.StartsAt, a), a.Resolved()
		}
	}
	if news {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// since is an alert that began no later than a time: one that is found again after a
// restart is as old as it was.
func since(began time.Time, a *notifier.Alert) *notifier.Alert {
	if !began.Before(a.StartsAt) {
		return a
	}
	older := *a
	older.StartsAt = began
	return &older
}

// run delivers until ctx ends.
func (w *webhook) run(ctx context.Context) {
	restored := w.restore(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
			if !sleep(ctx, webhookWait) {
				return
			}
			select {
			case <-w.changed: // what came meanwhile goes along
			default:
			}
		case <-restored:
			if restored = nil; !w.ended() {
				continue
			}
		case <-time.After(webhookRepeat):
		}
		for pause := webhookRetry; !w.deliver(ctx); pause = min(2*pause, webhookRetryMax) {
			if !sleep(ctx, pause) {
				return
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// deliver sends how things are. It reports false when that has to be tried again.
func (w *webhook) deliver(ctx context.Context) bool {
	alerts := w.snapshot()
	if len(alerts) == 0 {
		return true
	}
	w.keep(alerts)
	err := w.post(ctx, newMessage(alerts, w.external))
	if err == nil {
		w.keep(slices.DeleteFunc(slices.Clone(alerts), func(a standing) bool { return a.resolved }))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.sent.Failed++
		w.log.Error("send alerts to a webhook", "webhook", w.destination.Name, "err", err)
		return false
	}
	w.sent.Delivered++
	for _, a := range alerts {
		id := a.alert.Labels.Hash()
		if now := w.alerts[id]; now != nil && now.resolved && a.resolved {
			delete(w.alerts, id)
		}
	}
	return true
}

// snapshot are all alerts that fire and those whose end has not been told. One that
// the rules have not confirmed for too long has lost its rule; it ends with it.
func (w *webhook) snapshot() []standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []standing
	for _, a := range w.alerts {
		a.resolved, a.told = a.resolved || a.alert.Resolved(), true
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.alert.Name(), b.alert.Name()), labels.Compare(a.alert.Labels, b.alert.Labels))
	})
	return out
}

func (w *webhook) post(ctx context.Context, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.destination.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the webhook cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "inferbeat-embedded")
	if w.destination.BearerToken != "" {
		request.Header.Set("Authorization", "Bearer "+w.destination.BearerToken)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

func (w *webhook) counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// Webhooks are the messages so far, by the name of the destination.
func (p *Prometheus) Webhooks() map[string]Counts {
	counts := map[string]Counts{}
	for _, hook := range p.webhooks {
		counts[hook.destination.Name] = hook.counts()
	}
	return counts
}
