package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// rolloutTemplate holds every field of an AnalysisTemplate or a MetricTemplate that the
// examples may have; another one is a mistake.
type rolloutTemplate struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		Args []struct {
			Name  string  `yaml:"name"`
			Value *string `yaml:"value"`
		} `yaml:"args"`
		Metrics []struct {
			Name                    string `yaml:"name"`
			InitialDelay            string `yaml:"initialDelay"`
			Interval                string `yaml:"interval"`
			ConsecutiveSuccessLimit int    `yaml:"consecutiveSuccessLimit"`
			FailureLimit            *int   `yaml:"failureLimit"`
			InconclusiveLimit       int    `yaml:"inconclusiveLimit"`
			SuccessCondition        string `yaml:"successCondition"`
			FailureCondition        string `yaml:"failureCondition"`
			Provider                struct {
				Prometheus struct {
					Address string `yaml:"address"`
					Query   string `yaml:"query"`
				} `yaml:"prometheus"`
				Job struct {
					Spec struct {
						BackoffLimit *int `yaml:"backoffLimit"`
						Template     struct {
							Spec struct {
								RestartPolicy string `yaml:"restartPolicy"`
								Containers    []struct {
									Name  string   `yaml:"name"`
									Image string   `yaml:"image"`
									Args  []string `yaml:"args"`
								} `yaml:"containers"`
							} `yaml:"spec"`
						} `yaml:"template"`
					} `yaml:"spec"`
				} `yaml:"job"`
			} `yaml:"provider"`
		} `yaml:"metrics"`
		Provider struct { // Flagger's
			Type    string `yaml:"type"`
			Address string `yaml:"address"`
		} `yaml:"provider"`
		Query string `yaml:"query"`
	} `yaml:"spec"`
}

func readTemplates(t *testing.T, file string) (out []rolloutTemplate) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		d.KnownFields(true)
		var one rolloutTemplate
		if err := d.Decode(&one); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, one)
	}
}

// checkQuery fills the placeholders in and holds the query against the catalogue.
func checkQuery(t *testing.T, query string) {
	t.Helper()
	query = regexp.MustCompile(`\{\{[^}]*(age)[^}]*\}\}`).ReplaceAllString(query, "3600")
	query = regexp.MustCompile(`\{\{[^}]*\}\}`).ReplaceAllString(query, "release-gate")
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, query)
	}
	var names []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
			for _, m := range v.LabelMatchers {
				if m.Name == catalog.LabelMetric && m.Value != "overall" {
					t.Errorf("metric %q is not the answer of the whole", m.Value)
				}
			}
		}
		return nil
	})
	if want := []string{catalog.ComparisonVerdict, catalog.ComparisonTimestamp}; !slices.Equal(names, want) {
		t.Errorf("the query reads %v, want %v", names, want)
	}
}

// holds evaluates a condition on one number.
func holds(t *testing.T, condition string, result int) bool {
	t.Helper()
	var operator string
	var bound int
	if _, err := fmt.Sscanf(strings.TrimPrefix(condition, "result[0] "), "%s %d", &operator, &bound); err != nil {
		t.Fatalf("condition %q: %v", condition, err)
	}
	switch operator {
	case "<=":
		return result <= bound
	case "==":
		return result == bound
	}
	t.Fatalf("condition %q has an operator that this test does not know", condition)
	return false
}

func TestArgoRolloutsTemplates(t *testing.T) {
	templates := readTemplates(t, "../../deploy/kubernetes/gate-argo-rollouts.yaml")
	if len(templates) != 2 || templates[0].Kind != "AnalysisTemplate" || templates[1].APIVersion != "argoproj.io/v1alpha1" {
		t.Fatalf("%d templates, first of kind %s; want two AnalysisTemplates", len(templates), templates[0].Kind)
	}
	metric := templates[0].Spec.Metrics[0]
	checkQuery(t, metric.Provider.Prometheus.Query)
	for code, want := range map[int]string{-1: "success", 0: "success", 1: "inconclusive", 2: "failure", 3: "inconclusive"} {
		got := "inconclusive"
		switch success, failure := holds(t, metric.SuccessCondition, code), holds(t, metric.FailureCondition, code); {
		case success && failure:
			got = "both"
		case success:
			got = "success"
		case failure:
			got = "failure"
		}
		if got != want {
			t.Errorf("verdict %d is %s, want %s", code, got, want)
		}
	}
	job := templates[1].Spec.Metrics[0].Provider.Job.Spec
	args := job.Template.Spec.Containers[0].Args
	for i, a := range args {
		args[i] = strings.NewReplacer("{{args.candidate}}", "http://b:1", "{{args.reference}}", "http://a:1").Replace(a)
	}
	if args[0] != "gate" || *job.BackoffLimit != 0 {
		t.Errorf("the job runs %q up to %d times, want gate and once", args[0], 1+*job.BackoffLimit)
	}
	spec, err := resolveGateArgs(args[1:]...)
	if err != nil || spec.Requests != 200 || spec.Arrivals.Rate != 4 {
		t.Errorf("%d requests at %v: %v; want 200 at 4", spec.Requests, spec.Arrivals.Rate, err)
	}
}

func TestFlaggerTemplate(t *testing.T) {
	templates := readTemplates(t, "../../deploy/kubernetes/gate-flagger.yaml")
	if len(templates) != 1 || templates[0].Kind != "MetricTemplate" || templates[0].Spec.Provider.Type != "prometheus" {
		t.Fatalf("got %+v, want one MetricTemplate of prometheus", templates)
	}
	checkQuery(t, templates[0].Spec.Query)
}
