package selftest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCage(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(path...))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	for _, test := range []struct {
		name   string
		files  map[string]string // that the system has
		folder string
		want   map[string]string // that are written
	}{
		{"version 1", map[string]string{"cpu/cgroup.procs": ""}, "cpu/test",
			map[string]string{"cpu/test/cpu.cfs_period_us": "100000", "cpu/test/cpu.cfs_quota_us": "20000", "cpu/test/cgroup.procs": "42"}},
		{"version 2", map[string]string{"cgroup.controllers": "cpuset cpu io\n"}, "test",
			map[string]string{"cgroup.subtree_control": "+cpu", "test/cpu.max": "20000 100000", "test/cgroup.procs": "42"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			groups := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(groups, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c, err := newCage(groups, "test", 0.2)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.hold(42); err != nil {
				t.Error(err)
			}
			for name, want := range test.want {
				if got := read(groups, name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
	groups := t.TempDir()
	if _, err := newCage(groups, "test", 0.2); err == nil || !strings.Contains(err.Error(), "run as root") {
		t.Errorf("without control groups: %v", err)
	}
	if err := os.WriteFile(filepath.Join(groups, "cgroup.controllers"), []byte("cpuset memory"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newCage(groups, "test", 0.2); err == nil || !strings.Contains(err.Error(), "controller cpu is not available") {
		t.Errorf("without the controller: %v", err)
	}
}
