package selftest

import (
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Throttling is how often and how long the CPU quota of the cgroup held this
// process's group back.
type Throttling struct {
	Known   bool // there is a quota
	Periods int  // in which it held back
	Held    time.Duration
}

// readThrottling reads cpu.stat of the process's cgroup, of version 2 or 1. In a
// container the path may be that of the host; the group is then mounted as the root.
func readThrottling(system fs.FS) Throttling {
	groups, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return Throttling{}
	}
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		mount := "sys/fs/cgroup"
		switch {
		case !ok:
			continue
		case controllers == "": // version 2
		case strings.Contains(","+controllers+",", ",cpu,"):
			mount += "/" + controllers
		default:
			continue
		}
		for _, directory := range []string{mount + strings.TrimRight(path, "/"), mount} {
			if t := parseThrottling(system, directory+"/cpu.stat"); t.Known {
				return t
			}
		}
	}
	return Throttling{}
}

func parseThrottling(system fs.FS, name string) Throttling {
	text, err := fs.ReadFile(system, name)
	if err != nil {
		return Throttling{}
	}
	var t Throttling
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case key == "nr_throttled":
			t.Periods, t.Known = n, true
		case key == "throttled_usec":
			t.Held = time.Duration(n) * time.Microsecond
		case key == "throttled_time": // version 1
			t.Held = time.Duration(n)
		}
	}
	return t
}

// since is what happened after an earlier reading of the same group.
func (t Throttling) since(earlier Throttling) Throttling {
	if !t.Known || !earlier.Known {
		return Throttling{}
	}
	return Throttling{true, t.Periods - earlier.Periods, t.Held - earlier.Held}
}
