package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// manifest holds every field that the example may have, under the names of the
// Kubernetes API; another one is a mistake.
type manifest struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		AccessModes    []string  `yaml:"accessModes"`
		Resources      resources `yaml:"resources"`
		CompletionMode string    `yaml:"completionMode"`
		Completions    int       `yaml:"completions"`
		Parallelism    int       `yaml:"parallelism"`
		BackoffLimit   *int      `yaml:"backoffLimit"`
		Suspend        bool      `yaml:"suspend"`
		Template       struct {
			Metadata metadata `yaml:"metadata"`
			Spec     struct {
				RestartPolicy string `yaml:"restartPolicy"`
				Spread        []struct {
					MaxSkew           int    `yaml:"maxSkew"`
					TopologyKey       string `yaml:"topologyKey"`
					WhenUnsatisfiable string `yaml:"whenUnsatisfiable"`
					LabelSelector     struct {
						MatchLabels map[string]string `yaml:"matchLabels"`
					} `yaml:"labelSelector"`
				} `yaml:"topologySpreadConstraints"`
				Containers []struct {
					Name   string   `yaml:"name"`
					Image  string   `yaml:"image"`
					Args   []string `yaml:"args"`
					Mounts []struct {
						Name      string `yaml:"name"`
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
					Resources resources `yaml:"resources"`
				} `yaml:"containers"`
				Volumes []struct {
					Name  string `yaml:"name"`
					Claim struct {
						Name string `yaml:"claimName"`
					} `yaml:"persistentVolumeClaim"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type metadata struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels"`
}

type resources struct {
	Requests map[string]string `yaml:"requests"`
	Limits   map[string]string `yaml:"limits"`
}

func manifests(t *testing.T, file string) map[string]manifest {
	t.Helper()
	text := strings.ReplaceAll(readFile(t, file), "START_AT_HERE", "2999-01-02T03:04:05Z")
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.KnownFields(true)
	all := map[string]manifest{}
	for {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[m.Kind+" "+m.Metadata.Name] = m
	}
}

// The example's pods are all shards of one load, and its merge reads what they
// write, from the volume they write it to.
func TestIndexedJob(t *testing.T) {
	all := manifests(t, "../../deploy/kubernetes/indexed-job.yaml")
	claim, load, join := all["PersistentVolumeClaim inferbeat-results"], all["Job inferbeat-load"], all["Job inferbeat-merge"]
	if len(all) != 3 || claim.APIVersion != "v1" || load.APIVersion != "batch/v1" || join.APIVersion != "batch/v1" {
		t.Fatalf("%d objects, want a volume claim, a load and a merge", len(all))
	}
	s := load.Spec
	if s.CompletionMode != "Indexed" || s.Completions < 2 || s.Parallelism != s.Completions || s.BackoffLimit == nil || *s.BackoffLimit != 0 ||
		s.Template.Spec.RestartPolicy != "Never" || !join.Spec.Suspend {
		t.Errorf("the load is %+v; want an indexed job whose pods all run at once and once, and the merge suspended", s)
	}
	var written []string
	for i := range s.Completions {
		var args []string
		for _, a := range s.Template.Spec.Containers[0].Args {
			args = append(args, strings.ReplaceAll(a, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(i)))
		}
		r, err := resolveArgs(nil, args[1:]...)
		if err != nil || args[0] != "run" {
			t.Fatalf("pod %d calls %q: %v", i, args, err)
		}
		if r.Spec.Shard.Index != i || r.Spec.Shard.Of != s.Completions {
			t.Errorf("pod %d is shard %+v, want %d of %d", i, r.Spec.Shard, i, s.Completions)
		}
		written = append(written, r.Options.outputFile)
	}
	args := join.Spec.Template.Spec.Containers[0].Args
	flags := &flagSet{FlagSet: newFlags(), operands: true}
	mergeCommand.define(flags)
	if err := flags.parse("merge", args[1:]); err != nil || args[0] != "merge" {
		t.Fatalf("the merge calls %q: %v", args, err)
	}
	if !slices.Equal(flags.Args(), written) {
		t.Errorf("the merge reads %q, want what the pods write: %q", flags.Args(), written)
	}
	for _, job := range []manifest{load, join} {
		pod := job.Spec.Template.Spec
		mount, volume := pod.Containers[0].Mounts[0], pod.Volumes[0]
		if mount.Name != volume.Name || volume.Claim.Name != claim.Metadata.Name || !strings.HasPrefix(written[0], mount.MountPath+"/") {
			t.Errorf("%s mounts %q of %q at %q; want the claim %q where %s is", job.Metadata.Name, mount.Name, volume.Claim.Name, mount.MountPath, claim.Metadata.Name, written[0])
		}
	}
}
