package cli

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/inferbeat/inferbeat/probes"
)

// metadata is that of the templates of other tools.
type metadata struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels"`
}

// The example's pods are all shards of one load, and its merge reads what they
// write, from the volume they write it to.
func TestIndexedJob(t *testing.T) {
	const file = kubernetes + "indexed-job.yaml"
	all := manifests(t, file, strings.ReplaceAll(readFile(t, file), "START_AT_HERE", "2999-01-02T03:04:05Z"))
	claim := manifest[*corev1.PersistentVolumeClaim](t, all, "PersistentVolumeClaim inferbeat-results")
	load, join := manifest[*batchv1.Job](t, all, "Job inferbeat-load"), manifest[*batchv1.Job](t, all, "Job inferbeat-merge")
	s := load.Spec
	if *s.CompletionMode != batchv1.IndexedCompletion || *s.Completions < 2 || *s.Parallelism != *s.Completions || *s.BackoffLimit != 0 ||
		s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || !*join.Spec.Suspend {
		t.Errorf("the load is %+v; want an indexed job whose pods all run at once and once, and the merge suspended", s)
	}
	var written []string
	for i := range int(*s.Completions) {
		var args []string
		for _, a := range s.Template.Spec.Containers[0].Args {
			args = append(args, strings.ReplaceAll(a, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(i)))
		}
		r, err := resolveArgs(nil, args[1:]...)
		if err != nil || args[0] != "run" {
			t.Fatalf("pod %d calls %q: %v", i, args, err)
		}
		if r.Spec.Shard.Index != i || r.Spec.Shard.Of != int(*s.Completions) {
			t.Errorf("pod %d is shard %+v, want %d of %d", i, r.Spec.Shard, i, *s.Completions)
		}
		written = append(written, r.Options.outputFile)
	}
	if read := parsed(t, mergeCommand, join.Spec.Template.Spec.Containers[0].Args).Args(); !slices.Equal(read, written) {
		t.Errorf("the merge reads %q, want what the pods write: %q", read, written)
	}
	for _, job := range []*batchv1.Job{load, join} {
		pod := job.Spec.Template.Spec
		mount, volume := pod.Containers[0].VolumeMounts[0], pod.Volumes[0]
		if mount.Name != volume.Name || volume.PersistentVolumeClaim.ClaimName != claim.Name || !strings.HasPrefix(written[0], mount.MountPath+"/") {
			t.Errorf("%s mounts %q of %q at %q; want the claim %q where %s is", job.Name, mount.Name, volume.PersistentVolumeClaim.ClaimName, mount.MountPath, claim.Name, written[0])
		}
	}
}

// parsed are the flags of a call, whose first argument names the command.
func parsed(t *testing.T, c command, args []string) *flagSet {
	t.Helper()
	flags := &flagSet{FlagSet: newFlags(), operands: c.operands}
	c.define(flags)
	if err := flags.parse(c.name, args[1:]); err != nil || args[0] != c.name {
		t.Fatalf("the pod calls %q: %v", args, err)
	}
	return flags
}

// installed is what 'kubectl apply -k' makes, optional parts included.
func installed(t *testing.T) map[string]any {
	t.Helper()
	text := readFile(t, kubernetes+"kustomization.yaml")
	k := manifest[*kustomization](t, manifests(t, "kustomization.yaml", text), "Kustomization")
	files := k.Resources
	for _, optional := range regexp.MustCompile(`(?m)^  # - (\S+)$`).FindAllStringSubmatch(text, -1) {
		files = append(files, optional[1])
	}
	if want := []string{"rbac.yaml", "service.yaml", "statefulset.yaml", "servicemonitor.yaml", "prometheusrule.yaml", "networkpolicy.yaml"}; !slices.Equal(files, want) {
		t.Errorf("it installs %q, want %q", files, want)
	}
	all := map[string]any{}
	for _, file := range files {
		for name, object := range manifests(t, file, readFile(t, kubernetes+file)) {
			if strings.Contains(name, "/") {
				t.Errorf("%s is tied to a namespace", name)
			}
			all[name] = object
		}
	}
	generated := &corev1.ConfigMap{Data: map[string]string{}}
	generator := k.ConfigMapGenerator[0]
	generated.Name, generated.Labels = generator.Name, k.GeneratorOptions.Labels
	for _, file := range generator.Files {
		generated.Data[file] = readFile(t, kubernetes+file)
	}
	if !k.GeneratorOptions.DisableNameSuffixHash {
		t.Error("the ConfigMap changes its name with its content, so a changed file starts the pod anew")
	}
	if image := manifest[*appsv1.StatefulSet](t, all, "StatefulSet inferbeat").Spec.Template.Spec.Containers[0].Image; image != k.Images[0].Name+":latest" {
		t.Errorf("it puts an image in place of %s, but the pod has %s", k.Images[0].Name, image)
	}
	all["ConfigMap "+generator.Name] = generated
	return all
}

