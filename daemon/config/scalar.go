package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inferbeat/inferbeat/probes"
)

// parseScalar converts the text of one value to what the field holds. Its
// errors never hold the text, which may be a secret. dir is what relative paths
// are relative to.
func parseScalar(f field, text, dir string) (any, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, errors.New("must not hold control characters")
	}
	if !utf8.ValidString(text) { // a variable's value; YAML itself allows nothing else
		return nil, errors.New("must be UTF-8")
	}
	switch {
	case f.typ == durationType:
		d, err := parseDuration(text)
		return d, errors.Join(err, atLeast(f, float64(d), err))
	case f.typ == secretType:
		return probes.Secret(text), nil
	case f.typ.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return nil, errors.New("must be true or false")
		}
		return text == "true", nil
	case f.tag.Get("as") == "size":
		n, err := parseSize(text)
		return n, errors.Join(err, atLeast(f, float64(n), err))
	case f.isInt():
		n, err := parseCount(text)
		return n, errors.Join(err, atLeast(f, float64(n), err))
	case f.isFloat():
		x, err := parseNumber(text, f.tag.Get("as"))
		return x, errors.Join(err, atLeast(f, x, err))
	}
	if list := enums[f.tag.Get("enum")]; list != nil && !slices.Contains(list, text) {
		return nil, fmt.Errorf("must be one of %s", strings.Join(list, ", "))
	}
	as := f.tag.Get("as")
	isPath := as == "path" || as == "tokenizer" && namesFile(text)
	if isPath && text != "" && !filepath.IsAbs(text) {
		text = filepath.Join(dir, text)
	}
	return text, nil
}

// namesFile tells a tokenizer's path from its other names.
func namesFile(tokenizer string) bool {
	w := probes.Workload{Tokenizer: tokenizer}
	return w.LocalTokenizer() && !strings.HasPrefix(tokenizer, probes.TiktokenPrefix)
}

// atLeast applies the min tag, unless the value could not be parsed.
func atLeast(f field, x float64, err error) error {
	least := f.tag.Get("min")
	switch bound, _ := strconv.ParseFloat(least, 64); {
	case err != nil || least == "any":
		return nil
	case least == ">0" && x <= 0:
		return errors.New("must be above 0")
	case x < bound:
		if bound == 0 {
			return errors.New("must not be negative")
		}
		return fmt.Errorf("must be at least %v", bound)
	}
	return nil
}

const day = 24 * time.Hour

var durationUnits = map[string]time.Duration{
	"w": 7 * day, "d": day, "h": time.Hour, "m": time.Minute, "s": time.Second,
	"ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond,
}

var (
	durationRE = regexp.MustCompile(`^-?(\d+(\.\d+)?(w|d|h|ms|m|s|us|µs|ns))+$`)
	partRE     = regexp.MustCompile(`(\d+(?:\.\d+)?)([a-zµ]+)`)
)

// parseDuration reads 30s, 1h30m or 400d. A bare number has no unit and is
// refused, except for 0, which is the same in all of them.
func parseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, errors.New("needs a unit, e.g. 30s")
	}
	if !durationRE.MatchString(text) {
		return 0, errors.New("must be a duration, e.g. 300ms, 30s, 1h30m or 7d")
	}
	var sum time.Duration
	var size float64
	for _, part := range partRE.FindAllStringSubmatch(text, -1) {
		x, _ := strconv.ParseFloat(part[1], 64)
		unit := durationUnits[strings.Replace(part[2], "µs", "us", 1)]
		size += x * float64(unit)
		if n, err := strconv.ParseInt(part[1], 10, 64); err == nil {
			sum += time.Duration(n) * unit // exact, where a float would round
		} else {
			sum += time.Duration(math.Round(x * float64(unit)))
		}
	}
	if size > float64(100*366*day) {
		return 0, errors.New("must be less than 100 years")
	}
	if text[0] == '-' {
		sum = -sum
	}
	return sum, nil
}

// formatDuration writes what parseDuration reads, in whole units: 30d, 1m30s.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	if d < 0 {
		b.WriteByte('-')
		d = -d
	}
	for _, unit := range []string{"d", "h", "m", "s", "ms", "us", "ns"} {
		if n := d / durationUnits[unit]; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit)
			d -= n * durationUnits[unit]
		}
	}
	return b.String()
}

// parseCount reads a whole number: 200, 200k, 5M or 4G, in thousands.
func parseCount(text string) (int, error) {
	digits, factor := text, 1
	for suffix, by := range map[string]int{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9} {
		if cut, ok := strings.CutSuffix(text, suffix); ok {
			digits, factor = cut, by
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, errors.New("must be a whole number, e.g. 200 or 200k")
	}
	if n > math.MaxInt64/1000/factor || n < math.MinInt64/1000/factor {
		return 0, errors.New("is too large")
	}
	return n * factor, nil
}

var sizeRE = regexp.MustCompile(`^(\d+)(B|KB|MB|GB|TB)?$`)

// parseSize reads bytes: 512MB or 4GB, in thousands; a bare number is bytes.
func parseSize(text string) (int, error) {
	m := sizeRE.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("must be a size, e.g. 512MB or 4GB")
	}
	factor := map[string]int{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[m[2]]
	n, err := strconv.Atoi(m[1])
	if err != nil || n > math.MaxInt64/1000/factor {
		return 0, errors.New("is too large")
	}
	return n * factor, nil
}

// parseNumber reads a number; a rate may be inf, a ratio may be written 99%.
func parseNumber(text, as string) (float64, error) {
	switch strings.TrimPrefix(strings.ToLower(strings.TrimPrefix(text, "+")), ".") {
	case "inf":
		if as == "rate" {
			return math.Inf(1), nil
		}
		return 0, errors.New("must be a finite number")
	case "nan":
		return 0, errors.New("must be a number")
	}
	if cut, ok := strings.CutSuffix(text, "%"); ok && as == "ratio" {
		text = strings.TrimSpace(cut) + "e-2" // exact, where a division would round
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		switch as {
		case "ratio":
			return 0, errors.New("must be a share, e.g. 99% or 0.99")
		case "rate":
			return 0, errors.New("must be a number or inf")
		}
		return 0, errors.New("must be a number")
	}
	return x, nil
}

var (
	variableRE = regexp.MustCompile(`\$?\$\{[^}]*\}?`)
	envNameRE  = regexp.MustCompile(`^\$\{[a-zA-Z_][a-zA-Z0-9_]*\}$`)
)

// expand replaces ${NAME} by the variable's value, and notes which it was; $${
// stands for ${ itself. Its errors name the variable, never its value.
func expand(text string, env, expanded map[string]string) (string, error) {
	var errs []error
	out := variableRE.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		if !envNameRE.MatchString(m) {
			errs = append(errs, errors.New("holds a ${ that does not start a ${NAME}; write $${ for the characters themselves"))
			return ""
		}
		v, ok := env[m[2:len(m)-1]]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("environment variable %s is not set", m[2:len(m)-1]))
		case v == "":
			errs = append(errs, fmt.Errorf("environment variable %s is empty", m[2:len(m)-1]))
		}
		expanded[v] = m
		return v
	})
	return out, errors.Join(errs...)
}

// ParseDuration reads a duration as the configuration does: 30s, 1h30m, 400d.
func ParseDuration(text string) (time.Duration, error) { return parseDuration(text) }
