package store

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// coder carries numbers and texts into a byte slice or, with the same calls, out of
// one again. What is written and what is read can therefore not differ in order.
type coder struct {
	b       []byte // written so far, or what is left to be read
	reading bool
	zeros   bool  // what is read is all zeros: a column that is not there
	err     error // the first one of reading; what follows is then zero

	runID string // what the ids of records begin with

	texts []string       // seen so far; a text is written out once
	index map[string]int // of texts, for writing
}

var errShort = errors.New("decode samples: they end too early")

func newWriter() *coder         { return &coder{index: map[string]int{}} }
func newReader(b []byte) *coder { return &coder{b: b, reading: true} }

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.b = nil
}

// uint carries a number that is small as a rule.
func (c *coder) uint(n uint64) uint64 {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, n)
		return n
	}
	if c.zeros {
		return 0
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 {
		c.fail(errShort)
		return 0
	}
	c.b = c.b[size:]
	return n
}

// int carries a number that is small as a rule, with either sign.
func (c *coder) int(n int64) int64 {
	z := c.uint(uint64(n)<<1 ^ uint64(n>>63))
	return int64(z>>1) ^ -int64(z&1)
}

// float carries all bits of a number.
func (c *coder) float(f float64) float64 {
	if !c.reading {
		c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(f))
		return f
	}
	if len(c.b) < 8 {
		c.fail(errShort)
		return 0
	}
	bits := binary.LittleEndian.Uint64(c.b)
	c.b = c.b[8:]
	return math.Float64frombits(bits)
}

// length carries a count of things that take at least one byte each, so that a broken
// count cannot ask for more memory than there is file.
func (c *coder) length(n int) int {
	m := c.uint(uint64(n))
	if c.reading && m > uint64(len(c.b)) {
		c.fail(errShort)
		return 0
	}
	return int(m)
}

// text carries one of few texts.
func (c *coder) text(s string) string {
	if c.reading {
		i := c.uint(0)
		if i < uint64(len(c.texts)) {
			return c.texts[i]
		}
		if i > uint64(len(c.texts)) {
			c.fail(errShort)
			return ""
		}
		s = c.raw("")
		c.texts = append(c.texts, s)
		return s
	}
	i, seen := c.index[s]
	if !seen {
		i = len(c.texts)
		c.texts, c.index[s] = append(c.texts, s), i
	}
	c.uint(uint64(i))
	if !seen {
		c.raw(s)
	}
	return s
}

// raw carries a text that is not expected again.
func (c *coder) raw(s string) string {
	n := c.length(len(s))
	if !c.reading {
		c.b = append(c.b, s...)
		return s
	}
	s = string(c.b[:n])
	c.b = c.b[n:]
	return s
}

// grow makes room before much is written.
func (c *coder) grow(n int) { c.b = slices.Grow(c.b, n) }
