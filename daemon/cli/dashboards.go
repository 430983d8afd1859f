package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/inferbeat/inferbeat/dashboards"
)

var dashboardsCommand = command{
	name: "dashboards", usage: "dashboards [flags]", short: "write the Grafana dashboards",
	about: `Writes the Grafana dashboards that belong to this version, one file for each. The form
provisioning is JSON for Grafana's file provisioning; import is for the import page, which
then asks for the data source; v2 is the second version of the schema, as a resource of the
API of Grafana 13 (not for its file provisioning). configmap is a ConfigMap for the sidecar that
collects dashboards in a cluster; grafana-operator a GrafanaDashboard of Grafana's operator.`,
	define: func(f *flagSet) action {
		o := &dashboardsFlags{}
		g := f.group("Flags")
		g.StringVar(&o.folder, "output-dir", "dashboards", "`folder` to write into; it is made when it is not there")
		g.StringVar(&o.form, "form", string(dashboards.Provisioning), "`form`: "+strings.Join(formNames(), ", "))
		g.StringVar(&o.DataSource, "datasource", "", "`name` or UID of the Prometheus data source to open with; Grafana's default when empty")
		g.StringVar(&o.Page, "page-url", "", "`URL` of inferbeat's page as a browser reaches it, for links to runs (default http://127.0.0.1:9799)")
		g.StringToStringVar(&o.Severities, "severity", nil, "`words` that the alerts have in place of critical, warning, info and none, as they were given to inferbeat alerts")

		g = f.group("Forms configmap and grafana-operator only")
		g.StringVar(&o.Namespace, "namespace", "", "`namespace` of the manifests")
		g.StringToStringVar(&o.Labels, "manifest-label", nil, "`name=value` to add to the manifests; several times for several")
		g.StringVar(&o.Folder, "folder", "", "`folder` of Grafana to show them in (default inferbeat)")
		g.StringToStringVar(&o.Instances, "instance-label", nil, "`name=value` by which the operator finds the Grafana, form grafana-operator only; several times for several (default dashboards=grafana)")
		o.changed = func(flag string) bool { return f.Changed(flag) }
		return o.write
	},
}

type dashboardsFlags struct {
	dashboards.Options
	folder, form string
	changed      func(flag string) bool
}

// check refuses flags that the form has no use for.
func (o *dashboardsFlags) check(form dashboards.Form) error {
	var m mistakes
	if form == dashboards.Import && o.DataSource != "" {
		m.add("datasource", "the form import asks for the data source; leave one of them out")
	}
	if o.Page != "" && !strings.HasPrefix(o.Page, "http://") && !strings.HasPrefix(o.Page, "https://") {
		m.add("page-url", "%q begins with neither http:// nor https://", o.Page)
	}
	if err := checkSeverities(o.Severities); err != nil {
		m.add("severity", "%v", err)
	}
	for _, flag := range []string{"namespace", "manifest-label", "folder"} {
		if o.changed(flag) && !form.Manifest() {
			m.add(flag, "has no effect with --form %s", form)
		}
	}
	if o.changed("instance-label") && form != dashboards.GrafanaOperator {
		m.add("instance-label", "has no effect with --form %s", form)
	}
	return m.join()
}

func formNames() []string {
	var out []string
	for _, f := range dashboards.Forms() {
		out = append(out, string(f))
	}
	return out
}

// write makes every file before it writes the first, so that a mistake leaves no
// half of a set behind.
func (o *dashboardsFlags) write(_ context.Context, p Process) (int, error) {
	form := dashboards.Form(o.form)
	if err := o.check(form); err != nil {
		return exitUsage, err
	}
	boards, err := dashboards.All()
	if err != nil {
		return exitFail, err
	}
	texts := map[string][]byte{}
	for _, b := range boards {
		if texts[b.UID], err = b.In(form, o.Options); err != nil {
			return exitUsage, err
		}
	}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return exitFail, fmt.Errorf("make the folder of the dashboards: %w", err)
	}
	for _, b := range boards {
		path := filepath.Join(o.folder, form.File(b.UID))
		if err := os.WriteFile(path, texts[b.UID], 0o644); err != nil {
			return exitFail, fmt.Errorf("write dashboard: %w", err)
		}
		fmt.Fprintf(p.Stdout, "%s  %s\n", path, b.Title)
	}
	return exitPass, nil
}
