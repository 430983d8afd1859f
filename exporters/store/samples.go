package store

import (
	"fmt"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// The samples of a run are columns: first one field of all records, then the next.
// Instants are nanoseconds, each as its distance from the one before, so that nothing
// is lost and a token costs as many bytes as its gap needs. Generated text is never
// among them.

// samplesFormat is the first byte. Another layout gets another number, and the reader
// of this one stays.
const samplesFormat = 1

// groupKind says what follows of a group.
const (
	groupOwn   = 0 // its records
	groupAlias = 1 // the number of an earlier group, whose records it shares
)

// encodeSamples writes the records of all groups; nil when there are none.
func encodeSamples(all []group) []byte {
	c := newWriter()
	c.uint(samplesFormat)
	c.uint(uint64(len(all)))
	records := 0
	for i, g := range all {
		records += len(*g.records)
		if earlier := aliasOf(all[:i], *g.records); earlier >= 0 {
			c.uint(groupAlias)
			c.uint(uint64(earlier))
			continue
		}
		c.uint(groupOwn)
		c.records(*g.records, g.runID)
	}
	if records == 0 {
		return nil
	}
	return c.b
}

// aliasOf finds an earlier group that is the very same list: a run of repeats has the
// records of one of them.
func aliasOf(earlier []group, records []probes.Record) int {
	for i, g := range earlier {
		if r := *g.records; len(r) > 0 && len(r) == len(records) && &r[0] == &records[0] {
			return i
		}
	}
	return -1
}

// decodeSamples fills the records of all groups in.
func decodeSamples(b []byte, all []group) error {
	if len(b) == 0 {
		return nil
	}
	c := newReader(b)
	if format := c.uint(0); format != samplesFormat {
		return fmt.Errorf("decode samples: format %d is not known; they were written by a newer inferbeat", format)
	}
	if n := c.uint(0); n != uint64(len(all)) {
		return fmt.Errorf("decode samples: they are of %d lists of records and the run has %d", n, len(all))
	}
	for i, g := range all {
		if c.uint(0) == groupAlias {
			earlier := c.uint(0)
			if earlier >= uint64(i) {
				c.fail(errShort)
				break
			}
			*g.records = *all[earlier].records
			continue
		}
		*g.records = c.records(nil, g.runID)
	}
	return c.err
}

// leastRecord is how many bytes a record takes at least: a broken count must not make
// room for a thousand times the file.
const leastRecord = 32

// records carries a list of records.
func (c *coder) records(rs []probes.Record, runID string) []probes.Record {
	n := c.length(len(rs))
	if c.reading {
		if n > len(c.b)/leastRecord {
			c.fail(errShort)
		}
		if n == 0 || c.err != nil {
			return nil
		}
		rs = make([]probes.Record, n)
	} else {
		c.grow(64 * n)
	}
	c.ids(rs, runID)
	each := func(field func(r *probes.Record)) {
		for i := range rs {
			field(&rs[i])
		}
	}
	c.what(rs, each)
	c.times(rs, each)
	c.counts(rs, each)
	each(func(r *probes.Record) { r.Chunks = c.chunks(r.Chunks, r.Sent) })
	return rs
}

// ids carries the ids without what they have in common with the run's.
func (c *coder) ids(rs []probes.Record, runID string) {
	for i := range rs {
		id := rs[i].ID
		common := 0
		for common < min(len(id), len(runID)) && id[common] == runID[common] {
			common++
		}
		common = int(c.uint(uint64(common)))
		if !c.reading {
			c.raw(id[common:])
			continue
		}
		if common > len(runID) {
			c.fail(errShort)
			return
		}
		rs[i].ID = runID[:common] + c.raw("")
	}
}

// what carries how requests ended.
func (c *coder) what(rs []probes.Record, each func(func(r *probes.Record))) {
	last := 0
	each(func(r *probes.Record) { last += int(c.int(int64(r.Index - last))); r.Index = last })
	each(func(r *probes.Record) { r.Warmup = c.uint(bit(r.Warmup)) == 1 })
	each(func(r *probes.Record) { r.Outcome = probes.Outcome(c.text(string(r.Outcome))) })
	each(func(r *probes.Record) { r.Error = c.text(r.Error) })
	each(func(r *probes.Record) { r.StatusCode = int(c.int(int64(r.StatusCode))) })
	each(func(r *probes.Record) { r.Flags = probes.Flags(c.uint(uint64(r.Flags))) })
	each(func(r *probes.Record) { r.FinishReason = c.text(r.FinishReason) })
	each(func(r *probes.Record) { r.Session = c.text(r.Session) })
	each(func(r *probes.Record) { r.Connection.Protocol = c.text(r.Connection.Protocol) })
	each(func(r *probes.Record) { r.Connection.LocalAddress = c.text(r.Connection.LocalAddress) })
	each(func(r *probes.Record) { r.Connection.Redirects = int(c.int(int64(r.Connection.Redirects))) })
	each(func(r *probes.Record) { r.Connection.Reused = c.uint(bit(r.Connection.Reused)) == 1 })
}

// times carries the instants of requests, those after sending as distances from it.
func (c *coder) times(rs []probes.Record, each func(func(r *probes.Record))) {
	var last time.Duration
	each(func(r *probes.Record) { last += c.duration(r.Due - last); r.Due = last })
	each(func(r *probes.Record) { r.Sent = r.Due + c.duration(r.Sent-r.Due) })
	each(func(r *probes.Record) { r.Planned = c.since(r.Planned, r.Due) })
	each(func(r *probes.Record) { r.FirstByte = c.since(r.FirstByte, r.Sent) })
	each(func(r *probes.Record) { r.FirstToken = c.since(r.FirstToken, r.Sent) })
	each(func(r *probes.Record) { r.FirstAnswer = c.since(r.FirstAnswer, r.FirstToken.Or(r.Sent)) })
	each(func(r *probes.Record) { r.LastToken = c.since(r.LastToken, r.Sent) })
	each(func(r *probes.Record) { r.End = c.since(r.End, r.LastToken.Or(r.Sent)) })
	for _, phase := range []func(r *probes.Record) *probes.Optional[time.Duration]{
		func(r *probes.Record) *probes.Optional[time.Duration] { return &r.Connection.DNS },
		func(r *probes.Record) *probes.Optional[time.Duration] { return &r.Connection.Connect },
		func(r *probes.Record) *probes.Optional[time.Duration] { return &r.Connection.TLS },
		func(r *probes.Record) *probes.Optional[time.Duration] { return &r.ServerPrefill },
		func(r *probes.Record) *probes.Optional[time.Duration] { return &r.ServerDecode },
		func(r *probes.Record) *probes.Optional[time.Duration] { return &r.RetryAfter },
	} {
		each(func(r *probes.Record) { p := phase(r); *p = c.since(*p, 0) })
	}
	each(func(r *probes.Record) { r.Receiving.LagSum = c.duration(r.Receiving.LagSum) })
	each(func(r *probes.Record) { r.Receiving.LagMax = c.duration(r.Receiving.LagMax) })
}

// counts carries tokens and what else is counted.
func (c *coder) counts(rs []probes.Record, each func(func(r *probes.Record))) {
	for _, count := range []func(r *probes.Record) *int{
		func(r *probes.Record) *int { return &r.Receiving.Reads },
		func(r *probes.Record) *int { return &r.Receiving.Stamped },
		func(r *probes.Record) *int { return &r.RequestedInput },
		func(r *probes.Record) *int { return &r.RequestedOutput },
		func(r *probes.Record) *int { return &r.Images },
	} {
		each(func(r *probes.Record) { p := count(r); *p = int(c.int(int64(*p))) })
	}
	each(func(r *probes.Record) { r.ExactOutput = c.uint(bit(r.ExactOutput)) == 1 })
	for _, count := range []func(r *probes.Record) *probes.Optional[int]{
		func(r *probes.Record) *probes.Optional[int] { return &r.PromptTokens },
		func(r *probes.Record) *probes.Optional[int] { return &r.CachedTokens },
		func(r *probes.Record) *probes.Optional[int] { return &r.OutputTokens },
		func(r *probes.Record) *probes.Optional[int] { return &r.ReasoningTokens },
		func(r *probes.Record) *probes.Optional[int] { return &r.RetokenizedOutput },
	} {
		each(func(r *probes.Record) { p := count(r); *p = c.count(*p) })
	}
	each(func(r *probes.Record) { r.OutputSource = probes.TokenSource(c.text(string(r.OutputSource))) })
	each(func(r *probes.Record) {
		f, known := r.AcceptLength.Get()
		if c.uint(bit(known)) == 1 {
			r.AcceptLength = probes.Known(c.float(f))
		}
	})
}

// chunks carries the token events of one answer.
func (c *coder) chunks(chunks []probes.Chunk, sent time.Duration) []probes.Chunk {
	n := c.length(len(chunks))
	if n == 0 {
		return nil
	}
	if c.reading {
		chunks = make([]probes.Chunk, n)
	} else {
		c.grow(5 * n)
	}
	last := sent
	for i := range chunks {
		last += c.duration(chunks[i].At - last)
		chunks[i].At = last
	}
	// Nearly always all chunks hold as many tokens as the first.
	same := true
	for i := range chunks {
		same = same && chunks[i].Tokens == chunks[0].Tokens
	}
	if c.uint(bit(same)) == 1 {
		tokens := int32(c.int(int64(chunks[0].Tokens)))
		for i := range chunks {
			chunks[i].Tokens = tokens
		}
		return chunks
	}
	for i := range chunks {
		chunks[i].Tokens = int32(c.int(int64(chunks[i].Tokens)))
	}
	return chunks
}

func (c *coder) duration(d time.Duration) time.Duration { return time.Duration(c.int(int64(d))) }

// since carries an instant that may be unknown as its distance from another.
func (c *coder) since(at probes.Optional[time.Duration], from time.Duration) probes.Optional[time.Duration] {
	d, known := at.Get()
	if c.uint(bit(known)) == 0 {
		return probes.Optional[time.Duration]{}
	}
	return probes.Known(from + c.duration(d-from))
}

func (c *coder) count(n probes.Optional[int]) probes.Optional[int] {
	value, known := n.Get()
	if c.uint(bit(known)) == 0 {
		return probes.Optional[int]{}
	}
	return probes.Known(int(c.int(int64(value))))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
