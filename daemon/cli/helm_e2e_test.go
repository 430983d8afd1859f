//go:build e2e

package cli

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/inferbeat/inferbeat/dashboards"
)

const chart = "../../deploy/helm/inferbeat"

// helm runs the program and returns what it prints.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program := os.Getenv("E2E_HELM")
	if program == "" {
		t.Fatal("set E2E_HELM to the program's path, as .ci/run does")
	}
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), program, args...)
	// Nothing of the user's own, and no cluster.
	command.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + os.DevNull}
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	return out.String(), errs.String(), err
}

func rendered(t *testing.T, release string, values ...string) map[string]any {
	t.Helper()
	text, problem, err := helm(t, append([]string{"template", release, chart, "--namespace", "llm"}, values...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, problem)
	}
	return manifests(t, "the chart", text)
}

func TestE2EHelmLint(t *testing.T) {
	if text, problem, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Errorf("%v: %s%s", err, text, problem)
	}
}

func names(all map[string]any) []string { return slices.Sorted(maps.Keys(all)) }

// As it comes, the chart needs nothing that Kubernetes does not have.
func TestE2EHelmDefault(t *testing.T) {
	want := []string{"ConfigMap inferbeat", "Role inferbeat", "RoleBinding inferbeat", "Service inferbeat", "ServiceAccount inferbeat", "StatefulSet inferbeat"}
	if got := names(rendered(t, "inferbeat")); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// With all its parts the chart is what kubectl installs, but for labels, the image
// and the configuration: neither may be changed without the other.
func TestE2EHelmIsTheSameInstallation(t *testing.T) {
	got, want := rendered(t, "inferbeat", "--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true,networkPolicy.enabled=true"), installed(t)
	checkInstallation(t, got)
	if diff := cmp.Diff(names(want), names(got)); diff != "" {
		t.Errorf("objects (-kubectl +helm):\n%s", diff)
	}
	same := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-kubectl +helm):\n%s", what, diff)
		}
	}
	sets := [2]*appsv1.StatefulSet{manifest[*appsv1.StatefulSet](t, want, "StatefulSet inferbeat"), manifest[*appsv1.StatefulSet](t, got, "StatefulSet inferbeat")}
	for _, set := range sets {
		set.Spec.Selector, set.Spec.Template.Labels = nil, nil
		set.Spec.Template.Spec.Containers[0].ImagePullPolicy = ""
	}
	same("the StatefulSet", sets[0].Spec, sets[1].Spec)
	services := [2]*corev1.Service{manifest[*corev1.Service](t, want, "Service inferbeat"), manifest[*corev1.Service](t, got, "Service inferbeat")}
	monitors := [2]*serviceMonitor{manifest[*serviceMonitor](t, want, "ServiceMonitor inferbeat"), manifest[*serviceMonitor](t, got, "ServiceMonitor inferbeat")}
	policies := [2]*networkingv1.NetworkPolicy{manifest[*networkingv1.NetworkPolicy](t, want, "NetworkPolicy inferbeat"), manifest[*networkingv1.NetworkPolicy](t, got, "NetworkPolicy inferbeat")}
	for i := range 2 {
		services[i].Spec.Selector, monitors[i].Spec.Selector.MatchLabels, policies[i].Spec.PodSelector.MatchLabels = nil, nil, nil
	}
	same("the Service", services[0].Spec, services[1].Spec)
	same("the ServiceMonitor", monitors[0].Spec, monitors[1].Spec)
	same("the NetworkPolicy", policies[0].Spec, policies[1].Spec)
	same("the Role", manifest[*rbacv1.Role](t, want, "Role inferbeat").Rules, manifest[*rbacv1.Role](t, got, "Role inferbeat").Rules)
	same("the PrometheusRule", manifest[*prometheusRule](t, want, "PrometheusRule inferbeat").Spec, manifest[*prometheusRule](t, got, "PrometheusRule inferbeat").Spec)
}

// The boards are those of the program.
func TestE2EHelmDashboards(t *testing.T) {
	all := rendered(t, "beat", "--set", "dashboards.enabled=true,dashboards.labels.team=llm,dashboards.pageURL=https://beat.example")
	boards, err := dashboards.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range boards {
		m := manifest[*corev1.ConfigMap](t, all, "ConfigMap beat-"+b.UID+"-dashboard")
		want := strings.Replace(string(b.Model), "http://127.0.0.1:9799", "https://beat.example", 1)
		if diff := cmp.Diff(map[string]string{b.UID + ".json": want}, m.Data); diff != "" {
			t.Errorf("%s (-program +chart):\n%s", b.UID, diff)
		}
		if m.Labels["grafana_dashboard"] != "1" || m.Labels["team"] != "llm" || m.Annotations["grafana_folder"] != "inferbeat" {
			t.Errorf("%s has %v and %v", m.Name, m.Labels, m.Annotations)
		}
	}
	if want := 6 + len(boards); len(all) != want {
		t.Errorf("%d objects, want %d", len(all), want)
	}
}

