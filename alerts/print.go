package alerts

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The file formats of Prometheus and its operator, as far as they are used.
type (
	ruleFile struct {
		Groups []ruleGroup `yaml:"groups"`
	}
	ruleGroup struct {
		Name     string `yaml:"name"`
		Interval string `yaml:"interval"`
		Rules    []rule `yaml:"rules"`
	}
	rule struct {
		Record      string            `yaml:"record,omitempty"`
		Alert       string            `yaml:"alert,omitempty"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		KeepFiring  string            `yaml:"keep_firing_for,omitempty"`
		Labels      map[string]string `yaml:"labels,omitempty"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
	manifest struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
		Spec       ruleFile `yaml:"spec"`
	}
	metadata struct {
		Name      string            `yaml:"name"`
		Namespace string            `yaml:"namespace,omitempty"`
		Labels    map[string]string `yaml:"labels"`
	}
)

const written = "# Written by inferbeat alerts; change its options, not this file.\n"

// Rules prints the rule file of Prometheus. The same options always give the same
// bytes.
func Rules(o Options) ([]byte, error) {
	file, err := o.ruleFile()
	if err != nil {
		return nil, fmt.Errorf("print rules: %w", err)
	}
	return print(written, file)
}

// PrometheusRule prints the rules as a manifest for the Prometheus operator.
func PrometheusRule(o Options) ([]byte, error) {
	file, err := o.ruleFile()
	if err != nil {
		return nil, fmt.Errorf("print PrometheusRule: %w", err)
	}
	labels := map[string]string{"app.kubernetes.io/name": "inferbeat"}
	for name, value := range o.ManifestLabels {
		labels[name] = value
	}
	return print(written, manifest{
		APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule",
		Metadata: metadata{Name: "inferbeat", Namespace: o.Namespace, Labels: labels}, Spec: file,
	})
}

func (o Options) ruleFile() (ruleFile, error) {
	if err := o.check(); err != nil {
		return ruleFile{}, err
	}
	var file ruleFile
	for _, g := range o.Groups() {
		out := ruleGroup{Name: g.Name, Interval: duration(g.Interval)}
		for _, r := range g.Rules {
			out.Rules = append(out.Rules, o.rule(r))
		}
		file.Groups = append(file.Groups, out)
	}
	return file, nil
}

func (o Options) rule(r Rule) rule {
	out := rule{Record: r.Record, Alert: r.Alert, Expr: r.Expr}
	if r.Alert == "" {
		return out
	}
	if r.For > 0 {
		out.For = duration(r.For)
	}
	if r.KeepFiring > 0 {
		out.KeepFiring = duration(r.KeepFiring)
	}
	out.Labels = map[string]string{"severity": o.severity(r.Severity), "category": string(r.Category)}
	for name, value := range o.Labels {
		out.Labels[name] = value
	}
	out.Annotations = map[string]string{
		"summary": r.Summary, "description": r.Description, "runbook_url": o.runbookURL(r.Alert),
	}
	if o.DashboardBaseURL != "" {
		out.Annotations["dashboard_url"] = o.dashboardURL(r.Board)
	}
	return out
}

func print(head string, value any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(head)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("print YAML: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("print YAML: %w", err)
	}
	return b.Bytes(), nil
}
