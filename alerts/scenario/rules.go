// Package scenario plays stories of metrics through the alert rules on synthetic
// time, with Prometheus's own engine and rule evaluation.
//
// The story of the data:
//
//  1. [Parse] reads a rule file. [Load] reads scenarios in the format of promtool's
//     unit tests, so that the same files are checked by promtool of any version.
//  2. [Scenario.Play] holds the input series in memory, evaluates those rules that the
//     scenario's expectations depend on at their groups' intervals, and says which
//     expectations were not met.
//  3. [Play.Notices] plays again what a broken rule changes, and says whether an
//     expectation is not met any more.
//  4. [Watch] plays the rules on pages of metrics that a daemon really gave, and tells
//     how the alerts' states changed.
//
// The tests of the rules use it, and so does the program that breaks rules to see
// whether a scenario notices. It is no part of the daemon.
package scenario

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// Group is a rule group with parsed expressions.
type Group struct {
	Name     string
	Interval time.Duration
	Rules    []Rule
}

// Rule is an alert or a recorded series.
type Rule struct {
	Record, Alert       string
	Expr                parser.Expr
	For, KeepFiring     time.Duration
	Labels, Annotations map[string]string
}

// Name is that of the alert or of the recorded series.
func (r *Rule) Name() string { return r.Record + r.Alert }

// NewParser is the parser of rules and expressions.
func NewParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// Parse reads a rule file.
func Parse(text []byte) ([]Group, error) {
	file, errs := rulefmt.Parse(text, false, model.LegacyValidation, NewParser(), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, fmt.Errorf("parse rule file: %w", errs[0])
	}
	var groups []Group
	for _, g := range file.Groups {
		group := Group{Name: g.Name, Interval: time.Duration(g.Interval)}
		for _, r := range g.Rules {
			expr, err := NewParser().ParseExpr(r.Expr)
			if err != nil {
				return nil, fmt.Errorf("parse %s%s: %w", r.Record, r.Alert, err)
			}
			group.Rules = append(group.Rules, Rule{
				Record: r.Record, Alert: r.Alert, Expr: expr, For: time.Duration(r.For), KeepFiring: time.Duration(r.KeepFiringFor),
				Labels: r.Labels, Annotations: r.Annotations,
			})
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// Reads lists the names of the series that an expression selects.
func Reads(expr parser.Expr) []string {
	var names []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && selector.Name != "" {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}

// needed keeps the rules that the named alerts and series depend on, themselves
// included.
func needed(groups []Group, names []string) []Group {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	out := slices.Clone(groups)
	for i := len(out) - 1; i >= 0; i-- { // recorded series stand before those who read them
		all := out[i].Rules
		out[i].Rules = nil
		for j := len(all) - 1; j >= 0; j-- {
			if !wanted[all[j].Name()] {
				continue
			}
			for _, name := range Reads(all[j].Expr) {
				wanted[name] = true
			}
			out[i].Rules = append(out[i].Rules, all[j])
		}
		slices.Reverse(out[i].Rules)
	}
	return slices.DeleteFunc(out, func(g Group) bool { return len(g.Rules) == 0 })
}

// alertNames are the alerts that an expression over ALERTS asks for.
func alertNames(expr parser.Expr) []string {
	var names []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok || selector.Name != "ALERTS" {
			return nil
		}
		for _, m := range selector.LabelMatchers {
			if m.Name == labels.AlertName {
				names = append(names, m.Value)
			}
		}
		return nil
	})
	return names
}
