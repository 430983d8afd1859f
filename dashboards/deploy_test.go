package dashboards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const grafanaFolder = "../deploy/grafana"

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	file, err := os.Open(filepath.Join(grafanaFolder, "provisioning", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// What the README says must fit what the files say: the folder, the data source,
// and the environment that Grafana fills in.
func TestProvisioningFitsItsManual(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			JSONData                     struct {
				HTTPMethod   string `yaml:"httpMethod"`
				TimeInterval string `yaml:"timeInterval"`
				Exemplars    []struct {
					Name, URL string
					Label     string `yaml:"urlDisplayLabel"`
				} `yaml:"exemplarTraceIdDestinations"`
			} `yaml:"jsonData"`
		}
	}
	readYAML(t, "datasources/inferbeat.yaml", &sources)
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			DisableDeletion    bool `yaml:"disableDeletion"`
			AllowUIUpdates     bool `yaml:"allowUiUpdates"`
			Interval           int  `yaml:"updateIntervalSeconds"`
			Options            struct{ Path string }
		}
	}
	readYAML(t, "dashboards/inferbeat.yaml", &providers)
	source, provider := sources.Datasources[0], providers.Providers[0]
	if sources.APIVersion != 1 || providers.APIVersion != 1 || source.Type != "prometheus" || provider.Type != "file" {
		t.Errorf("got %+v and %+v, want version 1 of a Prometheus and of files", source, provider)
	}
	// Exemplars of ours name the run in this label; the rest is Grafana's.
	if e := source.JSONData.Exemplars[0]; e.Name != "run_id" || e.URL != "$INFERBEAT_URL/ui/runs/$${__value.raw}" {
		t.Errorf("exemplars lead to %q by %q", e.URL, e.Name)
	}
	if provider.AllowUIUpdates {
		t.Error("boards may be edited in the browser, where an edit is lost")
	}
	manual, err := os.ReadFile(filepath.Join(grafanaFolder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"--output-dir " + provider.Options.Path, "--datasource " + source.UID, "PROMETHEUS_URL=http", "INFERBEAT_URL=http"} {
		if !strings.Contains(string(manual), part) {
			t.Errorf("deploy/grafana/README.md does not say %q", part)
		}
	}
	if source.URL != "$PROMETHEUS_URL" {
		t.Errorf("the data source is at %q, want it from the environment", source.URL)
	}
}
