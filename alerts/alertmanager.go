package alerts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The configuration file of Alertmanager, as far as it is used.
type (
	alertmanager struct {
		Route     route      `yaml:"route"`
		Inhibit   []inhibit  `yaml:"inhibit_rules"`
		Receivers []receiver `yaml:"receivers"`
	}
	route struct {
		Matchers       []string `yaml:"matchers,flow,omitempty"`
		Receiver       string   `yaml:"receiver"`
		GroupBy        []string `yaml:"group_by,flow,omitempty"`
		GroupWait      string   `yaml:"group_wait,omitempty"`
		GroupInterval  string   `yaml:"group_interval,omitempty"`
		RepeatInterval string   `yaml:"repeat_interval,omitempty"`
		Routes         []route  `yaml:"routes,omitempty"`
	}
	inhibit struct {
		Source []string `yaml:"source_matchers,flow"`
		Target []string `yaml:"target_matchers,flow"`
		Equal  []string `yaml:"equal,flow,omitempty"`
	}
	receiver struct {
		Name     string    `yaml:"name"`
		Webhooks []webhook `yaml:"webhook_configs,omitempty"`
	}
	webhook struct {
		URL          string `yaml:"url"`
		SendResolved bool   `yaml:"send_resolved"`
	}
)

// Receivers are the four that the routing needs, by what is sent to them.
var Receivers = []string{"default", "pager", "deadman", "blackhole"}

// Alertmanager prints the routing and the inhibitions: what explains another alert
// silences it. Receivers are empty, except for those whose webhook is given, by the
// names of [Receivers].
func Alertmanager(o Options, webhooks map[string]string) ([]byte, error) {
	if err := errors.Join(o.check(), checkWebhooks(webhooks)); err != nil {
		return nil, fmt.Errorf("print Alertmanager configuration: %w", err)
	}
	config := alertmanager{Route: o.route(), Inhibit: o.inhibitions()}
	for _, name := range Receivers {
		r := receiver{Name: name}
		if address := webhooks[name]; address != "" {
			// The dead man's switch must not take a resolved heartbeat for a beat.
			r.Webhooks = []webhook{{URL: address, SendResolved: name != "deadman"}}
		}
		config.Receivers = append(config.Receivers, r)
	}
	return print(written, config)
}

func checkWebhooks(webhooks map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(webhooks)) {
		if !slices.Contains(Receivers, name) {
			errs = append(errs, fmt.Errorf("receiver %q: want one of %v", name, Receivers))
		}
		errs = append(errs, checkURL("webhook of "+name, webhooks[name]))
	}
	return errors.Join(errs...)
}

func (o Options) route() route {
	t := o.timing()
	w := t.window
	ours := `alertname=~"Inferbeat.+"`
	severity := func(s Severity) string { return `severity="` + o.word(s) + `"` }
	return route{
		Receiver: "default",
		// By pool, so that ten replicas of a pool are one message.
		GroupBy:   []string{"alertname", "pool", "target_env", "probe"},
		GroupWait: w(30 * time.Second), GroupInterval: w(5 * time.Minute), RepeatInterval: w(12 * time.Hour),
		Routes: []route{
			{Matchers: []string{`alertname="InferbeatHeartbeat"`}, Receiver: "deadman",
				GroupWait: "0s", GroupInterval: w(time.Minute), RepeatInterval: w(2 * time.Minute)},
			{Matchers: []string{ours, severity(Critical)}, Receiver: "pager", RepeatInterval: w(2 * time.Hour)},
			{Matchers: []string{ours, severity(Info)}, Receiver: "blackhole"},
		},
	}
}

// siteLabel is what most sites with several clusters call them. What happens in one
// explains nothing in another that uses the same names.
const siteLabel = "cluster"

// inhibitions are the chains of cause and effect. A label that both sides lack counts
// as equal. A pool may have targets of several environments, which are down or slow on
// their own: a staging that is down must not silence the page of production.
func (o Options) inhibitions() []inhibit {
	const measured = `category=~"latency|saturation|regression|capacity"`
	severity := func(s Severity) string { return `severity="` + o.word(s) + `"` }
	ours := `alertname=~"Inferbeat.+"`
	rules := []inhibit{
		// The graver of two alerts about one thing is enough.
		{Source: []string{ours, severity(Critical)}, Target: []string{ours, severity(Warning)},
			Equal: []string{"pool", "target_env", "target", "probe", "slo", "signal", "stat", "category"}},
		{Source: []string{`alertname="InferbeatTailRatioHigh"`}, Target: []string{`alertname="InferbeatTailRatioElevated"`},
			Equal: []string{"target", "probe", "signal"}},
		{Source: []string{`alertname="InferbeatServerQueueOverload"`}, Target: []string{`alertname="InferbeatServerQueueElevated"`},
			Equal: []string{"target", "probe"}},
		{Source: []string{`alertname="InferbeatSLOBudgetBurnFast"`}, Target: []string{`alertname="InferbeatSLOBudgetBurnSlow"`},
			Equal: []string{"pool", "target_env", "probe", "slo"}},
		// A target that does not answer has no speed, and a wrong answer is why it fails.
		{Source: []string{`alertname="InferbeatTargetFailing"`}, Target: []string{measured}, Equal: []string{"target"}},
		{Source: []string{`alertname="InferbeatTargetFailing"`}, Target: []string{`alertname="InferbeatProbeStale"`}, Equal: []string{"target", "probe"}},
		{Source: []string{`alertname="InferbeatAnswerWrong"`}, Target: []string{`alertname="InferbeatTargetFailing"`}, Equal: []string{"target", "probe"}},
		// A pool that is down burns its budget and fails target by target.
		{Source: []string{`alertname="InferbeatPoolDown"`}, Target: []string{`alertname=~"InferbeatTargetFailing|InferbeatSLOBudgetBurn.+|InferbeatProbeStale"`},
			Equal: []string{"pool", "target_env", "probe"}},
		// What a prober measures that cannot keep its own times is no evidence. Promises and
		// availability are left out: to be asked and not answered needs no clock.
		{Source: []string{`alertname=~"InferbeatClientSaturated|InferbeatSelfTestFailing"`}, Target: []string{measured}, Equal: []string{"job"}},
		{Source: []string{`alertname="InferbeatNoTargets"`}, Target: []string{`alertname="InferbeatTargetsDropped"`}, Equal: []string{"job"}},
		// Nobody who does not run has probed.
		{Source: []string{`alertname=~"InferbeatDown|InferbeatStalled"`}, Target: []string{`alertname=~"InferbeatProbeStale|InferbeatTargetsDropped|InferbeatNoTargets|InferbeatSelfTestStale"`},
			Equal: []string{"job"}},
		{Source: []string{`alertname="InferbeatAbsent"`}, Target: []string{`alertname=~"InferbeatDown|InferbeatStalled|InferbeatProbeStale|InferbeatTargetsDropped|InferbeatNoTargets"`}},
	}
	for i := range rules {
		rules[i].Equal = append(rules[i].Equal, siteLabel)
	}
	return rules
}
