package scenario

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// loader gives Prometheus rules that are in memory.
type loader struct{ groups []Group }

func (l loader) Load(string, bool, model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	var out rulefmt.RuleGroups
	for _, g := range l.groups {
		group := rulefmt.RuleGroup{Name: g.Name, Interval: model.Duration(g.Interval)}
		for _, r := range g.Rules {
			group.Rules = append(group.Rules, rulefmt.Rule{
				Record: r.Record, Alert: r.Alert, Expr: r.Expr.String(), For: model.Duration(r.For), KeepFiringFor: model.Duration(r.KeepFiring),
				Labels: r.Labels, Annotations: r.Annotations,
			})
		}
		out.Groups = append(out.Groups, group)
	}
	return &out, nil
}

func (l loader) Parse(query string) (parser.Expr, error) { return NewParser().ParseExpr(query) }
