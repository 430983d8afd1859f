package loadgen

import (
	"fmt"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// maxPanicText bounds what a panic may put into an error text.
const maxPanicText = 200

// job is a request whose time has come.
type job struct {
	request *probes.Request
	due     time.Duration
	planned probes.Optional[time.Duration] // see probes.Record
}

// worker is one goroutine that carries out one job after the other.
type worker struct {
	jobs chan job
	// session and end are those of the last job; the pacer reads them once the
	// worker has said that it is free.
	session string
	ended   time.Duration
	// asked and answer are those of a turn whose conversation goes on.
	asked  *probes.Request
	answer string
}

func (p *pacer) work(w *worker) {
	for j := range w.jobs {
		record := p.do(j)
		w.session, w.ended = j.request.Session, record.End.Or(p.clock.Now())
		if w.asked, w.answer = nil, ""; j.request.Turn < j.request.Turns {
			w.asked, w.answer = j.request, record.Text
		}
		p.load.Progress.settle(record.Outcome)
		p.results <- record
		p.freed <- w
	}
}

// do keeps a panic of the backend from taking the process along.
func (p *pacer) do(j job) (record probes.Record) {
	sent := p.clock.Now()
	err := guard(func() {
		record = p.load.Backend.Do(p.ctx, p.clock, j.request, j.due)
		record.Planned, record.Session = j.planned, j.request.Session
	})
	if err != nil {
		record = blank(j)
		record.Sent = sent
		record.End = probes.Known(p.clock.Now())
		record.Outcome = probes.BadResponse
		record.Error = err.Error()
	}
	return record
}

// blank is the record of a request about which only the asking is known.
func blank(j job) probes.Record {
	request := j.request
	return probes.Record{
		ID: request.ID, Index: request.Index, Warmup: request.Warmup,
		Planned: j.planned, Session: request.Session, Due: j.due,
		RequestedInput: request.InputTokens, Images: len(request.Images),
		RequestedOutput: request.MaxOutputTokens,
		ExactOutput:     request.Sampling.IgnoreEOS,
	}
}

// guard turns a panic of f into an error, without the stack.
func guard(f func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			text := fmt.Sprint(cause)
			if len(text) > maxPanicText {
				text = strings.ToValidUTF8(text[:maxPanicText], "") + "..."
			}
			err = fmt.Errorf("panic: %s", text)
		}
	}()
	f()
	return nil
}
