package fakellm

import (
	"math/rand/v2"
	"sync"
	"time"
)

// tokenEvent is what a step brings to one sequence.
type tokenEvent struct {
	tokens int       // 0 in the event that announces the begin of the prefill
	at     time.Time // end of the step on the schedule
	last   bool
	// drafts of the request so far, and how many of them were accepted
	drafts, accepted int
}

// sequence is one request inside the engine. Fields below the blank line belong
// to the engine's lock; the handler may read them after it has taken the event
// whose last is set.
type sequence struct {
	ordinal  int
	received time.Time
	prompt   []int32
	answer   answer
	stream   bool
	script   *Script
	slow     float64 // of the script
	announce bool    // the begin of the prefill is an event too

	rng      *rand.Rand // accepted drafts
	admitted time.Time
	cached   int
	produced int
	first    time.Time
	last     time.Time
	spec     specCounts
	ended    bool

	queueMu sync.Mutex
	queue   []tokenEvent
	head    int           // of the queue: events before it were taken
	ready   chan struct{} // holds a token after a push
	planned int           // script: token events taken
}

// specCounts is the speculation of one request.
type specCounts struct {
	steps, drafts, accepted int
	histogram               []int // verify steps by number of accepted drafts
}

func (c *specCounts) observe(accepted, drafts int) {
	c.steps++
	c.drafts += drafts
	c.accepted += accepted
	if c.histogram == nil {
		c.histogram = make([]int, drafts+1)
	}
	c.histogram[accepted]++
}

// push never blocks the step loop, however slow the client reads.
func (s *sequence) push(ev tokenEvent) {
	s.queueMu.Lock()
	s.queue = append(s.queue, ev)
	s.queueMu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take returns the next event of the batching model, if there is one.
func (s *sequence) take() (tokenEvent, bool) {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	if s.head == len(s.queue) {
		return tokenEvent{}, false
	}
	ev := s.queue[s.head]
	s.head++
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
	return ev, true
}

// scripted returns the next event of the script; its instant may lie ahead.
func (s *sequence) scripted() tokenEvent {
	if s.announce {
		s.announce = false
		return tokenEvent{at: s.received}
	}
	i := s.planned
	s.planned++
	ttft := s.script.TTFT[(s.ordinal-1)%len(s.script.TTFT)]
	offset := float64(ttft + time.Duration(i)*s.script.ITL)
	n := min(s.script.TokensPerEvent, s.answer.length-i*s.script.TokensPerEvent)
	return tokenEvent{
		tokens: n,
		at:     s.received.Add(time.Duration(offset * s.slow)),
		last:   i*s.script.TokensPerEvent+n >= s.answer.length,
	}
}

// appendAll writes the ids of prompt and answer behind dst.
func (s *sequence) appendAll(dst []int32) []int32 {
	dst = append(dst, s.prompt...)
	for i := range s.produced {
		dst = append(dst, s.answer.id(i))
	}
	return dst
}
