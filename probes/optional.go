package probes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Optional is a value that may be unknown. Its zero value is unknown, so a
// field that nobody filled can never be mistaken for a measured zero.
//
// Unknown is null in JSON, and a number that JSON has no digits for is "inf", "-inf"
// or "nan".
type Optional[T comparable] struct {
	value T
	known bool
}

// Known wraps a value that has been measured or stated.
func Known[T comparable](v T) Optional[T] { return Optional[T]{value: v, known: true} }

// Get returns the value and whether it is known.
func (o Optional[T]) Get() (T, bool) { return o.value, o.known }

// IsKnown reports whether there is a value.
func (o Optional[T]) IsKnown() bool { return o.known }

// Or is the value, or what stands for it while it is unknown.
func (o Optional[T]) Or(otherwise T) T {
	if o.known {
		return o.value
	}
	return otherwise
}

// Equal reports whether both are unknown or both hold the same value.
func (o Optional[T]) Equal(p Optional[T]) bool { return o == p }

// String prints the value, or "unknown".
func (o Optional[T]) String() string {
	if !o.known {
		return "unknown"
	}
	return fmt.Sprint(o.value)
}

// MarshalJSON writes the value, or null.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if !o.known {
		return []byte("null"), nil
	}
	if f, ok := any(o.value).(float64); ok {
		if text := nonFinite(f); text != "" {
			return json.Marshal(text)
		}
	}
	return json.Marshal(o.value)
}

// nonFinite is the text of a number that JSON cannot hold; empty for all others.
func nonFinite(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	return ""
}

// UnmarshalJSON reads a value; null is unknown.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	*o = Optional[T]{}
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil
	}
	if f, ok := any(&o.value).(*float64); ok && len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		*f, o.known = n, true
		return nil
	}
	if err := json.Unmarshal(b, &o.value); err != nil {
		return err
	}
	o.known = true
	return nil
}
