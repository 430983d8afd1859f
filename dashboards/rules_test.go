package dashboards

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

type labelMatcher = labels.Matcher

func selectors(expr parser.Expr) []*parser.VectorSelector {
	var out []*parser.VectorSelector
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			out = append(out, s)
		}
		return nil
	})
	return out
}

func uniqueIDs(m model) []string {
	var out []string
	seen := map[int]string{}
	for _, p := range m.Panels {
		if other, taken := seen[p.ID]; taken || p.ID < 1 {
			out = append(out, fmt.Sprintf("panels %q and %q have the id %d", other, p.Title, p.ID))
		}
		seen[p.ID] = p.Title
		refs := map[string]bool{}
		for _, t := range p.Targets {
			if t.RefID == "" || refs[t.RefID] {
				out = append(out, fmt.Sprintf("panel %q has two queries %q", p.Title, t.RefID))
			}
			refs[t.RefID] = true
		}
	}
	titles := map[string]bool{}
	for _, p := range m.Panels {
		if titles[p.Title] {
			out = append(out, fmt.Sprintf("two panels are called %q", p.Title))
		}
		titles[p.Title] = true
	}
	return out
}

// grid refuses panels that overlap, stick out, or leave a gap at the right: a
// row that ends at column 20 looks as if something had failed to load.
func grid(m model) []string {
	var out []string
	cells := map[[2]int]string{}
	filled := map[int]int{}
	for _, p := range m.Panels {
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			out = append(out, fmt.Sprintf("panel %q lies at %+v of 24 columns", p.Title, g))
		}
		for y := g.Y; y < g.Y+g.H; y++ {
			for x := g.X; x < g.X+g.W; x++ {
				if other, taken := cells[[2]int{x, y}]; taken {
					out = append(out, fmt.Sprintf("panels %q and %q overlap", other, p.Title))
					return out
				}
				cells[[2]int{x, y}] = p.Title
			}
			filled[y] += g.W
		}
	}
	for y, columns := range filled {
		if columns != 24 {
			out = append(out, fmt.Sprintf("line %d fills %d of 24 columns", y, columns))
		}
	}
	slices.Sort(out)
	return out
}

func noValueText(m model) []string {
	var out []string
	for _, p := range m.data() {
		if p.FieldConfig.Defaults.NoValue == "" {
			out = append(out, fmt.Sprintf("panel %q does not say why it may be empty", p.Title))
		}
	}
	return out
}

// explicitThresholds refuses the untouched default: red at 80, whatever is drawn.
func explicitThresholds(m model) []string {
	var out []string
	for _, p := range m.data() {
		thresholds := p.FieldConfig.Defaults.Thresholds
		if thresholds == nil || len(thresholds.Steps) == 0 || thresholds.Steps[0].Value != nil {
			out = append(out, fmt.Sprintf("panel %q has no thresholds from minus infinity on", p.Title))
			continue
		}
		for _, step := range thresholds.Steps {
			if step.Value != nil && *step.Value == 80 {
				out = append(out, fmt.Sprintf("panel %q has Grafana's default threshold", p.Title))
			}
		}
	}
	return out
}

