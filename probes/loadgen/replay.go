package loadgen

import (
	"cmp"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// maxHeld bounds the requests of a trace that are due and not yet sent, since
// their prompts are in memory. Beyond it nothing more is read: what follows stays
// due at its own time and is sent later than that, which its record shows.
const maxHeld = 4096

// replay is what the pacer of a timed load has in place of offsets and a backlog.
//
//	Next -> request -> ready -> a worker in flight -> answered
//	        (timer)  |  (slot)                            |
//	                 `-> turns of a busy session ---------'
//
// It is part of the pacer and runs in its goroutine. A nil replay holds nothing.
type replay struct {
	*pacer
	// ready are due and wait for a slot, in due order.
	ready []job
	// turns are due and wait for the answer to an earlier turn. A session has an
	// entry, if an empty one, as long as one of its turns is ready or in flight.
	turns map[string][]job
	held  int // all of ready and turns
	// talks are the conversations that go on, up to their last answer.
	talks map[string][]probes.Message
}

// noAnswer stands for the answer of a turn that failed: the next one is asked all the
// same, and chat templates want roles to alternate.
const noAnswer = "I have no answer."

// remember keeps a turn and its answer for the next one.
func (r *replay) remember(asked *probes.Request, answer string) {
	if asked == nil {
		return
	}
	if answer == "" {
		answer = noAnswer
	}
	r.talks[asked.Session] = append(asked.Messages[:len(asked.Messages):len(asked.Messages)], probes.Message{Role: "assistant", Content: answer})
}

// recall puts the conversation so far before a turn's own messages.
func (r *replay) recall(request *probes.Request) {
	if request.Turn <= 1 {
		return
	}
	request.Messages = append(r.talks[request.Session], request.Messages...)
	delete(r.talks, request.Session) // it lives on in the request
}

func (r *replay) holds() bool { return r != nil && r.held > 0 }

// schedule notes when the request that Next gave is due. It is false for one that
// is due after the window.
func (r *replay) schedule(request *probes.Request) bool {
	at := request.At.Or(0)
	if r.load.Duration > 0 && at >= r.load.Duration {
		r.beyond, r.waiting = true, false
		return false
	}
	r.upcoming = later(r.load.Start, at)
	return true
}

// advance takes over what has become due.
func (r *replay) advance(now time.Duration) {
	for r.request != nil && r.upcoming <= now && r.held < maxHeld {
		j := job{request: r.request, due: r.upcoming, planned: probes.Known(r.upcoming)}
		r.load.Progress.due.Add(1)
		r.held++
		if turns, busy := r.turns[j.request.Session]; busy {
			r.turns[j.request.Session] = append(turns, j)
		} else {
			r.admit(j)
		}
		r.prepare()
	}
	r.waiting = r.request != nil && r.held < maxHeld
}

// admit puts a job among the ready ones and makes its session busy.
func (r *replay) admit(j job) {
	if s := j.request.Session; s != "" && r.turns[s] == nil {
		r.turns[s] = []job{}
	}
	at, _ := slices.BinarySearchFunc(r.ready, j, func(a, b job) int {
		if a.due <= b.due {
			return -1 // behind those that are due at the same instant
		}
		return 1
	})
	r.ready = slices.Insert(r.ready, at, j)
}

// dispatch hands out what is ready as long as a slot is free.
func (r *replay) dispatch() {
	for len(r.ready) > 0 && r.ctx.Err() == nil && r.slotFree() {
		j := r.ready[0]
		r.ready = slices.Delete(r.ready, 0, 1)
		r.held--
		r.recall(j.request)
		r.hand(j)
	}
	r.waiting = r.request != nil && r.held < maxHeld
}

// answered lets the next turn of a session go. It was wanted at its own time, and
// could not be asked before the answer had come.
func (r *replay) answered(session string, end time.Duration) {
	turns, busy := r.turns[session]
	if !busy {
		return
	}
	if len(turns) == 0 {
		delete(r.turns, session)
		return
	}
	next := turns[0]
	r.turns[session] = turns[1:]
	next.due = max(next.due, end)
	r.admit(next)
}

// drop leaves records of everything that was due by then, in the trace's order.
func (r *replay) drop(by time.Duration) {
	all := r.ready
	for _, turns := range r.turns {
		all = append(all, turns...)
	}
	slices.SortFunc(all, func(a, b job) int { return cmp.Compare(a.request.Index, b.request.Index) })
	for _, j := range all {
		r.pacer.drop(j)
	}
	r.ready, r.turns, r.held = nil, nil, 0
	for r.request != nil && r.upcoming <= by {
		r.load.Progress.due.Add(1)
		r.pacer.drop(job{request: r.request, due: r.upcoming, planned: probes.Known(r.upcoming)})
		r.prepare()
	}
}
