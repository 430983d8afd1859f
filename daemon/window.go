package daemon

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/summary"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// window holds the last records of a continuous probe. Its result is computed
// anew after each run; single runs of one request are not worth judging.
type window struct {
	records []summary.Ended
	// server is what the last look at the server said, and seen when that was.
	server probes.ServerSummary
	seen   time.Time
}

// serverMaxAge is three times as long as looks are apart.
const serverMaxAge = 3 * glanceEvery

// add takes the records of a run over and returns the result that now stands;
// nil while nothing in the window has succeeded.
func (w *window) add(run *probes.Run, now time.Time) *probes.Result {
	w.take(run)
	w.records = summary.Window(w.records, run.Spec.Window, now)

	// The time of a result is that of its youngest success: when a target stops
	// answering, its old latencies age and go instead of looking new each minute.
	var completed time.Time
	for _, r := range w.records {
		if r.Record.Outcome == probes.OK && r.At.After(completed) {
			completed = r.At
		}
	}
	if completed.IsZero() {
		return nil
	}
	pooled := probes.Run{Target: run.Target, Spec: run.Spec, Complete: true, Records: summary.Records(w.records)}
	pooled.Summary = summary.Summarize(summary.Input{Spec: &pooled.Spec, Records: pooled.Records, Pooled: true, Server: w.lastLook(run, now)})
	pooled.Summary.Answer = run.Summary.Answer
	validity := verdict.Validity(&pooled, verdict.Evidence{Window: true})
	return &probes.Result{
		RunID: run.ID, CompletedAt: completed, Summary: pooled.Summary, Validity: validity,
		Verdict: verdict.Judge(&pooled.Spec, &pooled.Summary, validity), Traps: verdict.Traps(&pooled),
	}
}

// take appends the records of a run.
func (w *window) take(run *probes.Run) {
	for _, record := range run.Records {
		if run.Summary.Answer == probes.AnswerWrong {
			break // how fast a broken server is says nothing
		}
		ended := record.Sent
		if at, ok := record.End.Get(); ok {
			ended = at
		}
		w.records = append(w.records, summary.Ended{Record: record, At: run.Start.Add(ended)})
	}
}

// lastLook is what the server said last, unless that was too long ago.
func (w *window) lastLook(run *probes.Run, now time.Time) probes.ServerSummary {
	if run.Summary.Server.Known() {
		w.server, w.seen = run.Summary.Server, now
	} else if now.Sub(w.seen) > serverMaxAge {
		w.server = probes.ServerSummary{}
	}
	return w.server
}
