package jsonl

import "github.com/inferbeat/inferbeat/probes"

// server is what the server says about itself and, all clients together, about
// the time of the run.
type server struct {
	Facts probes.ServerFacts `json:"facts"`

	Span         number            `json:"span_seconds"` // between the readings of its counters
	Restarted    bool              `json:"restarted"`
	Requests     optional          `json:"requests"`
	AcceptLength *number           `json:"accept_length"`
	AcceptSource *string           `json:"accept_length_source"`
	Acceptance   *number           `json:"acceptance_ratio"`
	PerPosition  []number          `json:"acceptance_per_position"`
	CacheHit     *number           `json:"prefix_cache_hit_ratio"`
	CacheTiers   map[string]number `json:"prefix_cache_tiers"`
	Queue        *level            `json:"queue_requests"`
	Running      *level            `json:"running_requests"`
	KVUsage      *level            `json:"kv_cache_usage_ratio"`
	Preemptions  optional          `json:"preemptions"`
	TTFT         *serverMean       `json:"ttft_seconds"`
	TPOT         *serverMean       `json:"tpot_seconds"`
	Timings      *timings          `json:"timings"`
}

// timings are what the answers of the run's own requests said.
type timings struct {
	Prefill    *serverMean `json:"prefill_seconds"`
	Decode     *serverMean `json:"decode_seconds"`
	DecodeRate *number     `json:"decode_tokens_per_second"`
}

type level struct {
	N    int    `json:"n"`
	Mean number `json:"mean"`
	Max  number `json:"max"`
}

type serverMean struct {
	N    int    `json:"n"`
	Mean number `json:"mean"`
}

// newServer is nil for a server that says nothing.
func newServer(run *probes.Run) *server {
	s, t := &run.Summary.Server, &run.Summary.Timings
	if !run.Facts.Known() && !s.Known() && !t.Known() {
		return nil
	}
	out := &server{
		Facts: run.Facts, Span: number(s.Span.Seconds()), Restarted: s.Restarted, Requests: s.Requests,
		AcceptLength: known(s.AcceptLength), AcceptSource: text(string(s.AcceptSource)), Acceptance: known(s.AcceptanceRatio),
		CacheHit: known(s.PrefixCache.HitRatio), Queue: newLevel(s.Queue), Running: newLevel(s.Running), KVUsage: newLevel(s.KVUsage),
		Preemptions: s.Preemptions, TTFT: newServerMean(s.TTFT), TPOT: newServerMean(s.TPOT),
	}
	if t.Known() {
		out.Timings = &timings{newServerMean(t.Prefill), newServerMean(t.Decode), known(t.DecodeRate)}
	}
	for _, rate := range s.PerPosition {
		out.PerPosition = append(out.PerPosition, number(rate))
	}
	if s.PrefixCache.Tiers != nil {
		out.CacheTiers = map[string]number{}
		for tier, share := range s.PrefixCache.Tiers {
			out.CacheTiers[tier] = number(share)
		}
	}
	return out
}

func newLevel(l probes.Level) *level {
	if l.N == 0 {
		return nil
	}
	return &level{l.N, number(l.Mean), number(l.Max)}
}

func newServerMean(m probes.ServerMean) *serverMean {
	if m.N == 0 {
		return nil
	}
	return &serverMean{m.N, number(m.Mean)}
}
