package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
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

// Asks lists the alerts that the scenario's expectations are about.
func (s *Scenario) Asks() []string {
	var names []string
	for _, e := range s.Exprs {
		expr, err := NewParser().ParseExpr(e.Expr)
		if err == nil { // else Run says so
			names = append(names, alertNames(expr)...)
			names = append(names, Reads(expr)...)
		}
	}
	for _, a := range s.Alerts {
		names = append(names, a.Alert)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// database opens a database that takes samples of any time of a scenario in any order
// of series. It has no log, because nobody comes back to it.
func database() (db *tsdb.DB, close func() error, err error) {
	dir, err := os.MkdirTemp("", "scenario")
	if err != nil {
		return nil, nil, fmt.Errorf("make folder of the database: %w", err)
	}
	options := tsdb.DefaultOptions()
	options.WALSegmentSize = -1
	options.MinBlockDuration = (60 * 24 * time.Hour).Milliseconds()
	options.MaxBlockDuration = options.MinBlockDuration
	options.RetentionDuration = 0
	db, err = tsdb.Open(dir, nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open database: %w", err), os.RemoveAll(dir))
	}
	db.DisableCompactions()
	return db, func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }, nil
}

// fill appends the input series.
func (s *Scenario) fill(db storage.AppendableV2) error {
	app := db.AppenderV2(context.Background())
	for _, in := range s.Input {
		metric, values, err := NewParser().ParseSeriesDesc(in.Series + " " + in.Values)
		if err != nil {
			return fmt.Errorf("parse series %s %s: %w", in.Series, in.Values, err)
		}
		for i, v := range values {
			if v.Omitted {
				continue
			}
			at := int64(i) * time.Duration(s.Interval).Milliseconds()
			if _, err := app.Append(0, metric, 0, at, v.Value, nil, nil, storage.AppendV2Options{}); err != nil {
				return fmt.Errorf("append sample of %s: %w", in.Series, err)
			}
		}
	}
	return app.Commit()
}

// Run plays the scenario and returns what was not as expected. An error is a scenario
// or a rule that cannot be evaluated.
func (s *Scenario) Run(groups []Group) (failures []string, err error) {
	db, closeDB, err := database()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	if err := s.fill(db); err != nil {
		return nil, err
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, Parser: NewParser(),
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	defer engine.Close()
	p := &play{scenario: s, query: rules.EngineQueryFunc(engine, db), groups: prepare(Needed(groups, s.Asks()), db, engine)}
	return p.run()
}

// prepare makes groups that Prometheus evaluates.
func prepare(groups []Group, db *tsdb.DB, engine *promql.Engine) []*rules.Group {
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: context.Background(), ExternalURL: &url.URL{}, AppendableV2: db, Queryable: db, QueryFunc: rules.EngineQueryFunc(engine, db),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Parser: NewParser(), GroupLoader: loader{groups},
	})
	loaded, _ := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, "rules")
	var out []*rules.Group
	for _, g := range groups {
		group := loaded[rules.GroupKey("rules", g.Name)]
		for _, r := range group.AlertingRules() {
			r.SetRestored(true) // there is nothing to restore, and before that no alert is recorded
		}
		out = append(out, group)
	}
	return out
}

// play is a scenario in progress.
type play struct {
	scenario *Scenario
	query    rules.QueryFunc
	groups   []*rules.Group
	failures []string
}

func (p *play) run() ([]string, error) {
	for at := time.Duration(0); at <= p.end(); at += p.scenario.Every {
		now := time.UnixMilli(at.Milliseconds()).UTC()
		for _, g := range p.groups {
			if at%max(g.Interval(), p.scenario.Every) != 0 {
				continue
			}
			g.Eval(context.Background(), now)
			for _, r := range g.Rules() {
				if err := r.LastError(); err != nil {
					return nil, fmt.Errorf("evaluate %s at %v: %w", r.Name(), at, err)
				}
			}
		}
		if err := p.check(at, now); err != nil {
			return nil, err
		}
	}
	return p.failures, nil
}

// end is the time of the last expectation.
func (p *play) end() (last time.Duration) {
	for _, e := range p.scenario.Exprs {
		last = max(last, time.Duration(e.At))
	}
	for _, a := range p.scenario.Alerts {
		last = max(last, time.Duration(a.At))
	}
	return last
}

func (p *play) fail(at time.Duration, format string, args ...any) {
	p.failures = append(p.failures, fmt.Sprintf("%s, at %v: ", p.scenario.Name, at)+fmt.Sprintf(format, args...))
}

func (p *play) check(at time.Duration, now time.Time) error {
	for _, e := range p.scenario.Exprs {
		if time.Duration(e.At) != at {
			continue
		}
		got, err := p.query(context.Background(), e.Expr, now)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", e.Expr, err)
		}
		if err := p.compare(at, e, got); err != nil {
			return err
		}
	}
	for _, a := range p.scenario.Alerts {
		if time.Duration(a.At) == at {
			p.compareAlerts(at, a)
		}
	}
	p.checkTexts(at)
	return nil
}

func (p *play) compare(at time.Duration, e Expectation, got promql.Vector) error {
	want := map[string]float64{}
	for _, sample := range e.Samples {
		metric, err := NewParser().ParseMetric(sample.Labels)
		if err != nil {
			return fmt.Errorf("parse expected labels %s: %w", sample.Labels, err)
		}
		want[metric.String()] = sample.Value
	}
	for _, sample := range got {
		value, ok := want[sample.Metric.String()]
		if !ok || value != sample.F && !(math.IsNaN(value) && math.IsNaN(sample.F)) {
			p.fail(at, "%s gives %v %v, want %v, listed: %v", e.Expr, sample.Metric, sample.F, value, ok)
		}
		delete(want, sample.Metric.String())
	}
	for metric, value := range want {
		p.fail(at, "%s gives no %s, want %v", e.Expr, metric, value)
	}
	return nil
}

// firing lists the firing alerts of a name, or of all with an empty one.
func (p *play) firing(name string) []*rules.Alert {
	var out []*rules.Alert
	for _, g := range p.groups {
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				if a.State == rules.StateFiring && (name == "" || r.Name() == name) {
					out = append(out, a)
				}
			}
		}
	}
	return out
}

func (p *play) compareAlerts(at time.Duration, test AlertTest) {
	var got, want []string
	for _, a := range p.firing(test.Alert) {
		got = append(got, a.Labels.String()+" "+a.Annotations.String())
	}
	for _, i := range test.Instances {
		with := labels.NewBuilder(labels.FromMap(i.Labels)).Set(labels.AlertName, test.Alert).Labels()
		want = append(want, with.String()+" "+labels.FromMap(i.Annotations).String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.fail(at, "alerts %s:\n got %s\nwant %s", test.Alert, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// checkTexts fails for a text that names a label which the alert does not have.
func (p *play) checkTexts(at time.Duration) {
	for _, a := range p.firing("") {
		a.Annotations.Range(func(l labels.Label) {
			if strings.Contains(l.Value, "<no value>") || strings.Contains(l.Value, "error expanding template") ||
				strings.Contains(l.Value, "()") || strings.Contains(l.Value, "  ") {
				p.fail(at, "%s %s reads %q", a.Labels.Get(labels.AlertName), l.Name, l.Value)
			}
		})
	}
}