// Every value that a site may set arrives.
func TestE2EHelmValues(t *testing.T) {
	const config = "# ours\ntargets: []\nmetrics:\n  max_series: 3000000 # a whole number\n"
	values := writeFile(t, "values.yaml", `
image: {repository: registry.example/inferbeat, tag: v7, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
extraArgs: [--embedded]
envFromSecrets: [llm-env]
shards: 3
existingSecret: llm-keys
persistence: {enabled: true, size: 20Gi, storageClassName: fast}
terminationGracePeriodSeconds: 90
podLabels: {team: llm}
podAnnotations: {note: "1"}
nodeSelector: {pool: cpu}
tolerations: [{key: cpu, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: high
service: {annotations: {a: b}}
serviceAccount: {name: prober, annotations: {c: d}}
rbac: {create: true, namespaces: [llm-a, llm-b]}
serviceMonitor: {enabled: true, labels: {release: kps}, interval: 60s, nativeHistograms: true}
prometheusRule: {enabled: true, labels: {release: kps}, runbookBaseURL: "https://beat.example/runbooks"}
`)
	all := rendered(t, "beat", "--values", values, "--set-file", "config="+writeFile(t, "inferbeat.yaml", config))
	if got := manifest[*corev1.ConfigMap](t, all, "ConfigMap beat-inferbeat").Data["inferbeat.yaml"]; got != config {
		t.Errorf("the configuration is %q, want %q", got, config)
	}
	set := manifest[*appsv1.StatefulSet](t, all, "StatefulSet beat-inferbeat")
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	if flags := parsed(t, serveCommand, container.Args); !flags.Changed("embedded") {
		t.Errorf("the pod calls %q", container.Args)
	}
	checkShards(t, set)
	if *set.Spec.Replicas != 3 {
		t.Errorf("%d pods, want 3", *set.Spec.Replicas)
	}
	claim := set.Spec.VolumeClaimTemplates[0].Spec
	for _, c := range []struct{ what, got, want string }{
		{"image", container.Image, "registry.example/inferbeat:v7"}, {"pull policy", string(container.ImagePullPolicy), "Always"},
		{"pull secret", pod.ImagePullSecrets[0].Name, "pull"}, {"environment", container.EnvFrom[0].SecretRef.Name, "llm-env"},
		{"secret", pod.Volumes[1].Secret.SecretName, "llm-keys"}, {"size", claim.Resources.Requests.Storage().String(), "20Gi"},
		{"storage class", *claim.StorageClassName, "fast"}, {"pod label", set.Spec.Template.Labels["team"], "llm"},
		{"annotation", set.Spec.Template.Annotations["note"], "1"}, {"node", pod.NodeSelector["pool"], "cpu"}, {"toleration", pod.Tolerations[0].Key, "cpu"},
		{"priority", pod.PriorityClassName, "high"}, {"account", pod.ServiceAccountName, "prober"},
		{"service", manifest[*corev1.Service](t, all, "Service beat-inferbeat").Annotations["a"], "b"},
		{"account's annotation", manifest[*corev1.ServiceAccount](t, all, "ServiceAccount prober").Annotations["c"], "d"},
		{"monitor", manifest[*serviceMonitor](t, all, "ServiceMonitor beat-inferbeat").Labels["release"], "kps"},
		{"interval", manifest[*serviceMonitor](t, all, "ServiceMonitor beat-inferbeat").Spec.Endpoints[0].Interval, "60s"},
		{"rule", manifest[*prometheusRule](t, all, "PrometheusRule beat-inferbeat").Labels["release"], "kps"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
	if *pod.TerminationGracePeriodSeconds != 90 || pod.Affinity.NodeAffinity == nil {
		t.Errorf("grace %d, affinity %+v", *pod.TerminationGracePeriodSeconds, pod.Affinity)
	}
	if !manifest[*serviceMonitor](t, all, "ServiceMonitor beat-inferbeat").Spec.ScrapeNativeHistograms {
		t.Error("native histograms are not scraped")
	}
	for _, group := range manifest[*prometheusRule](t, all, "PrometheusRule beat-inferbeat").Spec.Groups {
		for _, rule := range group.Rules {
			if want := "https://beat.example/runbooks/" + rule.Alert + ".md"; rule.Alert != "" && rule.Annotations["runbook_url"] != want {
				t.Errorf("%s has the runbook %s, want %s", rule.Alert, rule.Annotations["runbook_url"], want)
			}
		}
	}
	for _, namespace := range []string{"llm-a", "llm-b"} {
		binding := manifest[*rbacv1.RoleBinding](t, all, "RoleBinding "+namespace+"/beat-inferbeat")
		if s := binding.Subjects[0]; s.Name != "prober" || s.Namespace != "llm" {
			t.Errorf("%s lets in %+v", namespace, s)
		}
		manifest[*rbacv1.Role](t, all, "Role "+namespace+"/beat-inferbeat")
	}
}

func TestE2EHelmWithoutItsOwnObjects(t *testing.T) {
	all := rendered(t, "inferbeat", "--set", "existingConfigMap=ours,rbac.create=false,persistence.enabled=false")
	if got, want := names(all), []string{"Service inferbeat", "ServiceAccount inferbeat", "StatefulSet inferbeat"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	set := manifest[*appsv1.StatefulSet](t, all, "StatefulSet inferbeat")
	volumes := set.Spec.Template.Spec.Volumes
	if last := volumes[len(volumes)-1]; len(set.Spec.VolumeClaimTemplates) != 0 || last.Name != "data" || last.EmptyDir == nil || volumes[0].ConfigMap.Name != "ours" {
		t.Errorf("the volumes are %+v", volumes)
	}
}

// A misspelt value is an error, not the default.
func TestE2EHelmRefuses(t *testing.T) {
	for value, want := range map[string]string{
		"persistance.enabled=false": "additional properties 'persistance' not allowed", "image.tags=v1": "additional properties 'tags' not allowed",
		"config.targets=1": "/config", "dashboards.pageURL=beat.example": "/dashboards/pageURL", "image.pullPolicy=Sometimes": "/image/pullPolicy",
	} {
		if _, problem, err := helm(t, "template", "x", chart, "--set", value); err == nil || !strings.Contains(problem, want) {
			t.Errorf("--set %s: got %v %s, want %q", value, err, problem, want)
		}
	}
}
