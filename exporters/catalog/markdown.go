package catalog

import (
	"fmt"
	"strings"
)

// Markdown prints the catalogue as the page METRICS.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`<!-- Written by go generate from the catalogue; edit metrics.go, not this file. -->

# Metrics

Every series of the prefix ` + "`inferbeat_`" + ` that /metrics can show, and those of the answers of /probe. Base units, times as Unix seconds, ratios 0 to 1.
What is unknown is absent, never 0; counters are born at 0 when the pair is configured.

Kinds: *info* is a gauge that is always 1. Histograms are native (growth 1.09 or less per bucket) and classic at once up to a number
of pairs, beyond it native only. No shipped rule depends on a histogram.

Staleness: *cumulative* lives while the pair is configured and five minutes longer · *pair* is gone at the first scrape
after the pair is removed · *result* the same, and ` + "`stale_after`" + ` after the last result · *comparison* as pair and result, of a
comparison · *process* lives with the daemon · *answer* is in the answer to one ` + "`GET /probe?target=T&probe=P`" + `, about that run alone, and never on
/metrics.

"Identity" stands for ` + code(identity) + `.

| Metric | Kind | Unit | Labels | Meaning | Updated | Staleness | Better |
| --- | --- | --- | --- | --- | --- | --- | --- |
`)
	for _, m := range metrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", m.Name, m.Kind, m.Unit, labelCell(m), m.Help, m.Updated, m.Staleness, m.Better)
	}
	b.WriteString("\n## For your own queries\n\nNo shipped rule, board or runbook reads these.\n\n| Metric | What it is for |\n| --- | --- |\n")
	for _, u := range Unread() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", u.Name, u.For)
	}
	b.WriteString("\n## Labels\n\n| Label | Meaning | Values |\n| --- | --- | --- |\n")
	for _, l := range labels {
		values := "from the configuration"
		if l.Values != nil {
			values = code(l.Values)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", l.Name, l.Help, values)
	}
	b.WriteString("\n## Classic buckets\n\n| Metric | Upper bounds |\n| --- | --- |\n")
	for _, m := range metrics {
		if m.Kind == Histogram {
			fmt.Fprintf(&b, "| `%s` | %s |\n", m.Name, strings.Trim(fmt.Sprint(m.Buckets), "[]"))
		}
	}
	return b.String()
}

// labelCell names the labels of a metric, its identity in one word.
func labelCell(m Metric) string {
	if m.PerPair() {
		return strings.TrimSuffix("identity, "+code(m.Labels[len(identity):]), ", ")
	}
	return code(m.Labels)
}

func code(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}
