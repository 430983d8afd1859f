package guard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// LongestPause and LongestCanaryPause are how long a Retry-After is honoured. A server
// may ask for a year, and one that is down in the night must not switch the next night
// off. Canaries, whose silence would hide an outage, wait less.
const (
	LongestPause       = time.Hour
	LongestCanaryPause = 5 * time.Minute
)

// Ask is what a run that wants to begin means for one target.
type Ask struct {
	Target     string
	Continuous bool    // it is one of a canary
	PerDay     int     // tokens of all runs on the target in a day of UTC; 0 is no limit
	Tokens     float64 // of this run at most; 0 is not known
	Span       time.Duration
	// Unplanned is a run that no schedule has checked against the rate that the target may
	// see: it waits until the spans of all earlier runs are over.
	Unplanned bool
}

// Gate decides whether a run may begin, by what servers have asked for and what runs
// have used. Its methods may be called at once; the zero Gate is ready.
type Gate struct {
	mu       sync.Mutex
	accounts map[string]*account
	day      int64 // on which accounts without a meaning were last dropped
}

// account is what is known of one target.
type account struct {
	quiet, quietCanary time.Time // until when the server wants no request
	spread             time.Time // until when the rate of earlier runs is used up
	limited            bool      // tokens count
	day                int64     // that used is of
	used, reserved     float64   // tokens
}

func (g *Gate) account(target string) *account {
	if g.accounts == nil {
		g.accounts = map[string]*account{}
	}
	a := g.accounts[target]
	if a == nil {
		a = &account{}
		g.accounts[target] = a
	}
	return a
}

func dayOf(t time.Time) int64 { return t.Unix() / int64(24*time.Hour/time.Second) }

// NextDay is when the budget of a day is new.
func NextDay(t time.Time) time.Time { return time.Unix((dayOf(t)+1)*86400, 0).UTC() }

// spent is what has been used on the day of now.
func (a *account) spent(now time.Time) float64 {
	if a.day != dayOf(now) {
		return 0
	}
	return a.used
}

// held is why the run may not begin; nil when it may. reserved is what runs that go on
// may still use.
func (a *account) held(now time.Time, ask Ask, reserved float64) *probes.Hold {
	quiet := a.quiet
	if ask.Continuous {
		quiet = a.quietCanary
	}
	switch after := a.spent(now) + reserved + ask.Tokens; {
	case now.Before(quiet):
		return &probes.Hold{Reason: probes.SkipRetryAfter, Until: quiet}
	case ask.PerDay > 0 && (after > float64(ask.PerDay) || ask.Tokens == 0 && after >= float64(ask.PerDay)):
		return &probes.Hold{Reason: probes.SkipLoadBudget, Until: NextDay(now)}
	case ask.Unplanned && now.Before(a.spread):
		return &probes.Hold{Reason: probes.SkipLoadBudget, Until: a.spread}
	}
	return nil
}

// Held is why a run will not begin as things stand; nil when it may. What a run that goes
// on has set aside may turn out not to be used, so it is left out.
func (g *Gate) Held(now time.Time, ask Ask) *probes.Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.accounts[ask.Target]; a != nil {
		return a.held(now, ask, 0)
	}
	return (&account{}).held(now, ask, 0)
}

// Admit lets a run begin, which must say when it has ended, or tells why it may not.
func (g *Gate) Admit(now time.Time, asks ...Ask) (*Admission, *probes.Hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tidy(now)
	for _, ask := range asks {
		a := g.account(ask.Target)
		if hold := a.held(now, ask, a.reserved); hold != nil {
			return nil, hold
		}
	}
	for _, ask := range asks {
		a := g.account(ask.Target)
		a.reserved += ask.Tokens
		a.limited = ask.PerDay > 0
		if until := now.Add(ask.Span); until.After(a.spread) {
			a.spread = until
		}
	}
	return &Admission{gate: g, asks: asks}, nil
}

// tidy drops the accounts of targets that are gone, once a day: names of discovered
// targets never end.
func (g *Gate) tidy(now time.Time) {
	if g.day == dayOf(now) {
		return
	}
	g.day = dayOf(now)
	for target, a := range g.accounts {
		if a.reserved == 0 && a.spent(now) == 0 && !now.Before(a.quiet) && !now.Before(a.spread) {
			delete(g.accounts, target)
		}
	}
}

// Admission is a run that has begun.
type Admission struct {
	gate *Gate
	asks []Ask
}

// Ended says what the run has used in place of what it might have, target by target.
func (a *Admission) Ended(now time.Time, used map[string]float64) {
	a.gate.mu.Lock()
	defer a.gate.mu.Unlock()
	for _, ask := range a.asks {
		account := a.gate.account(ask.Target)
		account.reserved -= ask.Tokens
		account.used, account.day = account.spent(now)+used[ask.Target], dayOf(now)
	}
}

// Answered is told what a target has answered, and when. An error answer with
// Retry-After holds its next runs back.
func (g *Gate) Answered(target string, r *probes.Record, at time.Time) {
	pause, ok := r.RetryAfter.Get()
	if !ok || pause <= 0 || !r.Outcome.Failed() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.account(target)
	a.quiet = latest(a.quiet, at.Add(min(pause, LongestPause)))
	a.quietCanary = latest(a.quietCanary, at.Add(min(pause, LongestCanaryPause)))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Limited reports whether the tokens of a target are limited, as its last run said.
func (g *Gate) Limited(target string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.account(target).limited
}

// Encode is what a target has used, for a store.
func (g *Gate) Encode(target string) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.account(target)
	return fmt.Appendf(nil, "%d %.0f", a.day, math.Ceil(a.used))
}

// Restore takes over what an earlier process has encoded.
func (g *Gate) Restore(target string, text []byte) error {
	day, used, _ := strings.Cut(string(text), " ")
	d, err := strconv.ParseInt(day, 10, 64)
	if err != nil {
		return fmt.Errorf("read what target %s has used: day: %w", target, err)
	}
	tokens, err := strconv.ParseFloat(used, 64)
	if err != nil {
		return fmt.Errorf("read what target %s has used: tokens: %w", target, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.account(target)
	a.day, a.used = d, tokens
	return nil
}
