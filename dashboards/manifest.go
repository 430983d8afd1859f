package dashboards

import (
	"bytes"
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"
)

// The manifests, as far as they are used.
type (
	metadata struct {
		Name        string            `yaml:"name"`
		Namespace   string            `yaml:"namespace,omitempty"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
	configMapManifest struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   metadata          `yaml:"metadata"`
		Data       map[string]string `yaml:"data"`
	}
	operatorResource struct {
		APIVersion string       `yaml:"apiVersion"`
		Kind       string       `yaml:"kind"`
		Metadata   metadata     `yaml:"metadata"`
		Spec       operatorSpec `yaml:"spec"`
	}
	operatorSpec struct {
		AllowCrossNamespaceImport bool     `yaml:"allowCrossNamespaceImport"`
		InstanceSelector          selector `yaml:"instanceSelector"`
		Folder                    string   `yaml:"folder"`
		JSON                      string   `yaml:"json"`
	}
	selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
)

const defaultFolder = "inferbeat"

// sidecarLabel is what the sidecar of Grafana's chart looks for unless it is told
// otherwise.
const sidecarLabel = "grafana_dashboard"

const written = "# Written by inferbeat dashboards; change its options, not this file.\n"

// configMap holds one board each: all of them together are more than the 256 KiB
// that kubectl apply notes beside an object.
func configMap(uid string, text []byte, o Options) ([]byte, error) {
	m := o.metadata(uid)
	if _, chosen := m.Labels[sidecarLabel]; !chosen {
		m.Labels[sidecarLabel] = "1"
	}
	m.Annotations = map[string]string{"grafana_folder": o.folder()}
	return manifest(configMapManifest{APIVersion: "v1", Kind: "ConfigMap", Metadata: m, Data: map[string]string{uid + ".json": string(text)}})
}

func operatorManifest(uid string, text []byte, o Options) ([]byte, error) {
	instances := o.Instances
	if len(instances) == 0 {
		instances = map[string]string{"dashboards": "grafana"}
	}
	return manifest(operatorResource{
		APIVersion: "grafana.integreatly.org/v1beta1", Kind: "GrafanaDashboard", Metadata: o.metadata(uid),
		// Grafana seldom lives where inferbeat does.
		Spec: operatorSpec{AllowCrossNamespaceImport: true, InstanceSelector: selector{MatchLabels: instances}, Folder: o.folder(), JSON: string(text)},
	})
}

func (o Options) metadata(name string) metadata {
	labels := map[string]string{"app.kubernetes.io/name": "inferbeat"}
	maps.Copy(labels, o.Labels)
	return metadata{Name: name, Namespace: o.Namespace, Labels: labels}
}

func (o Options) folder() string {
	if o.Folder == "" {
		return defaultFolder
	}
	return o.Folder
}

func manifest(v any) ([]byte, error) {
	out := bytes.NewBufferString(written)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return out.Bytes(), nil
}
