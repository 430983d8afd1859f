package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// timeUnits are what a number may count.
var timeUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

// timeLayouts are how times are written as text. Fractions of a second may follow.
var timeLayouts = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04:05"}

// jsonTime reads a number of units or a text; absent is unknown.
func jsonTime(raw json.RawMessage, unit string) (probes.Optional[time.Duration], error) {
	text := string(raw)
	var at time.Duration
	var err error
	switch {
	case text == "" || text == "null":
		return probes.Optional[time.Duration]{}, nil
	case strings.HasPrefix(text, `"`):
		at, err = textTime(strings.Trim(text, `"`))
	case unit == "":
		err = fmt.Errorf("%s is a number; say with time_unit whether it counts s, ms, us or ns", text)
	default:
		at, err = numberTime(text, timeUnits[unit])
	}
	if err != nil {
		return probes.Optional[time.Duration]{}, fmt.Errorf("timestamp: %w", err)
	}
	return probes.Known(at), nil
}

// textTime is the time since 1970. A text without a zone is taken for UTC, which
// cannot be wrong by more than a jump at the clocks' change.
func textTime(text string) (time.Duration, error) {
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return time.Duration(at.UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time such as 2024-05-10T00:00:00.009930+00:00", text)
}

// secondsTime reads a number of seconds.
func secondsTime(text string) (time.Duration, error) { return numberTime(text, time.Second) }

var errTimeRange = errors.New("is out of range; is the unit right?")

// numberTime reads digits with a decimal point exactly: a float would round the
// nanoseconds of a time since 1970.
func numberTime(text string, unit time.Duration) (time.Duration, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || len(fraction) > 18 || strings.Trim(fraction, "0123456789") != "" {
		// An exponent, or no number at all.
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.Abs(x*float64(unit)) >= math.MaxInt64 {
			return 0, fmt.Errorf("%q %w", text, errTimeRange)
		}
		return time.Duration(math.Round(x * float64(unit))), nil
	}
	high, low := bits.Mul64(uint64(max(n, -n)), uint64(unit))
	if high != 0 || low > math.MaxInt64 {
		return 0, fmt.Errorf("%q %w", text, errTimeRange)
	}
	at := time.Duration(low)
	scale := float64(unit)
	for _, digit := range fraction {
		scale /= 10
		at += time.Duration(math.Round(float64(digit-'0') * scale))
	}
	if strings.HasPrefix(text, "-") {
		at = -at
	}
	return at, nil
}
