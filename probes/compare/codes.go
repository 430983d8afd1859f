package compare

import (
	"fmt"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// Codes of the reasons of an answer.
const (
	VariableDiffers = "controlled_variable_differs"
	VariableUnknown = "controlled_variable_unknown"
	NotInterleaved  = "history_not_interleaved"
	TooFewPairs     = "too_few_pairs"
	NotBelieved     = "comparison_invalid"
	NothingToJudge  = "nothing_to_judge"
	MetricUnknown   = "metric_unknown"
	Worse           = "worse"
	SecondaryWorse  = "secondary_worse"
	NotDecided      = "not_decided"
)

// Row documents one code.
type Row struct{ Code, Answer, When, Why string }

// Codes documents every reason of [Judge], in the order in which they are given.
var Codes = []Row{
	{VariableDiffers, string(probes.GateInvalid), "a controlled variable is not the same on both sides and was not declared to vary",
		"the shift would be that of the variable, whatever else was changed"},
	{VariableUnknown, "a doubt", "a controlled variable is known on one side only",
		"nobody can say whether the sides are equal; a label of the target can tell it"},
	{NotInterleaved, "a doubt", "the pairs are nights of two series",
		"what differs between the surroundings of the two series is part of the shift"},
	{TooFewPairs, "undecided, in the end invalid", fmt.Sprintf("fewer than %d pairs can be believed", MinPairs),
		"a run is one value, and the error of so few cannot be bounded and shared among several metrics"},
	{NotBelieved, string(probes.GateInvalid), "the comparison is invalid or was cut short",
		"see the reasons of its validity"},
	{MetricUnknown, "undecided, in the end inconclusive", "a primary metric is known in too few runs of a side, or was asked for and is known on neither",
		"there is nothing to judge it by"},
	{NothingToJudge, string(probes.GateInvalid), "no primary metric is known on both sides", "there is nothing to judge"},
	{Worse, string(probes.GateRegressed), "a primary metric is surely worse (the error is shared among the primary metrics) and by half of its margin at least",
		"by less than that nobody would notice, and equal sides would be refused now and then"},
	{NotDecided, "undecided, in the end inconclusive", "the interval of a primary metric holds its margin",
		"more pairs, or less noise, would decide it"},
	{SecondaryWorse, "a warning", "the answer is pass, and a metric that does not decide has regressed",
		"tails scatter too much to refuse a candidate alone"},
}

// Reference is the text of REASONS.md.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Reasons of a comparison's answer\n\nWritten by probes/compare from its table; do not edit. `go test ./probes/compare -update` writes it again.\n\n" +
		"| code | answer | when | why |\n| --- | --- | --- | --- |\n")
	for _, r := range Codes {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Code, r.Answer, r.When, r.Why)
	}
	return b.String()
}

// Verdict is the answer as the verdict of a run. A pass with a regressed secondary
// metric is a warning, which passes a gate.
func Verdict(c *probes.Comparison) probes.Verdict {
	switch c.Answer {
	case probes.GateRegressed:
		return probes.Verdict{State: probes.Fail, Reasons: c.Grounds.Reasons}
	case probes.GatePass:
		for _, r := range c.Grounds.Reasons {
			if r.Code == SecondaryWorse {
				return probes.Verdict{State: probes.Warn, Reasons: c.Grounds.Reasons}
			}
		}
		return probes.Verdict{State: probes.Pass, Reasons: c.Grounds.Reasons}
	}
	return probes.Verdict{State: probes.Unknown, Reasons: c.Grounds.Reasons}
}
