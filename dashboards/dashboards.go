// Package dashboards holds the Grafana dashboards that ship with the binary.
//
// The story of the data: the program gen writes grafana/*.json out of the metric
// catalogue; they are checked in, because a reviewer must see what a change of a
// board does, and embedded here. [All] lists them; [Dashboard.In] turns one into
// the form in which a user hands it to Grafana.
//
// The package links neither the SDK that writes the files nor anything of ours.
package dashboards

//go:generate go run ./gen grafana

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed grafana/*.json
var files embed.FS

// Dashboard is one board.
type Dashboard struct {
	UID   string // stable; links and alerts rest on it
	Title string
	// Model is the dashboard in Grafana's v1 form. The caller must not change it.
	Model []byte
}

// File is the name under which the board is written.
func (d Dashboard) File() string { return d.UID + ".json" }

// All lists the boards by their UIDs.
func All() ([]Dashboard, error) {
	entries, err := files.ReadDir("grafana")
	if err != nil {
		return nil, fmt.Errorf("list embedded dashboards: %w", err)
	}
	var out []Dashboard
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join("grafana", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read embedded dashboard: %w", err)
		}
		var head struct{ UID, Title string }
		if err := json.Unmarshal(text, &head); err != nil {
			return nil, fmt.Errorf("parse embedded dashboard %s: %w", entry.Name(), err)
		}
		out = append(out, Dashboard{UID: head.UID, Title: head.Title, Model: text})
	}
	return out, nil
}

// Form is how a dashboard is handed to Grafana.
type Form string

const (
	// Provisioning is for Grafana's file provisioning, a sidecar or the operator:
	// the data source is the one chosen in the board.
	Provisioning Form = "provisioning"
	// Import is for the import page and grafana.com, which ask for what is in
	// __inputs: the data source, and the address of inferbeat's page.
	Import Form = "import"
)

// Forms lists the forms.
func Forms() []Form { return []Form{Provisioning, Import} }

// Options are what an installation may set.
type Options struct {
	// DataSource is the name or UID of the Prometheus data source that the boards
	// open with; empty leaves the choice to Grafana, which takes its default. The
	// import form asks for it, whatever is said here.
	DataSource string
	// Page is the address of inferbeat's page, as a browser reaches it; the links
	// to runs lead there. Empty leaves http://127.0.0.1:9799.
	Page string
}

const importedSource = "DS_PROMETHEUS"

// In returns the dashboard in a form, as indented JSON.
func (d Dashboard) In(form Form, o Options) ([]byte, error) {
	if !slices.Contains(Forms(), form) {
		return nil, fmt.Errorf("write dashboard %s: form %q is unknown; use one of %q", d.UID, form, Forms())
	}
	var model map[string]any
	decoder := json.NewDecoder(bytes.NewReader(d.Model))
	decoder.UseNumber() // a number is written as it was read
	if err := decoder.Decode(&model); err != nil {
		return nil, fmt.Errorf("parse dashboard %s: %w", d.UID, err)
	}
	if o.Page != "" {
		setVariable(model, "page", strings.TrimSuffix(o.Page, "/"))
	}
	switch {
	case form == Import:
		setVariable(model, "datasource", "${"+importedSource+"}")
		model["__inputs"] = inputs(variable(model, "page"))
	case o.DataSource != "":
		setVariable(model, "datasource", o.DataSource)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(model); err != nil {
		return nil, fmt.Errorf("encode dashboard %s: %w", d.UID, err)
	}
	return out.Bytes(), nil
}

// inputs are what the import page asks for. Grafana replaces ${NAME} by the
// answer wherever it stands in the file.
func inputs(page map[string]any) []any {
	address := page["query"]
	page["query"] = "${VAR_PAGE}"
	page["current"] = map[string]any{"text": "${VAR_PAGE}", "value": "${VAR_PAGE}", "selected": false}
	return []any{
		map[string]any{
			"name": importedSource, "label": "Prometheus", "type": "datasource", "pluginId": "prometheus", "pluginName": "Prometheus",
			"description": "The Prometheus that scrapes inferbeat",
		},
		map[string]any{
			"name": "VAR_PAGE", "label": page["label"], "type": "constant", "value": address,
			"description": "As a browser reaches it; links to runs lead there",
		},
	}
}

// setVariable sets what a variable holds when the board is opened.
func setVariable(model map[string]any, name, value string) {
	v := variable(model, name)
	v["current"] = map[string]any{"text": value, "value": value, "selected": true}
	if v["type"] == "constant" {
		v["query"] = value
	}
}

// variable finds a variable of the model; every board has those that are asked
// for, which a test holds.
func variable(model map[string]any, name string) map[string]any {
	templating, _ := model["templating"].(map[string]any)
	list, _ := templating["list"].([]any)
	for _, item := range list {
		if v, ok := item.(map[string]any); ok && v["name"] == name {
			return v
		}
	}
	return map[string]any{}
}
