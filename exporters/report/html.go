package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/inferbeat/inferbeat/probes"
)

// Figure is a drawing on light and on dark ground, as SVG text.
type Figure struct {
	Title       string
	Light, Dark string
}

//go:embed sheet.html
var sheetPage string

// page is what the template is filled with. The drawings come from exporters/plot,
// which escapes what it writes.
type page struct {
	document
	Figures []drawing
}

type drawing struct {
	Title       string
	Light, Dark template.HTML
}

// SheetHTML writes a sheet as one page that needs nothing else: no script, no font
// and no picture is fetched.
func SheetHTML(w io.Writer, sheet *probes.Sheet, figures []Figure) error {
	t, err := template.New("sheet").Option("missingkey=error").Parse(sheetPage)
	if err != nil {
		return fmt.Errorf("parse page of a sheet: %w", err)
	}
	p := page{document: layOut(sheet)}
	for _, f := range figures {
		p.Figures = append(p.Figures, drawing{f.Title, template.HTML(f.Light), template.HTML(f.Dark)})
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write page of a sheet: %w", err)
	}
	return nil
}
