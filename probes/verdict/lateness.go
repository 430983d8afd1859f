package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// lateness is a request's send lag, split by who is to blame.
type lateness struct {
	// own is the time in which the request could have been sent and was not.
	own time.Duration
	// slot is the time in which the run's own max_concurrency forbade sending.
	slot time.Duration
}

// splitLags splits the lag of every request that was sent; dropped ones have
// none. Only an open loop with a cap can wait for slots: in a closed loop a
// request is due when a slot is there.
//
// A request for which there was a slot all the time was late by the client's own
// doing. One that found the slots full for a while was its client's business only
// from the moment when nobody stood before it any more, since a slot that came
// free before was not for it: otherwise the microseconds that a client needs to
// use a slot would add up along a long queue and look like a late client.
func splitLags(run *probes.Run) []lateness {
	arrivals := &run.Spec.Arrivals
	lags := make([]lateness, len(run.Records))
	if !arrivals.OpenLoop() || arrivals.MaxConcurrency == 0 {
		for i := range run.Records {
			if r := &run.Records[i]; r.Outcome != probes.Dropped {
				lags[i].own = r.Lag()
			}
		}
		return lags
	}
	free := newFreeTime(run, arrivals.MaxConcurrency)
	var sends []time.Duration
	for i := range run.Records {
		if r := &run.Records[i]; r.Outcome != probes.Dropped {
			sends = append(sends, r.Sent)
		}
	}
	slices.Sort(sends)
	for i := range run.Records {
		r := &run.Records[i]
		if r.Outcome == probes.Dropped {
			continue
		}
		own := free.until(r.Sent) - free.until(r.Due)
		if p, _ := slices.BinarySearch(sends, r.Sent); own < r.Lag() && p > 0 {
			own = free.until(r.Sent) - free.until(max(r.Due, sends[p-1]))
		}
		lags[i] = lateness{own: own, slot: r.Lag() - own}
	}
	return lags
}

// freeTime is how long, up to any instant, fewer requests than the cap were in
// flight. The difference of two values of it is the time between them in which
// a slot was free.
type freeTime struct {
	at    []time.Duration // instants at which the number in flight changes
	total []time.Duration // free time up to then
	open  []bool          // whether a slot is free from then on
}

func newFreeTime(run *probes.Run, maxInFlight int) freeTime {
	type change struct {
		at    time.Duration
		delta int
	}
	var changes []change
	for _, records := range [][]probes.Record{run.Warmup, run.Records} {
		for i := range records {
			r := &records[i]
			if end := endOf(r); r.Outcome != probes.Dropped && end > r.Sent {
				changes = append(changes, change{r.Sent, 1}, change{end, -1})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Compare(a.at, b.at)
	})
	f := freeTime{
		at:    make([]time.Duration, len(changes)),
		total: make([]time.Duration, len(changes)),
		open:  make([]bool, len(changes)),
	}
	inFlight := 0
	for i, c := range changes {
		f.at[i] = c.at
		if i > 0 {
			f.total[i] = f.total[i-1]
			if f.open[i-1] {
				f.total[i] += c.at - f.at[i-1]
			}
		}
		inFlight += c.delta
		f.open[i] = inFlight < maxInFlight
	}
	return f
}

func endOf(r *probes.Record) time.Duration {
	end := r.Sent
	for _, at := range []probes.Optional[time.Duration]{r.LastToken, r.End} {
		d, _ := at.Get()
		end = max(end, d)
	}
	return end
}

func (f freeTime) until(t time.Duration) time.Duration {
	i, found := slices.BinarySearch(f.at, t)
	if found {
		return f.total[i]
	}
	switch {
	case len(f.at) == 0:
		return t
	case i == 0: // before the first request everything was free
		return t - f.at[0]
	case f.open[i-1]:
		return f.total[i-1] + t - f.at[i-1]
	}
	return f.total[i-1]
}

// plan is the span over which requests were due, with one mean gap for the last.
type plan struct {
	planned int
	end     time.Duration
	gap     time.Duration
}

// planOf reads the plan off the due times, which hold whether or not anything
// was sent. The nominal rate would not do: the due times of a Poisson process
// differ from it by chance.
func planOf(records []probes.Record) (plan, bool) {
	if len(records) < 2 {
		return plan{}, false
	}
	first, last := records[0].Due, records[0].Due
	for i := range records {
		first, last = min(first, records[i].Due), max(last, records[i].Due)
	}
	gap := (last - first) / time.Duration(len(records)-1)
	return plan{planned: len(records), end: last + gap, gap: gap}, gap > 0
}
