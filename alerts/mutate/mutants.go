package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inferbeat/inferbeat/alerts/scenario"
)

// mutant is one break of one rule.
type mutant struct {
	group  string
	rule   scenario.Rule
	what   string
	change func(*scenario.Rule)
}

func (m mutant) String() string { return m.rule.Name() + ": " + m.what }

// broken is the rule with the break.
func (m mutant) broken() scenario.Rule {
	r := m.rule
	m.change(&r)
	return r
}

// mutants lists every break of every rule.
func mutants(groups []scenario.Group) []mutant {
	var out []mutant
	for _, g := range groups {
		for _, r := range g.Rules {
			for i, what := range breaks(reread(r.Expr), -1) {
				out = append(out, mutant{g.Name, r, what, func(r *scenario.Rule) {
					r.Expr = reread(r.Expr)
					breaks(r.Expr, i)
				}})
			}
			for _, t := range timers(r) {
				out = append(out, mutant{g.Name, r, t.what, t.change})
			}
		}
	}
	return out
}

// reread copies an expression. The copy has its matchers in another order, so breaks
// are counted in copies only.
func reread(expr parser.Expr) parser.Expr {
	fresh, err := scenario.NewParser().ParseExpr(expr.String())
	if err != nil {
		panic(err) // what was printed by the parser is read by it
	}
	return fresh
}

// timer is a break of for or keep_firing_for.
type timer struct {
	what   string
	change func(*scenario.Rule)
}

func timers(r scenario.Rule) []timer {
	var out []timer
	if r.For > 0 {
		out = append(out,
			timer{"for is 0", func(r *scenario.Rule) { r.For = 0 }},
			timer{"for is 10 times as long", func(r *scenario.Rule) { r.For *= 10 }})
	}
	if r.KeepFiring > 0 {
		out = append(out,
			timer{"keep_firing_for is 0", func(r *scenario.Rule) { r.KeepFiring = 0 }},
			timer{"keep_firing_for is 10 times as long", func(r *scenario.Rule) { r.KeepFiring *= 10 }})
	}
	return out
}

// breaker walks an expression and counts the places where it can be broken; the one
// whose turn it is, is.
type breaker struct {
	turn int
	what []string
}

// breaks lists how an expression can be broken, and breaks it in the way of that index;
// -1 is none.
func breaks(expr parser.Expr, turn int) []string {
	b := &breaker{turn: turn}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.BinaryExpr:
			b.binary(n)
		case *parser.AggregateExpr:
			b.aggregate(n)
		case *parser.VectorSelector:
			b.selector(n)
		case *parser.NumberLiteral:
			if n.Val == 0 {
				b.try("0 is 1", func() { n.Val = 1 })
				return nil
			}
			b.try(fmt.Sprintf("%g is half", n.Val), func() { n.Val /= 2 })
			b.try(fmt.Sprintf("%g is twice", n.Val), func() { n.Val *= 2 })
		case *parser.MatrixSelector:
			b.try("range "+n.Range.String()+" is a third", func() { n.Range = (n.Range / 3).Round(time.Second) })
		}
		return nil
	})
	return b.what
}

func (b *breaker) try(what string, do func()) {
	if b.turn == len(b.what) {
		do()
	}
	b.what = append(b.what, fmt.Sprintf("%s (%d)", what, len(b.what)))
}

var flipped = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LSS, parser.LSS: parser.GTR, parser.GTE: parser.LTE, parser.LTE: parser.GTE, parser.EQLC: parser.NEQ, parser.NEQ: parser.EQLC,
	parser.ADD: parser.SUB, parser.SUB: parser.ADD, parser.MUL: parser.DIV, parser.DIV: parser.MUL,
	parser.LAND: parser.LUNLESS, parser.LUNLESS: parser.LAND,
}

// binary turns an operator round, and drops a side of those that join conditions.
func (b *breaker) binary(n *parser.BinaryExpr) {
	if other, ok := flipped[n.Op]; ok {
		b.try(n.Op.String()+" is "+other.String(), func() { n.Op = other })
	}
	switch n.Op {
	case parser.LAND, parser.LUNLESS, parser.LOR:
		// The left side alone; of or, the right side alone as well.
		b.try(n.Op.String()+" has no right side", func() {
			n.Op, n.RHS, n.VectorMatching = parser.LOR, n.LHS, &parser.VectorMatching{Card: parser.CardManyToMany}
		})
		if n.Op == parser.LOR {
			b.try("or has no left side", func() { n.LHS = n.RHS })
		}
	}
}

func (b *breaker) aggregate(n *parser.AggregateExpr) {
	other := map[parser.ItemType]parser.ItemType{parser.MAX: parser.MIN, parser.MIN: parser.MAX, parser.SUM: parser.MAX, parser.COUNT: parser.SUM}
	if op, ok := other[n.Op]; ok {
		b.try(n.Op.String()+" is "+op.String(), func() { n.Op = op })
	}
	if n.Without {
		b.try(n.Op.String()+" keeps "+fmt.Sprint(n.Grouping), func() { n.Grouping = nil })
	}
}

// selector drops and turns round each matcher.
func (b *breaker) selector(n *parser.VectorSelector) {
	for i, m := range n.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		b.try("no "+m.String(), func() { n.LabelMatchers = slices.Delete(slices.Clone(n.LabelMatchers), i, i+1) })
		turned := map[labels.MatchType]labels.MatchType{
			labels.MatchEqual: labels.MatchNotEqual, labels.MatchNotEqual: labels.MatchEqual,
			labels.MatchRegexp: labels.MatchNotRegexp, labels.MatchNotRegexp: labels.MatchRegexp,
		}
		b.try("not "+m.String(), func() {
			n.LabelMatchers = slices.Clone(n.LabelMatchers)
			n.LabelMatchers[i] = labels.MustNewMatcher(turned[m.Type], m.Name, m.Value)
		})
	}
}
