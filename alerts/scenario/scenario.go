package scenario

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"go.yaml.in/yaml/v3"
)

// Scenario is one story, in promtool's words.
type Scenario struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Input    []Series       `yaml:"input_series"`
	Exprs    []Expectation  `yaml:"promql_expr_test"`
	Alerts   []AlertTest    `yaml:"alert_rule_test"`
	// Every is the evaluation interval of the scenario's file.
	Every time.Duration `yaml:"-"`
}

// Series are samples at the scenario's interval, in promtool's notation.
type Series struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// Expectation is what an expression gives at a time.
type Expectation struct {
	Expr    string         `yaml:"expr"`
	At      model.Duration `yaml:"eval_time"`
	Samples []struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	} `yaml:"exp_samples"`
}

// AlertTest is which alerts of a name fire at a time.
type AlertTest struct {
	At        model.Duration `yaml:"eval_time"`
	Alert     string         `yaml:"alertname"`
	Instances []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

// Load reads the scenarios of a file of promtool's unit tests.
func Load(path string) ([]Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load scenarios: %w", err)
	}
	var file struct {
		Every model.Duration `yaml:"evaluation_interval"`
		Tests []Scenario     `yaml:"tests"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("load scenarios of %s: %w", path, err)
	}
	for i := range file.Tests {
		file.Tests[i].Every = time.Duration(file.Every)
	}
	return file.Tests, nil
}

// Asks lists the alerts and series that the scenario's expectations are about.
func (s *Scenario) Asks() []string {
	var names []string
	for _, e := range s.Exprs {
		names = append(names, e.asks()...)
	}
	for _, a := range s.Alerts {
		names = append(names, a.Alert)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (e *Expectation) asks() []string {
	expr, err := NewParser().ParseExpr(e.Expr)
	if err != nil {
		return nil // Play says so
	}
	return append(alertNames(expr), Reads(expr)...)
}

// input reads the input series.
func (s *Scenario) input() (memory, error) {
	out := memory{}
	for _, in := range s.Input {
		metric, values, err := NewParser().ParseSeriesDesc(in.Series + " " + in.Values)
		if err != nil {
			return nil, fmt.Errorf("parse series %s %s: %w", in.Series, in.Values, err)
		}
		series := promql.Series{Metric: metric}
		for i, v := range values {
			if !v.Omitted {
				at := int64(i) * time.Duration(s.Interval).Milliseconds()
				series.Floats = append(series.Floats, promql.FPoint{T: at, F: v.Value})
			}
		}
		name := metric.Get(model.MetricNameLabel)
		out[name] = append(out[name], series)
	}
	return out, nil
}

// end is the time of the last expectation.
func (s *Scenario) end() (last time.Duration) {
	for _, e := range s.Exprs {
		last = max(last, time.Duration(e.At))
	}
	for _, a := range s.Alerts {
		last = max(last, time.Duration(a.At))
	}
	return last
}
