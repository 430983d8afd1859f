package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAlertsAreTheCheckedInOnes(t *testing.T) {
	for _, tt := range []struct{ format, file, checkedIn string }{
		{"prometheus", "inferbeat.yml", "../../alerts/rules/inferbeat.yml"},
		{"prometheusrule", "prometheusrule.yaml", "../../deploy/kubernetes/prometheusrule.yaml"},
		{"alertmanager", "alertmanager.yml", "../../deploy/alertmanager/alertmanager.yml"},
	} {
		want, err := os.ReadFile(tt.checkedIn)
		if err != nil {
			t.Fatal(err)
		}
		got := call(t.Context(), nil, "alerts", "--format", tt.format)
		if got.code != exitPass || got.stdout != string(want) {
			t.Errorf("alerts --format %s: status %d, %s; want what is in %s", tt.format, got.code, got.stderr, tt.checkedIn)
		}
		dir := filepath.Join(t.TempDir(), "made")
		got = call(t.Context(), nil, "alerts", "--format", tt.format, "--output-dir", dir)
		written, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil || got.code != exitPass || got.stdout != "" || string(written) != string(want) {
			t.Errorf("alerts --format %s --output-dir: status %d, %v, %q; want %s as in %s", tt.format, got.code, err, got.stdout, tt.file, tt.checkedIn)
		}
	}
}

func TestAlertsFollowTheirOptions(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string // lines of the output
	}{
		{"--severity critical=page,warning=ticket", []string{
			`severity: '{{ if eq $labels.target_env "production" }}page{{ else }}ticket{{ end }}'`, "severity: ticket", "severity: page", "severity: info",
		}},
		{"--label team=inference --label site=fra", []string{"team: inference", "site: fra"}},
		{"--runbook-base-url http://h:9799/runbooks/", []string{"runbook_url: http://h:9799/runbooks/InferbeatPoolDown.md"}},
		{"--dashboard-base-url https://g.example", []string{
			`dashboard_url: https://g.example/d/inferbeat-target?var-target={{ $labels.target | urlQueryEscape }}&var-probe={{ $labels.probe | urlQueryEscape }}`,
		}},
		{"--faster 60", []string{"interval: 1s", "for: 10s", "expr: min by (job) (time() - inferbeat_scheduler_last_tick_timestamp_seconds) < 2",
			"expr: sum without (instance, pod, node, target, model, result) (increase(inferbeat_slo_events_total[1h12m]))",
			"- record: pool_probe_slo:inferbeat_slo_events:increase3d"}},
		{"--format prometheusrule --namespace monitoring --manifest-label release=kps", []string{"namespace: monitoring", "release: kps", "app.kubernetes.io/name: inferbeat"}},
		{"--format alertmanager --severity critical=page --webhook pager=http://127.0.0.1:9/p,deadman=http://127.0.0.1:9/d", []string{
			`- matchers: [alertname=~"Inferbeat.+", severity="page"]`, "- url: http://127.0.0.1:9/p", "send_resolved: false",
		}},
	} {
		got := call(t.Context(), nil, append([]string{"alerts"}, strings.Fields(tt.args)...)...)
		if got.code != exitPass {
			t.Errorf("alerts %s: status %d, %s", tt.args, got.code, got.stderr)
			continue
		}
		lines := map[string]bool{}
		for line := range strings.Lines(got.stdout) {
			lines[strings.TrimSpace(line)] = true
		}
		for _, want := range tt.want {
			if !lines[want] {
				t.Errorf("alerts %s prints no line %q", tt.args, want)
			}
		}
	}
}

func TestAlertsRefuseNonsense(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--format jsonnet", `inferbeat alerts: --format: "jsonnet" is none of prometheus, prometheusrule and alertmanager`},
		{"--severity page=critical", `inferbeat alerts: print rules: severity "page": want one of [critical warning info none]`},
		{"--severity critical=warning", `inferbeat alerts: print rules: severity warning=warning: critical has the same word, and no route could tell them apart`},
		{"--severity info=a{b", `inferbeat alerts: print rules: severity info="a{b": want a plain word`},
		{"--label target=x", `inferbeat alerts: print rules: label "target": the alerts have it already`},
		{"--label a-b=x", `inferbeat alerts: print rules: label "a-b": want letters, digits and underscores, no digit first, no double underscore first`},
		{"--label team=", `inferbeat alerts: print rules: label team="": want a plain text`},
		{"--runbook-base-url wiki/runbooks", `inferbeat alerts: print rules: runbook base URL "wiki/runbooks": want http or https, a host and perhaps a path`},
		{"--faster 0.5", `inferbeat alerts: print rules: faster 0.5: want 1 to 60`},
		{"--namespace x", `inferbeat alerts: --namespace: has no effect with --format prometheus`},
		{"--format alertmanager --label a=b", `inferbeat alerts: --label: has no effect with --format alertmanager`},
		{"--format alertmanager --webhook pagr=http://h/x", `inferbeat alerts: print Alertmanager configuration: receiver "pagr": want one of [default pager deadman blackhole]`},
		{"--format alertmanager --webhook pager=h/x", `inferbeat alerts: print Alertmanager configuration: webhook of pager "h/x": want http or https, a host and perhaps a path`},
		{"--output-dir alerts_test.go/rules", `inferbeat alerts: write alerts: mkdir alerts_test.go: not a directory`},
	} {
		got := call(t.Context(), nil, append([]string{"alerts"}, strings.Fields(tt.args)...)...)
		if got.code != exitUsage || strings.TrimSpace(got.stderr) != tt.want || got.stdout != "" {
			t.Errorf("alerts %s: status %d, %q, printed %d bytes; want status 2 and %q", tt.args, got.code, strings.TrimSpace(got.stderr), len(got.stdout), tt.want)
		}
	}
}
