package web

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var runbookPage = parsePage("runbook.html")

// handleRunbooks serves the list and each page, with or without the .md at its end
// that the address of a repository needs.
func handleRunbooks(mux *http.ServeMux, o Options) {
	if o.Runbook == nil {
		return
	}
	draw := func(w http.ResponseWriter, title string, body template.HTML) {
		var out bytes.Buffer
		view := struct {
			Title string
			Body  template.HTML
			Names []string
		}{title, body, slices.Sorted(slices.Values(o.Runbooks))}
		if err := runbookPage.Execute(&out, view); err != nil {
			http.Error(w, fmt.Sprintf("draw runbook: %v", err), http.StatusInternalServerError)
			return
		}
		secure(w.Header(), "text/html; charset=utf-8")
		_, _ = out.WriteTo(w)
	}
	mux.HandleFunc("GET /runbooks/{$}", func(w http.ResponseWriter, _ *http.Request) { draw(w, "Runbooks", "") })
	mux.HandleFunc("GET /runbooks/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimSuffix(r.PathValue("name"), ".md")
		text, ok := o.Runbook(name)
		if !ok {
			http.Error(w, "there is no such runbook; /runbooks/ lists them", http.StatusNotFound)
			return
		}
		draw(w, name, markdown(text, o.Runbooks))
	})
}

var (
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	alertName = regexp.MustCompile(`\bInferbeat\w+`)
	numbered  = regexp.MustCompile(`^\d+\. `)
)

// markdown draws as much of Markdown as the runbooks use: headings, paragraphs,
// numbered lists with code blocks in them, and spans of code. Alerts that have a page
// become links. Everything else is text, and comes out as it went in.
func markdown(text string, alerts []string) template.HTML {
	var out strings.Builder
	list, code := false, false
	endList := func() {
		if list {
			out.WriteString("</li></ol>\n")
			list = false
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			out.WriteString(map[bool]string{false: "<pre><code>", true: "</code></pre>\n"}[code])
			code = !code
		case code:
			out.WriteString(html.EscapeString(strings.TrimPrefix(line, "   ")) + "\n")
		case trimmed == "":
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "## "):
			endList()
			level, title, _ := strings.Cut(line, " ")
			fmt.Fprintf(&out, "<h%d>%s</h%d>\n", len(level), html.EscapeString(title), len(level))
		case numbered.MatchString(line):
			out.WriteString(map[bool]string{false: "<ol>\n<li>", true: "</li>\n<li>"}[list])
			list = true
			out.WriteString(inline(numbered.ReplaceAllString(line, ""), alerts))
		default:
			endList()
			out.WriteString("<p>" + inline(line, alerts) + "</p>\n")
		}
	}
	endList()
	return template.HTML(out.String()) // every piece of text has been escaped above
}

func inline(text string, alerts []string) string {
	text = codeSpan.ReplaceAllString(html.EscapeString(text), "<code>$1</code>")
	return alertName.ReplaceAllStringFunc(text, func(name string) string {
		if !slices.Contains(alerts, name) {
			return name
		}
		return `<a href="/runbooks/` + name + `">` + name + `</a>`
	})
}