func TestInstallation(t *testing.T) { checkInstallation(t, installed(t)) }

// checkInstallation holds the parts of an installation to each other: names,
// labels, ports and paths that one writes and another reads.
func checkInstallation(t *testing.T, all map[string]any) {
	t.Helper()
	set := manifest[*appsv1.StatefulSet](t, all, "StatefulSet inferbeat")
	pod := set.Spec.Template.Spec
	labels := set.Spec.Template.Labels
	container := pod.Containers[0]
	selects := func(what string, selector, labels map[string]string) {
		t.Helper()
		for name, value := range selector {
			if labels[name] != value {
				t.Errorf("%s selects %s=%s, and finds %v", what, name, value, labels)
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
	}
	selects("the StatefulSet", set.Spec.Selector.MatchLabels, labels)

	service := manifest[*corev1.Service](t, all, "Service "+set.Spec.ServiceName)
	selects("the Service", service.Spec.Selector, labels)
	port := service.Spec.Ports[0]
	if len(container.Ports) != 1 || container.Ports[0].Name != port.TargetPort.StrVal || container.Ports[0].ContainerPort != 9799 || port.Port != 9799 {
		t.Errorf("the pod has the ports %+v, the Service %+v", container.Ports, port)
	}
	monitor := manifest[*serviceMonitor](t, all, "ServiceMonitor inferbeat")
	selects("the ServiceMonitor", monitor.Spec.Selector.MatchLabels, service.Labels)
	if e := monitor.Spec.Endpoints[0]; e.Port != port.Name || e.Path != "/metrics" {
		t.Errorf("the ServiceMonitor reads %s of port %s, want /metrics of %s", e.Path, e.Port, port.Name)
	}
	policy := manifest[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy inferbeat")
	selects("the NetworkPolicy", policy.Spec.PodSelector.MatchLabels, labels)
	if open := policy.Spec.Ingress[0].Ports; len(open) != 1 || open[0].Port.StrVal != container.Ports[0].Name || len(policy.Spec.Egress) != 0 {
		t.Errorf("the NetworkPolicy opens %+v, want the port %s, and everything to the outside", open, container.Ports[0].Name)
	}
	checkRights(t, all, pod.ServiceAccountName)
	checkPod(t, all, set)
	if rules := manifest[*prometheusRule](t, all, "PrometheusRule inferbeat"); len(rules.Spec.Groups) < 5 {
		t.Errorf("%d groups of rules", len(rules.Spec.Groups))
	}
}

// checkRights: the pod may read what discovery reads and nothing else.
func checkRights(t *testing.T, all map[string]any, account string) {
	t.Helper()
	manifest[*corev1.ServiceAccount](t, all, "ServiceAccount "+account)
	binding := manifest[*rbacv1.RoleBinding](t, all, "RoleBinding inferbeat")
	role := manifest[*rbacv1.Role](t, all, "Role "+binding.RoleRef.Name)
	if s := binding.Subjects; len(s) != 1 || s[0].Kind != "ServiceAccount" || s[0].Name != account || binding.RoleRef.Kind != "Role" {
		t.Errorf("%s %s is bound to %+v, want the ServiceAccount %s", binding.RoleRef.Kind, binding.RoleRef.Name, s, account)
	}
	read := []string{"get", "list", "watch"}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "services"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("the Role (-want +got):\n%s", diff)
	}
	// What the discovery of the examples looks at.
	looks := regexp.MustCompile(`(?m)^ +- role: (\S+)$`).FindAllStringSubmatch(readFile(t, examples+"/discovery-kubernetes.yaml"), -1)
	for _, look := range looks {
		if resource := look[1] + "s"; !slices.Contains(slices.Concat(role.Rules[0].Resources, role.Rules[1].Resources), resource) {
			t.Errorf("an example finds its targets by the %s, which the Role does not show", resource)
		}
	}
	if len(looks) == 0 {
		t.Error("no example finds targets in Kubernetes")
	}
}

// checkPod: the pod runs the daemon with the configuration of the ConfigMap and
// keeps what it measures on the volume, with no right that it does not need.
func checkPod(t *testing.T, all map[string]any, set *appsv1.StatefulSet) {
	t.Helper()
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	mounts := map[string]corev1.VolumeMount{}
	for _, m := range container.VolumeMounts {
		mounts[m.Name] = m
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	flags := parsed(t, serveCommand, container.Args)
	files, _ := flags.GetStringArray("config")
	listen, _ := flags.GetString("listen")
	if len(files) != 1 || path.Dir(files[0]) != mounts["config"].MountPath || listen != ":9799" {
		t.Fatalf("the pod calls %q, want one configuration in %s, and the port of the Service", container.Args, mounts["config"].MountPath)
	}
	checkShards(t, set)
	text, ok := manifest[*corev1.ConfigMap](t, all, "ConfigMap "+volumes["config"].ConfigMap.Name).Data[path.Base(files[0])]
	if !ok {
		t.Fatalf("the ConfigMap has no %s", path.Base(files[0]))
	}
	c, err := loadConfig([]string{writeFile(t, "inferbeat.yaml", text)}, nil, nil)
	if err != nil {
		t.Fatalf("the configuration: %v", err)
	}
	if volume := mounts["data"].MountPath; c.Storage.Path != volume || container.WorkingDir != volume {
		t.Errorf("the store is in %s and everything else in %s, the volume at %s", c.Storage.Path, container.WorkingDir, volume)
	}
	claim := set.Spec.VolumeClaimTemplates[0]
	if size := claim.Spec.Resources.Requests.Storage().Value(); claim.Name != "data" || size < 3*int64(c.Storage.MaxSize)/2 {
		t.Errorf("the volume %s has %d bytes for a store of %d and its backup", claim.Name, size, c.Storage.MaxSize)
	}
	if grace := *pod.TerminationGracePeriodSeconds; float64(grace) < c.ShutdownGrace.Seconds()+10 {
		t.Errorf("the pod is killed %d s after it was asked to end, and its runs may take %s", grace, c.ShutdownGrace)
	}
	if s := volumes["secrets"].Secret; !*s.Optional || !mounts["secrets"].ReadOnly || *s.DefaultMode != 0o440 || volumes["tmp"].EmptyDir == nil || mounts["tmp"].MountPath != "/tmp" {
		t.Errorf("the volumes are %+v", volumes)
	}
	for probe, want := range map[*corev1.Probe]string{container.StartupProbe: "/-/ready", container.ReadinessProbe: "/-/ready", container.LivenessProbe: "/-/healthy"} {
		if get := probe.HTTPGet; get.Path != want || get.Port.StrVal != container.Ports[0].Name {
			t.Errorf("a probe asks %s of %s, want %s", get.Path, get.Port.StrVal, want)
		}
	}
	p, s := pod.SecurityContext, container.SecurityContext
	if !*p.RunAsNonRoot || *p.RunAsUser == 0 || *p.FSGroup != *p.RunAsGroup || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the pod may be more than it needs: %+v %+v", p, s)
	}
	if r := container.Resources; r.Requests.Memory().IsZero() || r.Limits.Memory().Cmp(*r.Requests.Memory()) < 0 || !r.Limits.Cpu().IsZero() {
		t.Errorf("the pod has %+v, want bounds of memory, and no limit of the CPU", r)
	}
}

// checkShards: the pods part the targets among them, each by its own number.
func checkShards(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	container := set.Spec.Template.Spec.Containers[0]
	shard, _ := parsed(t, serveCommand, container.Args).GetString("shard")
	if e := container.Env[0]; e.Name != "POD_INDEX" || e.ValueFrom.FieldRef.FieldPath != "metadata.labels['apps.kubernetes.io/pod-index']" {
		t.Errorf("the pod's number comes from %+v", e)
	}
	for i := range int(*set.Spec.Replicas) {
		want := probes.Shard{Index: i, Of: int(*set.Spec.Replicas)}
		if got, ok := parseShard(strings.ReplaceAll(shard, "$(POD_INDEX)", fmt.Sprint(i))); !ok || got != want {
			t.Errorf("pod %d has the part %+v by %q, want %+v", i, got, shard, want)
		}
	}
}

// Every manifest that ships is one that a strict API server takes. The gates are
// templates of other tools, with a test of their own.
func TestManifestsAreStrict(t *testing.T) {
	files, err := filepath.Glob(kubernetes + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "gate-") || name == "inferbeat.yaml" {
			continue
		}
		read += len(manifests(t, name, readFile(t, file)))
	}
	if read < 12 {
		t.Errorf("read %d objects", read)
	}
	for misspelt, want := range map[string]string{
		"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterip: None}}": `Service a: unknown field "spec.clusterip"`,
		"{apiVersion: v2, kind: Service, metadata: {name: a}}":                          "no type is known of v2 Service",
	} {
		if _, err := readManifests(misspelt); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", misspelt, err, want)
		}
	}
}
