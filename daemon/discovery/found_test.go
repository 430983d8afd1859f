package discovery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

func TestFound(t *testing.T) {
	pod := model.LabelSet{
		"__address__":                                     "10.1.2.3:8000",
		"__meta_kubernetes_pod_name":                      "vllm-0",
		"__meta_kubernetes_pod_label_pool":                "llama",
		"__meta_kubernetes_pod_annotation_inferbeat_path": "/openai/",
	}
	for _, tt := range []struct {
		name, rules   string
		group, target model.LabelSet
		want          []Found
	}{
		{"an address alone", "", nil, model.LabelSet{"__address__": "10.0.0.5:8000"},
			[]Found{{Entry: "e", Address: "10.0.0.5:8000", URL: "http://10.0.0.5:8000"}}},
		{"labels of the group and its target", "", model.LabelSet{"rack": "7", "gpu": "a100"}, model.LabelSet{"__address__": "h:1", "gpu": "h100"},
			[]Found{{Entry: "e", Address: "h:1", URL: "http://h:1", Labels: map[string]string{"rack": "7", "gpu": "h100"}}}},
		{"names, pool and model", "", model.LabelSet{"pool": "p", "model": "m"}, model.LabelSet{"__address__": "h:1", "target": "n"},
			[]Found{{Entry: "e", Name: "n", Address: "h:1", URL: "http://h:1", Pool: "p", Model: "m"}}},
		{"scheme and path", "", model.LabelSet{"__scheme__": "https", "__base_path__": "/a b/v1/"}, model.LabelSet{"__address__": "[::1]:8000"},
			[]Found{{Entry: "e", Address: "[::1]:8000/a b/v1", URL: "https://[::1]:8000/a%20b/v1"}}},
		{"no address", "", model.LabelSet{"a": "b"}, model.LabelSet{}, nil},
		{"a pod", `
- source_labels: [__meta_kubernetes_pod_name]
  target_label: target
- source_labels: [__meta_kubernetes_pod_label_pool]
  target_label: pool
- source_labels: [__meta_kubernetes_pod_annotation_inferbeat_path]
  target_label: __base_path__
- source_labels: [__address__]
  regex: (.+):8000
  replacement: ${1}:9000
  target_label: __address__
- regex: __meta_kubernetes_pod_label_(.+)
  action: labelmap
  replacement: k8s_$1
`, nil, pod, []Found{{Entry: "e", Name: "vllm-0", Address: "10.1.2.3:9000/openai", URL: "http://10.1.2.3:9000/openai", Pool: "llama", Labels: map[string]string{"k8s_pool": "llama"}}}},
		{"dropped", "- source_labels: [__meta_kubernetes_pod_name]\n  regex: vllm-.*\n  action: drop\n", nil, pod, nil},
		{"kept", "- source_labels: [__meta_kubernetes_pod_name]\n  regex: sglang-.*\n  action: keep\n", nil, pod, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sections []string
			if tt.rules != "" {
				sections = []string{"relabel_configs", tt.rules}
			}
			e := entryOf(t, "e", sections...)
			got := findAll("e", e.rules, []*targetgroup.Group{{Labels: tt.group, Targets: []model.LabelSet{tt.target}}})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// What two providers find alike is one target; the order is that of the addresses.
func TestFoundIsSortedAndOnce(t *testing.T) {
	groups := []*targetgroup.Group{
		{Targets: []model.LabelSet{{"__address__": "b:1"}, {"__address__": "a:1"}}},
		{Targets: []model.LabelSet{{"__address__": "b:1"}, {"__address__": "b:1", "target": "other"}}},
	}
	want := []Found{
		{Entry: "e", Address: "a:1", URL: "http://a:1"},
		{Entry: "e", Address: "b:1", URL: "http://b:1"},
		{Entry: "e", Name: "other", Address: "b:1", URL: "http://b:1"},
	}
	if diff := cmp.Diff(want, findAll("e", nil, groups)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
