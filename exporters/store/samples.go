package store

import (
	"fmt"
	"slices"
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

// leastRecord is how many bytes a record takes at least (what became of it, when it was
// due and sent): a broken count must not make room for a thousand times the file.
const leastRecord = 3

// records carries a list of records: how many, and its columns, each with its number and
// its length. A column of nothing but zeros is left out, and one that is not there is
// read as zeros, which is how an older file has a newer column; an unknown one is
// skipped.
func (c *coder) records(rs []probes.Record, runID string) []probes.Record {
	n := c.length(len(rs))
	if n == 0 {
		return nil
	}
	if c.reading {
		return c.readColumns(n, runID)
	}
	// A column writes back what it has carried, and others read these records now.
	rs = slices.Clone(rs)
	for _, column := range columns {
		w := newWriter()
		w.runID = runID
		column.carry(w, rs)
		if !allZero(w.b) {
			c.uint(column.number)
			c.raw(string(w.b))
		}
	}
	c.uint(0)
	return rs
}

func (c *coder) readColumns(n int, runID string) []probes.Record {
	if n > len(c.b)/leastRecord {
		c.fail(errShort)
		return nil
	}
	have := map[uint64][]byte{}
	for number := c.uint(0); number != 0; number = c.uint(0) {
		have[number] = []byte(c.raw(""))
	}
	if c.err != nil {
		return nil
	}
	rs := make([]probes.Record, n)
	for _, column := range columns {
		b, there := have[column.number]
		r := newReader(b)
		r.zeros, r.runID = !there, runID
		if column.carry(r, rs); r.err != nil {
			c.fail(r.err)
			return nil
		}
	}
	return rs
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// columns are the fields of a record. Their numbers are in the files: a new field gets
// the next one, and none is ever given to another field. One that is written as the
// distance from another stands below it.
var columns = []struct {
	number uint64
	carry  func(c *coder, rs []probes.Record)
}{
	{1, (*coder).ids},
	{2, (*coder).indexes},
	{3, boolean(func(r *probes.Record) *bool { return &r.Warmup })},
	{4, text(func(r *probes.Record) *probes.Outcome { return &r.Outcome })},
	{5, text(func(r *probes.Record) *string { return &r.Error })},
	{6, number(func(r *probes.Record) *int { return &r.StatusCode })},
	{7, number(func(r *probes.Record) *probes.Flags { return &r.Flags })},
	{8, text(func(r *probes.Record) *string { return &r.FinishReason })},
	{9, text(func(r *probes.Record) *string { return &r.Session })},
	{10, (*coder).dues},
	{11, (*coder).sents},
	{12, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.Planned, r.Due })},
	{13, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.FirstByte, r.Sent })},
	{14, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.FirstToken, r.Sent })},
	{15, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.FirstAnswer, r.FirstToken.Or(r.Sent) })},
	{16, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.LastToken, r.Sent })},
	{17, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.End, r.LastToken.Or(r.Sent) })},
	{18, boolean(func(r *probes.Record) *bool { return &r.Connection.Reused })},
	{19, text(func(r *probes.Record) *string { return &r.Connection.Protocol })},
	{20, text(func(r *probes.Record) *string { return &r.Connection.LocalAddress })},
	{21, number(func(r *probes.Record) *int { return &r.Connection.Redirects })},
	{22, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.Connection.DNS, 0 })},
	{23, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.Connection.Connect, 0 })},
	{24, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.Connection.TLS, 0 })},
	{25, number(func(r *probes.Record) *int { return &r.Receiving.Reads })},
	{26, number(func(r *probes.Record) *int { return &r.Receiving.Stamped })},
	{27, number(func(r *probes.Record) *time.Duration { return &r.Receiving.LagSum })},
	{28, number(func(r *probes.Record) *time.Duration { return &r.Receiving.LagMax })},
	{29, number(func(r *probes.Record) *int { return &r.RequestedInput })},
	{30, number(func(r *probes.Record) *int { return &r.RequestedOutput })},
	{31, number(func(r *probes.Record) *int { return &r.Images })},
	{32, boolean(func(r *probes.Record) *bool { return &r.ExactOutput })},
	{33, count(func(r *probes.Record) *optionalInt { return &r.PromptTokens })},
	{34, count(func(r *probes.Record) *optionalInt { return &r.CachedTokens })},
	{35, count(func(r *probes.Record) *optionalInt { return &r.OutputTokens })},
	{36, text(func(r *probes.Record) *probes.TokenSource { return &r.OutputSource })},
	{37, count(func(r *probes.Record) *optionalInt { return &r.ReasoningTokens })},
	{38, count(func(r *probes.Record) *optionalInt { return &r.RetokenizedOutput })},
	{39, (*coder).acceptLengths},
	{40, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.ServerPrefill, 0 })},
	{41, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.ServerDecode, 0 })},
	{42, since(func(r *probes.Record) (*optionalTime, time.Duration) { return &r.RetryAfter, 0 })},
	{43, (*coder).chunks},
	{44, text(func(r *probes.Record) *probes.Definitions { return &r.Definitions })},
	{45, number(func(r *probes.Record) *int { return &r.Receiving.Late })},
}

