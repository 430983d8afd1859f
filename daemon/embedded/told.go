package embedded

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
)

// restartGrace is how long after a start the rules may take to find an alert again that
// fired before: the least that Prometheus leaves of a waiting time, and some rounds.
const restartGrace = forGrace + 5*time.Minute

// toldAlert is an alert that a receiver knows of, on the disk.
type toldAlert struct {
	Labels, Annotations map[string]string
	StartsAt            time.Time
	GeneratorURL        string
}

// keep writes down which alerts the receiver knows of: without that, the end of one that
// ended with the daemon would never be told.
func (w *webhook) keep(alerts []standing) {
	if w.file == "" {
		return
	}
	told := make([]toldAlert, len(alerts))
	for i, a := range alerts {
		told[i] = toldAlert{a.alert.Labels.Map(), a.alert.Annotations.Map(), a.alert.StartsAt, a.alert.GeneratorURL}
	}
	text, err := json.Marshal(told)
	if err == nil {
		err = os.WriteFile(w.file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(w.file+".new", w.file)
	}
	if err != nil {
		w.log.Warn("keep what a webhook was told; alerts that end in a restart will not be", "webhook", w.destination.Name, "err", err)
	}
}

// restore takes over what the receiver was told before the start. The channel says when
// the rules have had their time to find those alerts again; it is nil without any.
func (w *webhook) restore(now time.Time) <-chan time.Time {
	if w.file == "" {
		return nil
	}
	var told []toldAlert
	text, err := os.ReadFile(w.file)
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.log.Warn("read what a webhook was told before the start", "webhook", w.destination.Name, "err", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range told {
		a := &notifier.Alert{
			Labels: labels.FromMap(t.Labels), Annotations: labels.FromMap(t.Annotations),
			StartsAt: t.StartsAt, EndsAt: now.Add(restartGrace), GeneratorURL: t.GeneratorURL,
		}
		if before := w.alerts[a.Labels.Hash()]; before != nil { // the rules were faster
			before.alert, before.told = since(a.StartsAt, before.alert), true
			continue
		}
		w.alerts[a.Labels.Hash()] = &standing{alert: a, told: true}
	}
	if len(told) == 0 {
		return nil
	}
	return time.After(restartGrace)
}

// ended reports whether an alert that the receiver knows of is over.
func (w *webhook) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.alerts {
		if a.told && (a.resolved || a.alert.Resolved()) {
			return true
		}
	}
	return false
}
