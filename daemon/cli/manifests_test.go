package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"
)

const kubernetes = "../../deploy/kubernetes/"

// The resources that Kubernetes itself does not have, as far as they are used.
type (
	serviceMonitor struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector               metav1.LabelSelector `json:"selector"`
			ScrapeNativeHistograms bool                 `json:"scrapeNativeHistograms"`
			Endpoints              []struct {
				Port          string `json:"port"`
				Path          string `json:"path"`
				Interval      string `json:"interval"`
				ScrapeTimeout string `json:"scrapeTimeout"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	prometheusRule struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Groups []struct {
				Name     string `json:"name"`
				Interval string `json:"interval"`
				Rules    []struct {
					Record        string            `json:"record"`
					Alert         string            `json:"alert"`
					Expr          string            `json:"expr"`
					For           string            `json:"for"`
					KeepFiringFor string            `json:"keep_firing_for"`
					Labels        map[string]string `json:"labels"`
					Annotations   map[string]string `json:"annotations"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	kustomization struct {
		metav1.TypeMeta    `json:",inline"`
		Resources          []string `json:"resources"`
		ConfigMapGenerator []struct {
			Name  string   `json:"name"`
			Files []string `json:"files"`
		} `json:"configMapGenerator"`
		GeneratorOptions struct {
			DisableNameSuffixHash bool              `json:"disableNameSuffixHash"`
			Labels                map[string]string `json:"labels"`
		} `json:"generatorOptions"`
		Images []struct {
			Name    string `json:"name"`
			NewName string `json:"newName"`
			NewTag  string `json:"newTag"`
		} `json:"images"`
	}
)

// manifestKinds are the types of all manifests that ship, under the names of their APIs.
var manifestKinds = map[string]func() any{
	"v1 ConfigMap":                                  func() any { return new(corev1.ConfigMap) },
	"v1 PersistentVolumeClaim":                      func() any { return new(corev1.PersistentVolumeClaim) },
	"v1 Service":                                    func() any { return new(corev1.Service) },
	"v1 ServiceAccount":                             func() any { return new(corev1.ServiceAccount) },
	"apps/v1 StatefulSet":                           func() any { return new(appsv1.StatefulSet) },
	"batch/v1 Job":                                  func() any { return new(batchv1.Job) },
	"networking.k8s.io/v1 NetworkPolicy":            func() any { return new(networkingv1.NetworkPolicy) },
	"rbac.authorization.k8s.io/v1 Role":             func() any { return new(rbacv1.Role) },
	"rbac.authorization.k8s.io/v1 RoleBinding":      func() any { return new(rbacv1.RoleBinding) },
	"monitoring.coreos.com/v1 ServiceMonitor":       func() any { return new(serviceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule":       func() any { return new(prometheusRule) },
	"kustomize.config.k8s.io/v1beta1 Kustomization": func() any { return new(kustomization) },
}

// readManifests reads the objects of a text, by kind, namespace if any, and name, as the API server
// reads them when it is strict: a field that the type does not have, or has in
// another case, is an error.
func readManifests(text string) (map[string]any, error) {
	all := map[string]any{}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document map[string]any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if len(document) == 0 {
			continue // a template that is switched off leaves an empty one
		}
		plain, err := json.Marshal(document)
		if err != nil {
			return nil, err
		}
		var head struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(plain, &head); err != nil {
			return nil, err
		}
		create := manifestKinds[head.APIVersion+" "+head.Kind]
		if create == nil {
			return nil, fmt.Errorf("no type is known of %s %s", head.APIVersion, head.Kind)
		}
		object := create()
		faults, err := strictjson.UnmarshalStrict(plain, object)
		if err := errors.Join(append(faults, err)...); err != nil {
			return nil, fmt.Errorf("%s %s: %w", head.Kind, head.Name, err)
		}
		name := head.Name
		if head.Namespace != "" {
			name = head.Namespace + "/" + name
		}
		name = strings.TrimSpace(head.Kind + " " + name)
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		all[name] = object
	}
}

func manifests(t *testing.T, file, text string) map[string]any {
	t.Helper()
	all, err := readManifests(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all
}

// manifest is the one object of that kind and name.
func manifest[T any](t *testing.T, all map[string]any, name string) T {
	t.Helper()
	object, ok := all[name].(T)
	if !ok {
		t.Fatalf("there is no %s of type %T", name, object)
	}
	return object
}
