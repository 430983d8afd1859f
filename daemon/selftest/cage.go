package selftest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cage is a control group whose processes share a CPU quota, as those of a container
// with a limit do.
type cage struct{ directory string }

// cagePeriod is what containers get.
const cagePeriod = 100 * time.Millisecond

// newCage makes a group in a file system of control groups, of version 1 or 2.
func newCage(groups, name string, processors float64) (*cage, error) {
	quota := strconv.Itoa(int(processors * float64(cagePeriod.Microseconds())))
	period := strconv.Itoa(int(cagePeriod.Microseconds()))
	parent, settings := filepath.Join(groups, "cpu"), [][2]string{{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}}
	if controllers, err := os.ReadFile(filepath.Join(groups, "cgroup.controllers")); err == nil {
		if !strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " cpu ") {
			return nil, errors.New("make a group with a CPU quota: the controller cpu is not available; run as root outside of a container")
		}
		parent, settings = groups, [][2]string{{"cpu.max", quota + " " + period}}
		if err := setting(parent, "cgroup.subtree_control", "+cpu"); err != nil {
			return nil, fmt.Errorf("make a group with a CPU quota: %w; run as root outside of a container", err)
		}
	}
	c := &cage{filepath.Join(parent, name)}
	if err := os.Mkdir(c.directory, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a group with a CPU quota: %w; run as root outside of a container", err)
	}
	for _, s := range settings {
		if err := setting(c.directory, s[0], s[1]); err != nil {
			return nil, errors.Join(fmt.Errorf("make a group with a CPU quota: %w", err), c.close())
		}
	}
	return c, nil
}

// hold puts a process into the group.
func (c *cage) hold(pid int) error {
	if err := setting(c.directory, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("put a process under the CPU quota: %w", err)
	}
	return nil
}

// close removes the group, whose processes must have ended.
func (c *cage) close() error {
	if err := os.Remove(c.directory); err != nil {
		return fmt.Errorf("remove the group with the CPU quota: %w", err)
	}
	return nil
}

func setting(directory, name, value string) error {
	return os.WriteFile(filepath.Join(directory, name), []byte(value), 0o644)
}
