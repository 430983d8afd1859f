package fakellm

import (
	"slices"
	"time"
)

// Totals are counters since the engine was built. At any moment
// Received = Refused + Finished + Aborted + Running + Waiting.
type Totals struct {
	Received int64 // requests to generating routes, whatever became of them
	Refused  int64 // never reached the engine: invalid, or struck by a fault before
	Finished int64 // all tokens were generated
	Aborted  int64 // the client left, or a fault cut the answer

	PromptTokens    int64 // of admitted requests, cached ones included
	CachedTokens    int64 // of them, found in the prefix cache
	GeneratedTokens int64

	// Speculation: each verify step drafts, accepts some of the drafts and
	// yields one token more than it accepted. A step near the end of an answer
	// yields no more than is wanted.
	VerifySteps, VerifiedTokens, DraftTokens, AcceptedTokens int64
	AcceptedPerPosition                                      []int64

	PrefillSteps, DecodeSteps int64
	// LateSteps counts the times the schedule was given up because the process
	// ran more than 100 ms late.
	LateSteps int64
}

// AcceptLength is the mean number of tokens per verify step; 0 without any.
func (t Totals) AcceptLength() float64 {
	if t.VerifySteps == 0 {
		return 0
	}
	return float64(t.VerifiedTokens) / float64(t.VerifySteps)
}

// Stats is the truth about everything the engine did.
type Stats struct {
	Totals
	Running      int // scripted requests included
	Waiting      int
	CachedBlocks int
	Profiling    bool     // the profiler runs
	Profiles     []string // what each profile was asked with, as it came
	// Requests are the latest, in order of arrival.
	Requests []RequestTrace
}

// RequestTrace is the truth about one request.
type RequestTrace struct {
	Ordinal  int // from 1
	ID       string
	Path     string
	Received time.Time // the body had been read
	// Queued is the time from Received to the step that began its prefill.
	Queued       time.Duration
	PromptTokens int
	CachedTokens int
	Adapter      string // LoRA adapter that answered; empty for the model itself
	// Sent are the token events, each stamped just before its write.
	Sent []SentEvent
	// Fault is what cut or replaced the answer, if anything did.
	Fault FaultKind
	Ended bool
}

// SentEvent is one token event.
type SentEvent struct {
	At     time.Duration // since Received
	Tokens int
}

// OutputTokens is how many tokens were sent.
func (r RequestTrace) OutputTokens() int {
	n := 0
	for _, s := range r.Sent {
		n += s.Tokens
	}
	return n
}

// trace is a RequestTrace under construction, guarded by the engine's lock.
type trace struct{ RequestTrace }

// open gives the next request its ordinal and trace.
func (e *Engine) open(path string, received time.Time) *trace {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ordinal++
	e.totals.Received++
	t := &trace{RequestTrace{Ordinal: e.ordinal, Path: path, Received: received}}
	if drop := len(e.traces) + 1 - e.cfg.KeepRequests; drop > 0 {
		e.traces = slices.Delete(e.traces, 0, drop)
	}
	e.traces = append(e.traces, t)
	return t
}

// refuse ends a request that never reached the engine.
func (e *Engine) refuse(t *trace, fault FaultKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.totals.Refused++
	t.Fault, t.Ended = fault, true
}

// sent notes a token event that is about to be written.
func (e *Engine) sent(t *trace, s *sequence, tokens int) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	t.Queued, t.CachedTokens = s.admitted.Sub(s.received), s.cached
	t.Sent = append(t.Sent, SentEvent{now.Sub(t.Received), tokens})
}

// Stats returns a copy of all that is known.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{
		Totals:       e.totals,
		Running:      len(e.running) + e.scripts,
		Waiting:      len(e.waiting),
		CachedBlocks: e.cache.len(),
		Profiling:    e.profile.running,
		Profiles:     slices.Clone(e.profile.asked),
		Requests:     make([]RequestTrace, len(e.traces)),
	}
	s.AcceptedPerPosition = slices.Clone(e.totals.AcceptedPerPosition)
	for i, t := range e.traces {
		s.Requests[i] = t.RequestTrace
		s.Requests[i].Sent = slices.Clone(t.Sent)
	}
	return s
}

// identify completes the trace of a request that was understood.
func (e *Engine) identify(t *trace, id string, a *ask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.ID, t.PromptTokens, t.Adapter = id, len(a.prompt), a.adapter
}

// cut names the fault that ends an answer.
func (e *Engine) cut(t *trace, fault FaultKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.Fault = fault
}

// close ends a trace.
func (e *Engine) close(t *trace) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.Ended = true
}
