package inspect

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Sample is what a server's page says at one instant. The zero value is that of
// a page which could not be read.
type Sample struct {
	// At is when it was read; whoever reads sets it.
	At time.Time
	// Engine is whose names the page has; empty when nothing was understood.
	Engine string

	Running probes.Optional[float64] // requests, all ranks together
	Waiting probes.Optional[float64]
	// KVUsage is the share of the KV cache in use, 0 to 1, as a mean over ranks;
	// KVPeak is that of the fullest rank.
	KVUsage probes.Optional[float64]
	KVPeak  probes.Optional[float64]

	accept    probes.Optional[float64] // the server's short-term average
	lifetime  probes.Optional[float64] // its average since the start
	started   probes.Optional[float64] // Unix time of its start
	counted   bool                     // the source has counters at all
	counters  [quantities]probes.Optional[float64]
	positions map[int]float64    // accepted drafts by position
	tiers     map[string]float64 // prefix cache hits by tier, in tokens
	labels    map[string]string  // of the page's info series, those that are facts
}

// Readable reports whether the sample tells anything.
func (s *Sample) Readable() bool { return s.Engine != "" }

// series are the samples of one metric name.
type series struct {
	engine   string
	meanings []meaning
	groups   map[string]*group
	order    []*group
}

// group is one value of one name: all ranks that repeat it.
type group struct {
	part  string // value of the label that the quantity is split by
	value float64
}

// splitBy is the label by which a quantity is told in parts.
var splitBy = map[quantity]string{acceptedAt: "position", prefilled: "mode", hitTokens: "cache_source"}

// repeats reports whether series that differ in this label say the same thing of
// the same requests: all tensor-, pipeline- and expert-parallel ranks of a replica
// work on each of them, and in Triton a request passes the models of an ensemble one
// after the other, each of which counts it. Data-parallel ranks have requests of their
// own.
func (s *series) repeats(label []byte) bool {
	switch string(label) {
	case "tp_rank", "pp_rank", "ep_rank", "moe_ep_rank":
		return true
	case "model", "version":
		return s.engine == Triton && s.meanings[0].quantity == requests
	}
	return false
}

// add takes one sample in. key is scratch space.
func (s *series) add(labels []byte, value float64, key []byte) []byte {
	key = key[:0]
	rank, part := false, ""
	split := splitBy[s.meanings[0].quantity]
	whole := eachLabel(labels, func(name, text []byte) {
		if s.repeats(name) {
			rank = true
			return
		}
		if split != "" && string(name) == split {
			part = string(text)
		}
		key = append(append(append(append(key, name...), '='), text...), 0)
	})
	if !whole {
		return key
	}
	g := s.groups[string(key)]
	switch {
	case g == nil:
		g = &group{part: part, value: value}
		s.groups[string(key)] = g
		s.order = append(s.order, g)
	case rank:
		g.value = max(g.value, value) // ranks log at different steps; the highest is the newest of a counter
	default:
		g.value += value // pages of several replicas, joined by a gateway
	}
	return key
}

// parsePage reads a Prometheus page.
func parsePage(page []byte) Sample {
	byName := map[string]*series{}
	var order []*series
	var beside Sample // what belongs to no quantity
	var key []byte
	scan(page, func(name, labels, number []byte) {
		name = fullName(name, labels)
		s := byName[string(name)]
		if s == nil {
			engine, meanings := recognise(name)
			if meanings == nil {
				beside.note(name, labels, number)
				return
			}
			s = &series{engine: engine, meanings: meanings, groups: map[string]*group{}}
			byName[string(name)] = s
			order = append(order, s)
		}
		if value, ok := parseNumber(number); ok {
			key = s.add(labels, value, key)
		}
	})
	for _, p := range prefixes {
		if slices.ContainsFunc(order, func(s *series) bool { return s.engine == p.engine && len(s.order) > 0 }) {
			sample := beside
			sample.Engine, sample.counted = p.engine, true
			sample.fill(order)
			return sample
		}
	}
	return Sample{}
}