type (
	optionalTime = probes.Optional[time.Duration]
	optionalInt  = probes.Optional[int]
)

func boolean(field func(r *probes.Record) *bool) func(*coder, []probes.Record) {
	return func(c *coder, rs []probes.Record) {
		for i := range rs {
			p := field(&rs[i])
			*p = c.uint(bit(*p)) == 1
		}
	}
}

func text[T ~string](field func(r *probes.Record) *T) func(*coder, []probes.Record) {
	return func(c *coder, rs []probes.Record) {
		for i := range rs {
			p := field(&rs[i])
			*p = T(c.text(string(*p)))
		}
	}
}

func number[T ~int | ~int64 | ~uint16](field func(r *probes.Record) *T) func(*coder, []probes.Record) {
	return func(c *coder, rs []probes.Record) {
		for i := range rs {
			p := field(&rs[i])
			*p = T(c.int(int64(*p)))
		}
	}
}

// since is an instant that may be unknown, as its distance from another.
func since(field func(r *probes.Record) (*optionalTime, time.Duration)) func(*coder, []probes.Record) {
	return func(c *coder, rs []probes.Record) {
		for i := range rs {
			p, from := field(&rs[i])
			at, known := p.Get()
			if c.uint(bit(known)) == 1 {
				*p = probes.Known(from + c.duration(at-from))
			}
		}
	}
}

func count(field func(r *probes.Record) *optionalInt) func(*coder, []probes.Record) {
	return func(c *coder, rs []probes.Record) {
		for i := range rs {
			p := field(&rs[i])
			n, known := p.Get()
			if c.uint(bit(known)) == 1 {
				*p = probes.Known(int(c.int(int64(n))))
			}
		}
	}
}

// ids are without what they have in common with the run's.
func (c *coder) ids(rs []probes.Record) {
	for i := range rs {
		id := rs[i].ID
		common := 0
		for common < min(len(id), len(c.runID)) && id[common] == c.runID[common] {
			common++
		}
		common = int(c.uint(uint64(common)))
		if !c.reading {
			c.raw(id[common:])
			continue
		}
		if common > len(c.runID) {
			c.fail(errShort)
			return
		}
		rs[i].ID = c.runID[:common] + c.raw("")
	}
}

func (c *coder) indexes(rs []probes.Record) {
	last := 0
	for i := range rs {
		last += int(c.int(int64(rs[i].Index - last)))
		rs[i].Index = last
	}
}

func (c *coder) dues(rs []probes.Record) {
	var last time.Duration
	for i := range rs {
		last += c.duration(rs[i].Due - last)
		rs[i].Due = last
	}
}

func (c *coder) sents(rs []probes.Record) {
	for i := range rs {
		rs[i].Sent = rs[i].Due + c.duration(rs[i].Sent-rs[i].Due)
	}
}

func (c *coder) acceptLengths(rs []probes.Record) {
	for i := range rs {
		f, known := rs[i].AcceptLength.Get()
		if c.uint(bit(known)) == 1 {
			rs[i].AcceptLength = probes.Known(c.float(f))
		}
	}
}

func (c *coder) chunks(rs []probes.Record) {
	for i := range rs {
		rs[i].Chunks = c.answer(rs[i].Chunks, rs[i].Sent)
	}
}

// setTokens sets what was read; what is written stays as it is, as others read it now.
func (c *coder) setTokens(chunk *probes.Chunk, tokens int32) {
	if c.reading {
		chunk.Tokens = tokens
	}
}

// answer carries the token events of one answer.
func (c *coder) answer(chunks []probes.Chunk, sent time.Duration) []probes.Chunk {
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
		if c.reading { // else others read them now
			chunks[i].At = last
		}
	}
	// Nearly always all chunks hold as many tokens as the first.
	same := true
	for i := range chunks {
		same = same && chunks[i].Tokens == chunks[0].Tokens
	}
	if c.uint(bit(same)) == 1 {
		tokens := int32(c.int(int64(chunks[0].Tokens)))
		for i := range chunks {
			c.setTokens(&chunks[i], tokens)
		}
		return chunks
	}
	for i := range chunks {
		c.setTokens(&chunks[i], int32(c.int(int64(chunks[i].Tokens))))
	}
	return chunks
}

func (c *coder) duration(d time.Duration) time.Duration { return time.Duration(c.int(int64(d))) }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
