package alerts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Every file that the compose file mounts or builds is one that is shipped.
func TestComposeFileNamesWhatIsShipped(t *testing.T) {
	const folder = "../deploy/compose"
	text, err := os.ReadFile(filepath.Join(folder, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Build struct{ Context, Dockerfile string }
			Image string
			// Of the form source:destination[:mode]; a source without a dot is a named volume.
			Volumes []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) != 3 {
		t.Errorf("%d services, want inferbeat, prometheus and alertmanager", len(file.Services))
	}
	for name, s := range file.Services {
		if s.Build.Dockerfile != "" {
			if _, err := os.Stat(filepath.Join(folder, s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, named := file.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(folder, source)); err != nil {
				t.Errorf("%s mounts what is not shipped: %v", name, err)
			}
		}
	}
}
