package imports

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// fields are the keys of one result. The first value of the wrong type is kept as
// an error; reading goes on, so that no caller has to look after each key.
type fields struct {
	values map[string]json.RawMessage
	err    error
}

func (f *fields) has(keys ...string) bool {
	for _, key := range keys {
		if _, ok := f.values[key]; !ok {
			return false
		}
	}
	return true
}

// read decodes a key into v and reports whether there was a value.
func (f *fields) read(key string, v any, kind string) bool {
	raw, ok := f.values[key]
	if !ok || string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		if f.err == nil {
			f.err = fmt.Errorf("%s: must be %s", key, kind)
		}
		return false
	}
	return true
}

func (f *fields) text(key string) (s string) {
	f.read(key, &s, "a text")
	return s
}

func (f *fields) number(key string) probes.Optional[float64] {
	var n float64
	if !f.read(key, &n, "a number") {
		return probes.Optional[float64]{}
	}
	return probes.Known(n)
}

// first is the first known number of several keys: versions name things differently.
func (f *fields) first(keys ...string) probes.Optional[float64] {
	for _, key := range keys {
		if n := f.number(key); n.IsKnown() {
			return n
		}
	}
	return probes.Optional[float64]{}
}

// count is a whole number that Python may have written as 8.0.
func (f *fields) count(key string) probes.Optional[int] {
	n, ok := f.number(key).Get()
	if !ok || n < 0 || n != math.Trunc(n) || n > 1<<52 {
		if ok && f.err == nil {
			f.err = fmt.Errorf("%s: must be a whole number from 0", key)
		}
		return probes.Optional[int]{}
	}
	return probes.Known(int(n))
}

// whole is a count, and 0 when it is not known.
func (f *fields) whole(key string) int {
	n, _ := f.count(key).Get()
	return n
}

// rate is a number of requests per second; known is false for the word "trace".
func (f *fields) rate(key string) (rate float64, known bool) {
	var word string
	if raw := f.values[key]; len(raw) > 0 && raw[0] == '"' && f.read(key, &word, "a rate") {
		switch word {
		case "inf":
			return math.Inf(1), true
		case "trace":
			return 0, false
		}
	}
	n, ok := f.number(key).Get()
	if !ok {
		return math.Inf(1), f.err == nil // neither tool limits the rate unless told
	}
	return n, true
}

func (f *fields) numbers(key string) (list []float64) {
	f.read(key, &list, "a list of numbers")
	return list
}

func (f *fields) texts(key string) (list []string) {
	f.read(key, &list, "a list of texts")
	return list
}

func (f *fields) lists(key string) (list [][]float64) {
	f.read(key, &list, "a list of lists of numbers")
	return list
}

// seconds is a number of seconds as a time.
func seconds(n probes.Optional[float64]) time.Duration {
	s, _ := n.Get()
	if !(s > 0) || s > math.MaxInt64/1e9 {
		return 0
	}
	return time.Duration(math.Round(s * 1e9))
}
