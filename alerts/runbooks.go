package alerts

import (
	"embed"
	"strings"
)

//go:embed runbooks/*.md
var runbooks embed.FS

// Runbook is the page of an alert as Markdown: what it means, what it does to users,
// the first three checks, likely causes and how to silence it rightly.
func Runbook(alert string) (text string, ok bool) {
	if strings.ContainsAny(alert, "/.") {
		return "", false
	}
	page, err := runbooks.ReadFile("runbooks/" + alert + ".md")
	return string(page), err == nil
}