// note takes in a sample that is not about load: when the process started, and
// labels that say how it is configured.
func (s *Sample) note(name, labels, number []byte) {
	switch {
	case string(name) == "process_start_time_seconds":
		if v, ok := parseNumber(number); ok {
			s.started = probes.Known(v)
		}
	case bytes.HasSuffix(name, []byte("_config_info")):
		eachLabel(labels, func(label, value []byte) {
			if fact, ok := factLabels[string(label)]; ok {
				if s.labels == nil {
					s.labels = map[string]string{}
				}
				s.labels[fact] = string(value)
			}
		})
	}
}

// fill adds the engine's series up.
func (s *Sample) fill(all []*series) {
	type term struct {
		quantity quantity
		term     uint8
	}
	best := map[term]uint8{}
	from := map[term]*series{}
	for _, one := range all {
		if one.engine != s.Engine || len(one.order) == 0 {
			continue
		}
		for _, m := range one.meanings {
			t := term{m.quantity, m.term}
			if rank, ok := best[t]; !ok || m.rank < rank {
				best[t], from[t] = m.rank, one
			}
		}
	}
	if one := from[term{prefilled, 0}]; one != nil {
		// Counted while prefilling and not when a request ends, so it misses none.
		delete(from, term{queriedTokens, 0})
		delete(from, term{hitTokens, 0})
		s.counters[queriedTokens] = probes.Known(one.sum())
		s.addTiers(one, "")
		hits := 0.0
		for _, n := range s.tiers {
			hits += n
		}
		s.counters[hitTokens] = probes.Known(hits)
	}
	for t, one := range from {
		switch t.quantity {
		case running:
			s.Running = plus(s.Running, one.sum())
		case waiting:
			s.Waiting = plus(s.Waiting, one.sum())
		case kvUsage:
			if peak := one.peak(); peak <= 1 { // else it is no share
				s.KVUsage, s.KVPeak = probes.Known(one.sum()/float64(len(one.order))), probes.Known(peak)
			}
		case acceptGauge:
			s.accept = one.meanAboveZero()
		case acceptedAt:
			s.positions = one.positions()
		case prefilled: // above
		case hitTokens:
			s.counters[hitTokens] = plus(s.counters[hitTokens], one.sum())
			s.addTiers(one, unlabelled(s.Engine, t.term))
		default:
			s.counters[t.quantity] = plus(s.counters[t.quantity], one.sum())
		}
	}
}

// unlabelled is the tier of hits that have no label of one.
func unlabelled(engine string, term uint8) string {
	switch {
	case term > 0:
		return "external" // a store behind the engine's own cache
	case engine == VLLM:
		return "device"
	}
	return ""
}

func plus(sum probes.Optional[float64], v float64) probes.Optional[float64] {
	old, _ := sum.Get()
	return probes.Known(old + v)
}

func (s *series) sum() (sum float64) {
	for _, g := range s.order {
		sum += g.value
	}
	return sum
}

func (s *series) peak() float64 {
	peak := s.order[0].value
	for _, g := range s.order {
		peak = max(peak, g.value)
	}
	return peak
}

// meanAboveZero leaves out ranks that have not speculated: they report 0.
func (s *series) meanAboveZero() probes.Optional[float64] {
	sum, n := 0.0, 0
	for _, g := range s.order {
		if g.value > 0 {
			sum += g.value
			n++
		}
	}
	if n == 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(sum / float64(n))
}

func (s *series) positions() map[int]float64 {
	at := map[int]float64{}
	for _, g := range s.order {
		if i, err := strconv.Atoi(g.part); err == nil && i >= 0 && i < maxPositions {
			at[i] += g.value
		}
	}
	return at
}

// maxPositions bounds what a page can make us keep; nobody drafts that many.
const maxPositions = 64

// addTiers adds hits by tier. Parts that are no tier's are left out: misses, and
// hits of which the server does not tell where.
func (s *Sample) addTiers(one *series, unlabelled string) {
	for _, g := range one.order {
		name := unlabelled
		if g.part != "" {
			name = tier(g.part)
		}
		if name == "" {
			continue
		}
		if s.tiers == nil {
			s.tiers = map[string]float64{}
		}
		s.tiers[name] += g.value
	}
}
