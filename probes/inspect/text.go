package inspect

import (
	"bytes"
	"math"
	"strconv"
)

// scan reads the Prometheus text format (also the OpenMetrics one) and calls
// yield for each sample. The slices point into page; labels is what stands between
// the braces, and number is what [parseNumber] reads.
//
// A line that is no sample is passed over. The parser of prometheus/common gives
// a page up at its first flaw, and real pages have some: gateways join the pages
// of several engines, so that TYPE lines come twice, engines behind them add
// exemplars, and one broken exporter must not hide all others.
func scan(page []byte, yield func(name, labels, number []byte)) {
	for len(page) > 0 {
		var line []byte
		if end := bytes.IndexByte(page, '\n'); end >= 0 {
			line, page = page[:end], page[end+1:]
		} else {
			line, page = page, nil
		}
		line = bytes.Trim(line, " \t\r")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name := line[:nameLength(line)]
		rest := line[len(name):]
		if len(name) == 0 {
			continue
		}
		rest = bytes.TrimLeft(rest, " \t")
		var labels []byte
		if len(rest) > 0 && rest[0] == '{' {
			end := braceEnd(rest)
			if end < 0 {
				continue
			}
			labels, rest = rest[1:end], rest[end+1:]
		}
		yield(name, labels, firstField(rest))
	}
}

// parseNumber reads a sample's value. NaN, which is how clients write that they do
// not know, is no value; neither is an infinity, nor less than nothing: all that is
// read are counts, shares and times.
func parseNumber(text []byte) (float64, bool) {
	value, err := strconv.ParseFloat(string(text), 64)
	return value, err == nil && value >= 0 && !math.IsInf(value, 0)
}

// nameLength is how many bytes of a line are a metric's name.
func nameLength(line []byte) int {
	for i, c := range line {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
		if !letter && !(i > 0 && c >= '0' && c <= '9') {
			return i
		}
	}
	return len(line)
}

// braceEnd is where the label block that begins at text[0] ends; -1 for one that
// does not. Quoted values may hold braces.
func braceEnd(text []byte) int {
	quoted := false
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i
		}
	}
	return -1
}

func firstField(text []byte) []byte {
	text = bytes.TrimLeft(text, " \t")
	if end := bytes.IndexAny(text, " \t"); end >= 0 {
		return text[:end]
	}
	return text
}

// eachLabel calls yield for each label of a block, escapes left as they are. It
// stops at the first flaw and reports whether there was none.
func eachLabel(labels []byte, yield func(name, value []byte)) bool {
	for {
		labels = bytes.TrimLeft(labels, " \t,")
		if len(labels) == 0 {
			return true
		}
		n := nameLength(labels)
		name := labels[:n]
		rest := bytes.TrimLeft(labels[n:], " \t")
		if n == 0 || len(rest) == 0 || rest[0] != '=' {
			return false
		}
		rest = bytes.TrimLeft(rest[1:], " \t")
		if len(rest) == 0 || rest[0] != '"' {
			return false
		}
		end := 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(rest) {
			return false
		}
		yield(name, rest[1:end])
		labels = rest[end+1:]
	}
}
