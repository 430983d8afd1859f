package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Problem is one mistake.
type Problem struct {
	File    string // file, "environment variable NAME" or "command line"; empty when nothing was written anywhere
	Line    int    // 0 when there is none
	Path    string // key, e.g. targets[gw].url
	Message string // what is wrong and what to do
}

func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Message
}

// Problems is every mistake of a configuration, sorted by file, line and key.
type Problems []Problem

// Error lists the problems, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// stageKeys are the keys that begin the errors of a stage, where the key of the
// configuration is another word.
var stageKeys = map[string]string{"rate": "request_rate", "process": "arrivals"}

var stageErrorRE = regexp.MustCompile(`^([a-z_]+): (.*)`)

// refused reports what a stage has found wrong at path. Each of its errors names
// a key below path; one that names none stands at otherwise.
func (l *loader) refused(path, otherwise string, err error) {
	if err == nil {
		return
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range several.Unwrap() {
			l.refused(path, otherwise, e)
		}
		return
	}
	m := stageErrorRE.FindStringSubmatch(err.Error())
	if m == nil {
		l.report(otherwise, "%v", err)
		return
	}
	key := m[1]
	if word, ok := stageKeys[key]; ok {
		key = word
	}
	l.report(join(path, key), "%s", m[2])
}

// hide puts ${NAME} back where the value of the variable is quoted: it may be a
// key in the wrong place. Values as short as 8080 are words that occur anyway.
func (ps Problems) hide(expanded map[string]string) Problems {
	for i := range ps {
		for value, name := range expanded {
			if len(value) > 4 {
				ps[i].Message = strings.ReplaceAll(ps[i].Message, value, name)
			}
		}
	}
	return ps
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}

// otherNames are words that people bring from other tools.
var otherNames = map[string]string{
	"requests": "num_prompts", "prompts": "num_prompts", "rate": "request_rate", "concurrency": "max_concurrency",
	"interval": "every", "cron": "schedule", "timeout": "timeouts", "base_url": "url", "endpoint": "url",
	"random_input_len": "input_tokens", "random_output_len": "output_tokens", "random_range_ratio": "range_ratio",
	"sharegpt_output_len": "fixed_output_tokens", "sharegpt_context_len": "context_tokens",
	"extra_request_body": "extra_body", "lora_name": "lora", "lora_names": "lora", "lora_distribution": "lora_request_distribution", "jobs": "probes", "thresholds": "limits", "env": "environment",
}

// nearest is the known word that was most likely meant, or "".
func nearest(word string, known []string) string {
	if other := otherNames[word]; slices.Contains(known, other) {
		return other
	}
	best, least := "", max(1, min(3, len(word)/3))+1
	for _, k := range known {
		if d := editDistance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// DidYouMean is a suggestion to append to a refusal of word, or empty when no
// known word is near.
func DidYouMean(word string, known []string) string {
	if k := nearest(word, known); k != "" {
		return fmt.Sprintf(", did you mean %q?", k)
	}
	return ""
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment).
func editDistance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j]+cost, prev[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}

var (
	nameRE  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.:/-]*$`)
	plainRE = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	labelRE = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	tokenRE = regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]+$")
)
