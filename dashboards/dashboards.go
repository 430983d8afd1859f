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
	// V2 is a resource of Grafana's API since version 13, in the second version of the
	// schema: for its command line, for Git Sync, and for the operator's GrafanaManifest.
	V2 Form = "v2"
	// ConfigMap is for the sidecar that collects dashboards in a cluster.
	ConfigMap Form = "configmap"
	// GrafanaOperator is a GrafanaDashboard of Grafana's operator.
	GrafanaOperator Form = "grafana-operator"
)

// Forms lists the forms.
func Forms() []Form { return []Form{Provisioning, Import, V2, ConfigMap, GrafanaOperator} }

// Manifest tells whether the form is a Kubernetes manifest, which has a namespace,
// labels and a folder of Grafana.
func (f Form) Manifest() bool { return f == ConfigMap || f == GrafanaOperator }

// File is the name under which a board in this form is written.
func (f Form) File(uid string) string {
	if f.Manifest() {
		return uid + ".yaml"
	}
	return uid + ".json"
}

// Options are what an installation may set.
type Options struct {
	// DataSource is the name or UID of the Prometheus data source that the boards
	// open with; empty leaves the choice to Grafana, which takes its default. The
	// import form asks for it, whatever is said here.
	DataSource string
	// Page is the address of inferbeat's page, as a browser reaches it; the links
	// to runs lead there. Empty leaves http://127.0.0.1:9799.
	Page string

	// Severities says which word stands for critical, warning, info or none in the
	// alerts of this installation; what is not named keeps its own.
	Severities map[string]string

	// Namespace and Labels are those of a manifest, whose own are app.kubernetes.io/name
	// and, on a ConfigMap, grafana_dashboard: "1"; these win.
	Namespace string
	Labels    map[string]string
	// Folder is the folder of Grafana that a manifest asks for; empty is inferbeat.
	Folder string
	// Instances are the labels by which the operator finds the Grafana to write to;
	// empty is dashboards: grafana, as in its own examples.
	Instances map[string]string
}

const importedSource = "DS_PROMETHEUS"

// In returns the dashboard in a form: JSON, or for a manifest YAML.
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
	if len(o.Severities) > 0 {
		sayAs(model, o.Severities)
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
	if form == V2 {
		manifest, err := manifestV2(d.UID, model)
		if err != nil {
			return nil, err
		}
		return encode(manifest)
	}
	text, err := encode(model)
	if err != nil {
		return nil, fmt.Errorf("encode dashboard %s: %w", d.UID, err)
	}
	switch form {
	case ConfigMap:
		return configMap(d.UID, text, o)
	case GrafanaOperator:
		return operatorManifest(d.UID, text, o)
	}
	return text, nil
}

// encode writes JSON that a reader may compare: expressions are full of <, > and &.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	return out.Bytes(), err
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
