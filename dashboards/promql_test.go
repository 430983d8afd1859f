package dashboards

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// foreign are the series that inferbeat does not expose, with their labels: they
// come from Prometheus itself or from the libraries every Go program uses.
var foreign = map[string][]string{
	"ALERTS": {"alertname", "alertstate", "severity", "instance", catalog.LabelTarget, catalog.LabelPool, catalog.LabelTargetEnv,
		catalog.LabelProbe, catalog.LabelSLO, "metric"},
	"scrape_duration_seconds":       {},
	"go_goroutines":                 {},
	"process_resident_memory_bytes": {},
	"process_open_fds":              {},
	"process_max_fds":               {},
}

// scraped are the labels that Prometheus adds to everything it scrapes.
var scraped = []string{"job", "instance"}

// expand puts a value in the place of every variable that stands outside of a
// matcher, as Grafana does before it sends a query.
var expand = strings.NewReplacer("$window", "5m", "$__rate_interval", "1m", "$__interval", "15s", "$__range", "1h")

func parsePromQL(expr string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(expand.Replace(expr))
}

// metricOf returns the kind and labels of the metric behind a name in a query.
func metricOf(name string) (catalog.Metric, bool) {
	if known, ok := foreign[name]; ok {
		return catalog.Metric{Name: name, Kind: catalog.Gauge, Labels: known}, true
	}
	if m, ok := catalog.Lookup(name); ok {
		return m, true
	}
	base := strings.TrimSuffix(name, "_bucket")
	if m, ok := catalog.Lookup(base); ok && base != name && m.Kind == catalog.Histogram {
		m.Labels = append(slices.Clone(m.Labels), "le")
		return m, true
	}
	return catalog.Metric{}, false
}

// drift lists what an expression says about metrics that the catalogue does not.
func drift(expr parser.Expr) []string {
	var faults []string
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			faults = append(faults, selectorDrift(n)...)
		case *parser.Call:
			faults = append(faults, callDrift(n)...)
		case *parser.AggregateExpr:
			have := labelsOf(n.Expr)
			for _, label := range n.Grouping {
				if !slices.Contains(have, label) {
					faults = append(faults, fmt.Sprintf("%s by (%s): its argument has only %q", n.Op, label, have))
				}
			}
		case *parser.BinaryExpr:
			if n.VectorMatching == nil || !n.VectorMatching.On {
				break
			}
			for _, side := range []parser.Expr{n.LHS, n.RHS} {
				for _, label := range n.VectorMatching.MatchingLabels {
					if have := labelsOf(side); !slices.Contains(have, label) {
						faults = append(faults, fmt.Sprintf("on (%s): one side has only %q", label, have))
					}
				}
			}
		}
		return nil
	})
	return faults
}

func selectorDrift(n *parser.VectorSelector) []string {
	metric, ok := metricOf(n.Name)
	if !ok {
		return []string{fmt.Sprintf("metric %s is not in the catalogue", n.Name)}
	}
	var faults []string
	for _, m := range n.LabelMatchers {
		if m.Name == prommodel.MetricNameLabel || slices.Contains(scraped, m.Name) {
			continue
		}
		if !metric.HasLabel(m.Name) {
			faults = append(faults, fmt.Sprintf("%s has no label %s", n.Name, m.Name))
		} else if values := closedValues(m.Name); m.Type == labels.MatchEqual && values != nil && !slices.Contains(values, m.Value) {
			faults = append(faults, fmt.Sprintf("%s is never %q in %s", m.Name, m.Value, n.Name))
		}
	}
	return faults
}

func closedValues(label string) []string {
	for _, l := range catalog.Labels() {
		if l.Name == label {
			return l.Values
		}
	}
	return nil
}

// callDrift refuses functions of counters over what is none: rate() of a gauge
// draws a line, and it is wrong.
func callDrift(n *parser.Call) []string {
	if n.Func.Name != "rate" && n.Func.Name != "increase" {
		return nil
	}
	selector, ok := n.Args[0].(*parser.MatrixSelector)
	if !ok {
		return []string{n.Func.Name + " of something that is no selector"}
	}
	name := selector.VectorSelector.(*parser.VectorSelector).Name
	if metric, ok := metricOf(name); ok && metric.Kind != catalog.Counter && metric.Kind != catalog.Histogram {
		return []string{fmt.Sprintf("%s of %s, which is a %s", n.Func.Name, name, metric.Kind)}
	}
	return nil
}

// labelsOf are the labels that the result of an expression has.
func labelsOf(expr parser.Expr) []string {
	switch n := expr.(type) {
	case *parser.ParenExpr:
		return labelsOf(n.Expr)
	case *parser.UnaryExpr:
		return labelsOf(n.Expr)
	case *parser.StepInvariantExpr:
		return labelsOf(n.Expr)
	case *parser.MatrixSelector:
		return labelsOf(n.VectorSelector)
	case *parser.VectorSelector:
		metric, _ := metricOf(n.Name)
		return slices.Concat(metric.Labels, scraped)
	case *parser.AggregateExpr:
		if n.Op == parser.TOPK || n.Op == parser.BOTTOMK {
			return labelsOf(n.Expr)
		}
		return n.Grouping
	case *parser.Call:
		for _, arg := range n.Args {
			if arg.Type() == parser.ValueTypeVector || arg.Type() == parser.ValueTypeMatrix {
				return slices.DeleteFunc(slices.Clone(labelsOf(arg)), func(l string) bool { return n.Func.Name == "histogram_quantile" && l == "le" })
			}
		}
		return nil
	case *parser.BinaryExpr:
		if n.LHS.Type() == parser.ValueTypeScalar {
			return labelsOf(n.RHS)
		}
		if m := n.VectorMatching; m != nil && m.On && m.Card == parser.CardOneToOne {
			return m.MatchingLabels
		}
		return labelsOf(n.LHS)
	}
	return nil
}

var legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// unnamed lists the labels of a legend that the series do not have: such a line
// is drawn without a name.
func unnamed(expr parser.Expr, legend string) []string {
	var out []string
	have := labelsOf(expr)
	for _, match := range legendLabel.FindAllStringSubmatch(legend, -1) {
		if label := match[1]; !slices.Contains(have, label) && label != "le" {
			out = append(out, label)
		}
	}
	return out
}
