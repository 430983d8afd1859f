package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/inferbeat/inferbeat/dashboards"
)

var dashboardsCommand = command{
	name: "dashboards", usage: "dashboards [flags]", short: "write the Grafana dashboards",
	about: `Writes the Grafana dashboards that belong to this version, one JSON file for each. The form
provisioning is for Grafana's file provisioning, a sidecar or the operator; import is for
the import page, which then asks for the data source.`,
	define: func(f *flagSet) action {
		o := &dashboardsFlags{}
		g := f.group("Flags")
		g.StringVar(&o.folder, "output-dir", "dashboards", "`folder` to write into; it is made when it is not there")
		g.StringVar(&o.form, "form", string(dashboards.Provisioning), "`form`: "+strings.Join(formNames(), " or "))
		g.StringVar(&o.source, "datasource", "", "`name` or UID of the Prometheus data source to open with; Grafana's default when empty")
		g.StringVar(&o.page, "page-url", "", "`URL` of inferbeat's page as a browser reaches it, for links to runs (default http://127.0.0.1:9799)")
		return o.write
	},
}

type dashboardsFlags struct{ folder, form, source, page string }

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
	if form == dashboards.Import && o.source != "" {
		return exitUsage, errors.New("flag --datasource: the form import asks for the data source; leave one of them out")
	}
	if o.page != "" && !strings.HasPrefix(o.page, "http://") && !strings.HasPrefix(o.page, "https://") {
		return exitUsage, fmt.Errorf("flag --page-url: %q begins with neither http:// nor https://", o.page)
	}
	boards, err := dashboards.All()
	if err != nil {
		return exitFail, err
	}
	texts := map[string][]byte{}
	for _, b := range boards {
		if texts[b.File()], err = b.In(form, dashboards.Options{DataSource: o.source, Page: o.page}); err != nil {
			return exitUsage, err
		}
	}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return exitFail, fmt.Errorf("make the folder of the dashboards: %w", err)
	}
	for _, b := range boards {
		path := filepath.Join(o.folder, b.File())
		if err := os.WriteFile(path, texts[b.File()], 0o644); err != nil {
			return exitFail, fmt.Errorf("write dashboard: %w", err)
		}
		fmt.Fprintf(p.Stdout, "%s  %s\n", path, b.Title)
	}
	return exitPass, nil
}
