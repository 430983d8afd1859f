package alerts

import (
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

type labelSet = map[string]string

var matcherForm = regexp.MustCompile(`^(\w+)(=~?)"(.*)"$`)

// matches reports whether an alert has what every matcher asks for.
func matches(t *testing.T, matchers []string, alert labelSet) bool {
	t.Helper()
	for _, m := range matchers {
		part := matcherForm.FindStringSubmatch(m)
		if part == nil {
			t.Fatalf("matcher %s is of no form that this test knows", m)
		}
		value, want := alert[part[1]], part[3]
		if part[2] == "=" && value != want || part[2] == "=~" && !regexp.MustCompile("^(?:"+want+")$").MatchString(value) {
			return false
		}
	}
	return true
}

// inhibits is Alertmanager's rule: the labels of equal are the same on both sides, a
// missing one like an empty one, and an alert that could be either side is no source
// for others that could.
func inhibits(t *testing.T, rules []inhibit, source, target labelSet) bool {
	return slices.ContainsFunc(rules, func(r inhibit) bool {
		if !matches(t, r.Source, source) || !matches(t, r.Target, target) || matches(t, r.Source, target) && matches(t, r.Target, source) {
			return false
		}
		return !slices.ContainsFunc(r.Equal, func(name string) bool { return source[name] != target[name] })
	})
}

func TestInhibitions(t *testing.T) {
	var printed struct {
		Inhibit []inhibit `yaml:"inhibit_rules"`
	}
	options := Options{Severities: map[Severity]string{Critical: "page", Warning: "ticket"}}
	text, err := Alertmanager(options, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &printed); err != nil {
		t.Fatal(err)
	}
	// An alert of production, with further labels; an empty one takes a label away.
	alert := func(name string, pairs ...string) labelSet {
		i := slices.IndexFunc(allRules(), func(r Rule) bool { return r.Alert == name })
		if i < 0 {
			t.Fatalf("there is no alert %s", name)
		}
		r := allRules()[i]
		if r.Severity == ByEnvironment {
			r.Severity = Critical
		}
		out := labelSet{"alertname": name, "category": string(r.Category), "severity": options.word(r.Severity),
			"job": "inferbeat", "pool": "p", "target_env": "production", "probe": "canary"}
		for i := 0; i < len(pairs); i += 2 {
			if out[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
				delete(out, pairs[i])
			}
		}
		return out
	}
	daemon := func(name string, pairs ...string) labelSet {
		return alert(name, append([]string{"pool", "", "target_env", "", "probe", ""}, pairs...)...)
	}
	down, burn := alert("InferbeatPoolDown"), alert("InferbeatSLOBudgetBurnFast", "slo", "ttft")
	failing := alert("InferbeatTargetFailing", "target", "a")
	slow := alert("InferbeatP99LatencyHigh", "target", "a", "signal", "ttft", "stat", "p99")
	critical := alert("InferbeatP99LatencyCritical", "target", "a", "signal", "ttft", "stat", "p99")
	for _, test := range []struct {
		name           string
		source, target labelSet
		want           bool
	}{
		{"a pool that is down and its burn", down, burn, true},
		{"a pool that is down and its target", down, failing, true},
		{"a pool that is down and its silence", down, alert("InferbeatProbeStale", "target", "a"), true},
		{"a burn and a pool that is down", burn, down, false},
		{"another pool", down, alert("InferbeatTargetFailing", "target", "a", "pool", "q"), false},
		{"another probe", down, alert("InferbeatSLOBudgetBurnFast", "slo", "ttft", "probe", "other"), false},
		{"staging of the same pool", alert("InferbeatPoolDown", "target_env", "staging", "severity", "ticket"), burn, false},
		{"another cluster of the same names", alert("InferbeatPoolDown", "cluster", "us"), alert("InferbeatTargetFailing", "target", "a", "cluster", "eu"), false},
		{"the same cluster", alert("InferbeatPoolDown", "cluster", "us"), alert("InferbeatTargetFailing", "target", "a", "cluster", "us"), true},
		{"a critical p99 and its warning", critical, slow, true},
		{"a critical p99 and another signal's", critical, alert("InferbeatP99LatencyHigh", "target", "a", "signal", "tpot", "stat", "p99"), false},
		{"a warning and its critical p99", slow, critical, false},
		{"a fast burn and a slow one", burn, alert("InferbeatSLOBudgetBurnSlow", "slo", "ttft"), true},
		{"a fast burn and another objective's", burn, alert("InferbeatSLOBudgetBurnSlow", "slo", "e2e"), false},
		{"a fast burn outside production and its slow one", alert("InferbeatSLOBudgetBurnFast", "slo", "ttft", "severity", "ticket"), alert("InferbeatSLOBudgetBurnSlow", "slo", "ttft"), true},
		{"a target that fails and its latency", failing, slow, true},
		{"a target that fails and another's latency", failing, alert("InferbeatP99LatencyHigh", "target", "b", "signal", "ttft", "stat", "p99"), false},
		{"a target that fails and its pool's burn", failing, burn, false},
		{"a wrong answer and the failure that it is", alert("InferbeatAnswerWrong", "target", "a"), failing, true},
		{"a clock that is off and a latency", daemon("InferbeatSelfTestFailing", "instance", "i"), slow, true},
		{"a clock that is off and a night", daemon("InferbeatSelfTestFailing", "instance", "i"), alert("InferbeatRegression", "target", "a", "metric", "tpot_p50"), true},
		{"a clock that is off and a pool that is down", daemon("InferbeatSelfTestFailing", "instance", "i"), down, false},
		{"a clock that is off and a burn", daemon("InferbeatClientSaturated", "instance", "i"), burn, false},
		{"a clock of another job", daemon("InferbeatSelfTestFailing", "instance", "i", "job", "other"), slow, false},
		{"nobody there and one of them down", daemon("InferbeatAbsent", "job", ""), daemon("InferbeatDown", "instance", "i"), true},
		{"nobody there in another cluster", daemon("InferbeatAbsent", "job", "", "cluster", "us"), daemon("InferbeatDown", "instance", "i", "cluster", "eu"), false},
		{"a daemon down and its probes", daemon("InferbeatDown", "instance", "i"), alert("InferbeatProbeStale", "target", "a"), true},
		{"a daemon down and a pool", daemon("InferbeatDown", "instance", "i"), down, false},
		{"no targets and targets dropped", daemon("InferbeatNoTargets"), daemon("InferbeatTargetsDropped"), true},
		{"a tail of 5 and of 4", alert("InferbeatTailRatioHigh", "target", "a", "signal", "ttft"), alert("InferbeatTailRatioElevated", "target", "a", "signal", "ttft"), true},
		{"a queue of 50 and of 10", alert("InferbeatServerQueueOverload", "target", "a"), alert("InferbeatServerQueueElevated", "target", "a"), true},
		{"the heartbeat and anything", daemon("InferbeatHeartbeat"), slow, false},
		{"anything and the heartbeat", daemon("InferbeatAbsent"), daemon("InferbeatHeartbeat"), false},
	} {
		if got := inhibits(t, printed.Inhibit, test.source, test.target); got != test.want {
			t.Errorf("%s: inhibited %v, want %v", test.name, got, test.want)
		}
	}
}
