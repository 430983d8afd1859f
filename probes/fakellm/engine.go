package fakellm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// acceptLogInterval is the number of decode steps after which SGLang rolls up
// its accept lengths; the steps since are missing from what it shows.
const acceptLogInterval = 40

// Engine is a simulated inference engine. All methods may be called at any time
// from any goroutine.
type Engine struct {
	tok     *tokenizer
	lex     *lexicon
	flavour *flavour

	mu      sync.Mutex
	cfg     *Config // replaced as a whole, never changed
	slow    float64
	accept  float64 // probability of accepting the next draft
	jitter  *rand.Rand
	cache   *prefixCache
	waiting []*sequence // in order of arrival
	running []*sequence
	batch   []*sequence   // of the current step
	length  time.Duration // of the current step
	// prefilling tells a prefill step from a decode step.
	prefilling bool
	stepping   bool
	scripts    int // scripted requests in progress
	profile    profile

	ordinal int
	totals  Totals
	done    finished
	lat     latencies
	rolled  acceptance // SGLang's view, as of the last roll-up
	busy    int64      // sequences in the batch, summed over all steps
	longest int        // prompt and answer of the longest finished request
	steps   []stepRecord
	traces  []*trace // the latest, in order of arrival
}

// finished sums up requests that have ended, as SGLang's counters do.
type finished struct {
	prompt, cached, generated, verify [2]int64 // by stream
	requests                          [2]int64
	byReason                          map[string]int64
}

// acceptance is what SGLang's log interval knows about speculation.
type acceptance struct {
	tokens, steps         int64 // at the last roll-up, since start or flush
	baseTokens, baseSteps int64 // at the flush
	decodeSteps           int
	recent                float64 // of the last interval
}

// New builds an engine. Nothing runs until the first request.
func New(c Config) (*Engine, error) {
	tok := newTokenizer()
	e := &Engine{tok: tok, lex: newLexicon(tok), jitter: rand.New(rand.NewPCG(uint64(c.Seed), 1))}
	e.done.byReason = map[string]int64{}
	if err := e.SetConfig(c); err != nil {
		return nil, err
	}
	e.flavour = flavours[e.cfg.Engine]
	e.lat = newLatencies(e.flavour.buckets)
	return e, nil
}

// SetConfig replaces the configuration: step times from the next step, all else
// from the next request. Counters stay; the prefix cache is emptied if its shape
// or the weights change. The engine's flavour cannot change.
func (e *Engine) SetConfig(c Config) error {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return fmt.Errorf("configure engine: %w", err)
	}
	c.Faults = slices.Clone(c.Faults)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cfg != nil && e.cfg.Engine != c.Engine {
		return fmt.Errorf("configure engine: a running %s cannot become %s", e.cfg.Engine, c.Engine)
	}
	if e.cfg == nil || e.cfg.Cache != c.Cache || e.cfg.Weights != c.Weights {
		e.cache = newPrefixCache(c.Cache)
	}
	e.cfg, e.slow = &c, slowness(c.Faults)
	if c.Speculation.DraftTokens > 0 {
		e.accept = draftAcceptance(c.Speculation)
	}
	return nil
}

