package boards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// Names of the dashboards' variables. Those that are labels carry the label's
// name, so that a link between boards keeps them.
const (
	varDatasource = "datasource"
	varJob        = "job"
	varInstance   = "instance"
	varComparison = "comparison"
	varWindow     = "window"
	varPage       = "page"
)

// vars are the variables of a board that select series.
type vars []string

var (
	// pairVars select pairs of probe and target; job is first because it is the
	// cheapest to look up.
	pairVars = vars{varJob, catalog.LabelTargetEnv, catalog.LabelPool, catalog.LabelModel, catalog.LabelTarget, catalog.LabelProbe}
	sloVars  = append(slices.Clone(pairVars), catalog.LabelSLO)
	// healthVars select daemons.
	healthVars     = vars{varJob, varInstance}
	comparisonVars = vars{varJob, varComparison}
)

// of selects the series of a metric: by those variables that it has as labels,
// and by the matchers. A name that is not in the catalogue panics: the board
// would be empty in front of its reader.
func (v vars) of(name string, matchers ...string) string { return v.named(name, name, matchers) }

func (v vars) named(name, series string, matchers []string) string {
	metric, ok := catalog.Lookup(name)
	if !ok {
		panic(fmt.Sprintf("metric %s is not in the catalogue", name))
	}
	var parts []string
	for _, variable := range v {
		if variable == varJob || variable == varInstance || metric.HasLabel(variable) {
			parts = append(parts, fmt.Sprintf(`%s=~"$%s"`, variable, variable))
		}
	}
	return series + "{" + strings.Join(append(parts, matchers...), ",") + "}"
}

// is is a matcher for one value of a label.
func is(label, value string) string { return fmt.Sprintf("%s=%q", label, value) }

// Aggregations over explicit labels: two daemons that watch the same pairs, and
// labels that a site adds, must not double a line.
func maxBy(labels, expr string) string { return fmt.Sprintf("max by (%s) (%s)", labels, expr) }
func minBy(labels, expr string) string { return fmt.Sprintf("min by (%s) (%s)", labels, expr) }
func sumBy(labels, expr string) string { return fmt.Sprintf("sum by (%s) (%s)", labels, expr) }

// count is a number of series that is 0, not absent, when there are none.
func count(expr string) string { return fmt.Sprintf("count(%s) or vector(0)", expr) }

// increase and rate are taken over the variable window: at one request a minute
// Grafana's own interval is shorter than the gap between two events.
func increase(series string) string { return "increase(" + series + "[$window])" }
func rate(series string) string     { return "rate(" + series + "[$window])" }

// quantile of a histogram, whichever form is stored: the native one where there
// is one, because its buckets are narrower, else the classic one.
func (v vars) quantile(q float64, labels, name string, matchers ...string) string {
	native := fmt.Sprintf("histogram_quantile(%v, sum by (%s) (%s))", q, labels, rate(v.of(name, matchers...)))
	le := strings.TrimPrefix(labels+", le", ", ")
	classic := fmt.Sprintf("histogram_quantile(%v, sum by (%s) (%s))", q, le, rate(v.named(name, name+"_bucket", matchers)))
	return native + "\nor\n" + classic
}

// latency is an exact statistic of the last valid result.
func (v vars) latency(signal, stat string) string {
	return v.of(catalog.ResultLatency, is(catalog.LabelSignal, signal), is(catalog.LabelStat, stat))
}

// failing is 1 for pairs that failed as often in a row as counts as down, else
// 0; of two daemons both must see it.
func (v vars) failing(labels string) string {
	return fmt.Sprintf("%s\n>= bool on (target, probe) group_left ()\n%s",
		minBy(labels, v.of(catalog.ConsecutiveFailures)), maxBy("target, probe", v.of(catalog.FailureThreshold)))
}

// successRatio of finished requests, absent while there were none.
func (v vars) successRatio(labels string) string {
	success := v.of(catalog.Requests, is(catalog.LabelOutcome, catalog.OutcomeSuccess))
	judged := v.of(catalog.Requests, catalog.LabelOutcome+`=~"`+catalog.OutcomeSuccess+"|"+catalog.OutcomeError+`"`)
	return fmt.Sprintf("%s\n/\n(%s > 0)", sumBy(labels, increase(success)), sumBy(labels, increase(judged)))
}

// ownRequests are the requests a second that inferbeat itself sent; what was
// dropped never left it.
func ownRequests(v vars) string {
	return sumBy(catalog.LabelTarget, rate(v.of(catalog.Requests, fmt.Sprintf("%s!=%q", catalog.LabelOutcome, catalog.OutcomeDropped))))
}

// burnRate is how many times faster than allowed an objective's budget is
// spent: 1 spends it exactly in its window.
func (v vars) burnRate(window string) string {
	events := func(matchers ...string) string {
		return sumBy(objectiveLabels, fmt.Sprintf("increase(%s[%s])", v.of(catalog.SLOEvents, matchers...), window))
	}
	return fmt.Sprintf("%s\n/\n(%s > 0)\n/\n(1 - %s)",
		events(is(catalog.LabelResult, catalog.ResultBad)), events(), maxBy(objectiveLabels, v.of(catalog.SLOObjective)))
}

// age of a pair's last result in seconds.
func (v vars) age(labels string) string {
	return "time() - " + maxBy(labels, v.of(catalog.ResultTimestamp))
}

// stale are the pairs whose last success is older than the configuration allows.
func (v vars) stale() string {
	return fmt.Sprintf("(time() - %s) > %s", maxBy("target, probe", v.of(catalog.RunLastSuccess)), maxBy("target, probe", v.of(catalog.ProbeStaleAfter)))
}

// alerts are the shipped alerts that fire and say something: the heartbeat, whose
// severity is none, always does.
func alerts(matchers ...string) string {
	return "ALERTS{" + strings.Join(append([]string{`alertname=~"Inferbeat.+"`, `alertstate="firing"`, `severity!="none"`}, matchers...), ",") + "}"
}
