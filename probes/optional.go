package probes

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Optional is a value that may be unknown. Its zero value is unknown, so a
// field that nobody filled can never be mistaken for a measured zero.
//
// Unknown is null in JSON.
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
	return json.Marshal(o.value)
}

// UnmarshalJSON reads a value; null is unknown.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	*o = Optional[T]{}
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil
	}
	if err := json.Unmarshal(b, &o.value); err != nil {
		return err
	}
	o.known = true
	return nil
}