// SetFaults replaces the faults, for requests that arrive from now on.
func (e *Engine) SetFaults(faults ...Fault) error {
	for i, f := range faults {
		if err := f.validate(); err != nil {
			return fmt.Errorf("configure engine: read faults[%d]: %w", i, err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := *e.cfg // a request in progress keeps the one it started with
	c.Faults = slices.Clone(faults)
	e.cfg, e.slow = &c, slowness(faults)
	return nil
}

func (e *Engine) config() *Config {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg
}

// FlushCache empties the prefix cache and restarts the accept length, unless
// requests are running or waiting.
func (e *Engine) FlushCache() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.running)+len(e.waiting)+e.scripts > 0 {
		return false
	}
	e.cache.clear()
	e.rolled = acceptance{baseTokens: e.totals.VerifiedTokens, baseSteps: e.totals.VerifySteps,
		tokens: e.totals.VerifiedTokens, steps: e.totals.VerifySteps}
	return true
}

// submit puts a sequence in the queue, or starts its script.
func (e *Engine) submit(s *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.script != nil {
		e.scripts++
		s.admitted = s.received
		e.totals.PromptTokens += int64(len(s.prompt))
		return
	}
	e.waiting = append(e.waiting, s)
	if !e.stepping {
		e.stepping = true
		e.wake(s.received)
	}
}

// leave gives the slot of a sequence back at once. It does nothing for one that
// has ended.
func (e *Engine) leave(s *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	e.totals.Aborted++
	e.done.byReason["abort"]++
	if s.script != nil {
		e.scripts--
		return
	}
	e.remove(s)
}

// remove takes a sequence out of queue and batch; the caller holds the lock.
func (e *Engine) remove(s *sequence) {
	is := func(other *sequence) bool { return other == s }
	e.waiting = slices.DeleteFunc(e.waiting, is)
	e.running = slices.DeleteFunc(e.running, is)
}

// wake schedules the step that starts at an instant. It forms its batch a
// nanosecond later: whoever acts on the end of the last step, or arrives at this
// very instant, is heard before. In a bubble the nanosecond passes only when
// everybody has been; the schedule does not shift by it.
func (e *Engine) wake(start time.Time) {
	time.AfterFunc(time.Nanosecond, func() { e.step(start) })
}

// step carries out one step that starts at an instant of the schedule, and
// schedules the next unless there is nothing to do. Between its ends only a timer
// is pending, so an idle or forgotten engine holds no goroutine.
func (e *Engine) step(start time.Time) {
	duration, ok := e.begin()
	if !ok {
		return
	}
	end := start.Add(duration)
	time.AfterFunc(time.Until(end), func() {
		e.end(end)
		e.wake(e.resume(end))
	})
}

// maxLateness is how far the schedule may be behind before it is given up: an
// engine that was suspended does not make up for it with a burst of tokens.
const maxLateness = 100 * time.Millisecond

// resume is where the step after one that ended at end begins.
func (e *Engine) resume(end time.Time) time.Time {
	now := time.Now()
	if now.Sub(end) <= maxLateness {
		return end
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.totals.LateSteps++
	return now
}

// begin forms the batch of the next step and says how long it takes. It is
// false, and the engine idle, when there is nothing to do.
func (e *Engine) begin() (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	uncached := e.admit()
	var d time.Duration
	prefilling := len(e.batch) > 0
	switch {
	case prefilling:
		d = e.cfg.PrefillBase + time.Duration(float64(uncached)/e.cfg.PrefillTokensPerSecond*float64(time.Second))
		e.totals.PrefillSteps++
	case len(e.running) > 0:
		e.batch = append(e.batch, e.running...)
		d = e.cfg.DecodeBase + time.Duration(len(e.batch))*e.cfg.DecodePerSequence
		e.totals.DecodeSteps++
	default:
		e.stepping = false
		return 0, false
	}
	e.busy += int64(len(e.batch))
	factor := e.slow
	if e.cfg.Jitter > 0 {
		factor *= lognormal(e.jitter, e.cfg.Jitter)
	}
	if factor != 1 {
		d = time.Duration(float64(d) * factor)
	}
	e.length, e.prefilling = d, prefilling
	return d, true
}

// admit moves waiting prompts into the (emptied) batch, in order, while there
// are slots and the step does not get too long. It returns their uncached tokens.
func (e *Engine) admit() (uncached int) {
	e.batch = e.batch[:0]
	now := time.Now()
	for len(e.waiting) > 0 && len(e.running) < e.cfg.MaxBatch {
		s := e.waiting[0]
		s.cached = e.cache.match(s.prompt)
		need := len(s.prompt) - s.cached
		if len(e.batch) > 0 && uncached+need > e.cfg.MaxPrefillTokens {
			break
		}
		uncached += need
		s.admitted = now
		if s.announce {
			s.push(tokenEvent{at: now})
		}
		e.totals.CachedTokens += int64(s.cached)
		e.totals.PromptTokens += int64(len(s.prompt))
		e.waiting = slices.Delete(e.waiting, 0, 1)
		e.running = append(e.running, s)
		e.batch = append(e.batch, s)
	}
	return uncached
}

// end gives every sequence of the batch that is still there its tokens.
func (e *Engine) end(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	speculated, before := false, e.totals
	for _, s := range e.batch {
		if s.ended {
			continue
		}
		n := 1
		if s.produced == 0 {
			e.cache.insert(s.prompt)
		} else if e.cfg.Speculation.DraftTokens > 0 {
			n = e.verify(s)
			speculated = true
		}
		e.credit(s, n, at)
	}
	if speculated {
		e.rollUp()
	}
	if e.flavour.logsSteps {
		e.logStep(&before, at)
	}
}

// verify draws how many tokens a verify step brings.
func (e *Engine) verify(s *sequence) int {
	drafts, left := e.cfg.Speculation.DraftTokens, s.answer.length-s.produced
	accepted := 0
	for accepted < drafts && accepted < left-1 && s.rng.Float64() < e.accept {
		accepted++
	}
	s.spec.observe(accepted, drafts)
	e.totals.VerifySteps++
	e.totals.VerifiedTokens += int64(accepted + 1)
	e.totals.DraftTokens += int64(drafts)
	e.totals.AcceptedTokens += int64(accepted)
	for len(e.totals.AcceptedPerPosition) < drafts {
		e.totals.AcceptedPerPosition = append(e.totals.AcceptedPerPosition, 0)
	}
	for i := range accepted {
		e.totals.AcceptedPerPosition[i]++
	}
	return accepted + 1
}

// rollUp refreshes SGLang's accept lengths every so many steps.
func (e *Engine) rollUp() {
	r := &e.rolled
	r.decodeSteps++
	if r.decodeSteps%acceptLogInterval != 0 {
		return
	}
	r.recent = float64(e.totals.VerifiedTokens-r.tokens) / float64(e.totals.VerifySteps-r.steps)
	r.tokens, r.steps = e.totals.VerifiedTokens, e.totals.VerifySteps
}

// credit counts n new tokens of a sequence, tells its handler, and ends it after
// the last. The caller holds the lock.
func (e *Engine) credit(s *sequence, n int, at time.Time) {
	first := s.produced == 0
	s.produced += n
	e.totals.GeneratedTokens += int64(n)
	if first {
		s.first = at
		e.lat.ttft.observe(at.Sub(s.received).Seconds(), 1)
	} else {
		e.lat.itl.observe(at.Sub(s.last).Seconds()/float64(n), n)
	}
	s.last = at
	last := s.produced >= s.answer.length
	if last {
		e.conclude(s)
	}
	if s.script == nil {
		s.push(tokenEvent{tokens: n, at: at, last: last, drafts: s.spec.drafts, accepted: s.spec.accepted})
	}
}

// conclude ends a sequence that has all its tokens.
func (e *Engine) conclude(s *sequence) {
	s.ended = true
	if s.script != nil {
		e.scripts--
	} else {
		e.remove(s)
		e.cache.insert(s.appendAll(nil))
	}
	e.totals.Finished++
	e.done.byReason[s.answer.finishReason()]++
	i := 0
	if s.stream {
		i = 1
	}
	e.done.requests[i]++
	e.done.prompt[i] += int64(len(s.prompt))
	e.done.cached[i] += int64(s.cached)
	e.done.generated[i] += int64(s.produced)
	e.done.verify[i] += int64(s.spec.steps)
	e.lat.conclude(s)
	e.longest = max(e.longest, len(s.prompt)+s.produced)
}