var variableUse = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)(?::\w+)?\})`)

// variables that are used must exist, and those that exist must be used: one
// that changes nothing is a lie in the bar.
func variables(m model) []string {
	text, err := json.Marshal(m)
	if err != nil {
		return []string{err.Error()}
	}
	used := map[string]bool{}
	for _, match := range variableUse.FindAllStringSubmatch(string(text), -1) {
		if name := match[1] + match[2]; !strings.HasPrefix(name, "__") {
			used[name] = true
		}
	}
	var out []string
	defined := map[string]bool{}
	for _, v := range m.Templating.List {
		defined[v.Name] = true
		if !used[v.Name] {
			out = append(out, fmt.Sprintf("variable %s is not used", v.Name))
		}
	}
	for name := range used {
		if !defined[name] {
			out = append(out, fmt.Sprintf("variable %s does not exist", name))
		}
	}
	slices.Sort(out)
	return out
}

func catalogued(m model) []string {
	out := each(m, func(_ panel, _ target, expr parser.Expr) []string { return drift(expr) })
	for _, a := range m.Annotations.List {
		if expr, err := parsePromQL(a.Target.Expr); err == nil {
			for _, fault := range drift(expr) {
				out = append(out, fmt.Sprintf("annotation %q: %s", a.Name, fault))
			}
		}
	}
	return out
}

func legends(m model) []string {
	return each(m, func(p panel, t target, expr parser.Expr) []string {
		var out []string
		for _, label := range unnamed(expr, t.LegendFormat) {
			out = append(out, fmt.Sprintf("legend %q: the series have no label %s", t.LegendFormat, label))
		}
		if len(labelsOf(expr)) > 0 && t.LegendFormat == "" && p.Type != "table" && p.Type != "xychart" {
			out = append(out, "several series and no names for them")
		}
		return out
	})
}

// tableColumns: a column that no query brings, or an override for a heading that
// does not exist, is silently ignored by Grafana.
func tableColumns(m model) []string {
	var out []string
	for _, p := range m.data() {
		if p.Type != "table" {
			continue
		}
		headings := map[string]bool{}
		for _, t := range p.Transformations {
			renamed, _ := t.Options["renameByName"].(map[string]any)
			for field, heading := range renamed {
				headings[fmt.Sprint(heading)] = true
				if !broughtBy(p, field) {
					out = append(out, fmt.Sprintf("table %q: no query brings the column %q", p.Title, field))
				}
			}
		}
		for _, o := range p.FieldConfig.Overrides {
			if o.Matcher.ID == "byName" && !headings[fmt.Sprint(o.Matcher.Options)] {
				out = append(out, fmt.Sprintf("table %q: an override for %q, which is no heading", p.Title, o.Matcher.Options))
			}
		}
		sorted, _ := p.Options["sortBy"].([]any)
		for _, by := range sorted {
			if name := by.(map[string]any)["displayName"]; !headings[fmt.Sprint(name)] {
				out = append(out, fmt.Sprintf("table %q is sorted by %q, which is no heading", p.Title, name))
			}
			if by.(map[string]any)["desc"] != true {
				out = append(out, fmt.Sprintf("table %q is sorted upwards, where empty cells come first", p.Title))
			}
		}
	}
	return out
}

func broughtBy(p panel, field string) bool {
	return slices.ContainsFunc(p.Targets, func(t target) bool {
		// Grafana numbers the values once there are several queries.
		if many := len(p.Targets) > 1; many && field == "Value #"+t.RefID || !many && field == "Value" {
			return true
		}
		expr, err := parsePromQL(t.Expr)
		return err == nil && slices.Contains(labelsOf(expr), field)
	})
}

var boardLink = regexp.MustCompile(`^d/([\w-]+)\?`)

// linksResolve: a link leads to a board of ours or to the daemon's page.
func linksResolve(m model) []string {
	var out []string
	check := func(where, url string) {
		if strings.HasPrefix(url, "${page}/") {
			return
		}
		match := boardLink.FindStringSubmatch(url)
		if match == nil || !slices.Contains(uids, match[1]) {
			out = append(out, fmt.Sprintf("%s leads to %q", where, url))
		}
	}
	for _, l := range m.Links {
		if l.Type == "link" {
			check(fmt.Sprintf("link %q", l.Title), l.URL)
		}
	}
	for _, p := range m.data() {
		for _, l := range p.FieldConfig.Defaults.Links {
			check(fmt.Sprintf("panel %q, link %q", p.Title, l.Title), l.URL)
		}
		for _, o := range p.FieldConfig.Overrides {
			for _, property := range o.Properties {
				if list, ok := property.Value.([]any); ok && property.ID == "links" {
					for _, l := range list {
						check(fmt.Sprintf("panel %q, column %q", p.Title, o.Matcher.Options), fmt.Sprint(l.(map[string]any)["url"]))
					}
				}
			}
		}
	}
	return out
}

// uids are the boards that may be linked to.
var uids = []string{
	"inferbeat-capacity", "inferbeat-compare", "inferbeat-fleet", "inferbeat-health", "inferbeat-regression", "inferbeat-slo", "inferbeat-target",
}

// bothHistograms: a query over a histogram must answer whichever form is stored.
func bothHistograms(m model) []string {
	return each(m, func(_ panel, _ target, expr parser.Expr) []string {
		forms := map[string][2]bool{}
		for _, s := range selectors(expr) {
			base, classic := strings.CutSuffix(s.Name, "_bucket")
			if metric, ok := metricOf(base); !ok || metric.Kind != "histogram" {
				continue
			}
			f := forms[base]
			forms[base] = [2]bool{f[0] || !classic, f[1] || classic}
		}
		var out []string
		for name, f := range forms {
			if !f[0] || !f[1] {
				out = append(out, fmt.Sprintf("%s: native %v, classic %v; want both", name, f[0], f[1]))
			}
		}
		return out
	})
}

// framed: what all boards have in common.
func framed(m model) []string {
	var out []string
	if !slices.Contains(uids, m.UID) || !strings.HasPrefix(m.Title, "Inferbeat / ") || !strings.HasSuffix(m.Description, "?") {
		out = append(out, fmt.Sprintf("uid %q, title %q, description %q: want one of ours, with its question", m.UID, m.Title, m.Description))
	}
	if m.Timezone != "browser" || m.Refresh != "1m" || m.Time.To != "now" || !slices.Contains(m.Tags, "inferbeat") {
		out = append(out, "time zone, refresh, range or tag differ from the other boards")
	}
	if m.Inputs == nil || len(m.Inputs) != 0 {
		out = append(out, "__inputs must be there and empty: provisioning does not fill them")
	}
	types := map[string]bool{}
	for _, r := range m.Requires {
		types[r.ID] = true
	}
	for _, p := range m.data() {
		if !types[p.Type] {
			out = append(out, fmt.Sprintf("__requires lacks the panel type %s", p.Type))
		}
	}
	if !types["prometheus"] || !types["grafana"] {
		out = append(out, "__requires lacks prometheus or grafana")
	}
	return out
}
