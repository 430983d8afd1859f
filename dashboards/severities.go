package dashboards

import "regexp"

var (
	alertSelector   = regexp.MustCompile(`ALERTS\{[^}]*\}`)
	severityMatcher = regexp.MustCompile(`(severity!?=")(\w+)(")`)
)

// sayAs puts the words of an installation in the place of those by which the boards
// select alerts, in whatever is below v. Limits have severities too, and keep theirs.
func sayAs(v any, words map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = sayAs(v[key], words)
		}
	case []any:
		for i := range v {
			v[i] = sayAs(v[i], words)
		}
	case string:
		return alertSelector.ReplaceAllStringFunc(v, func(selector string) string {
			return severityMatcher.ReplaceAllStringFunc(selector, func(matcher string) string {
				part := severityMatcher.FindStringSubmatch(matcher)
				if word := words[part[2]]; word != "" {
					return part[1] + word + part[3]
				}
				return matcher
			})
		})
	}
	return v
}
