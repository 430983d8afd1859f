package cli

import (
	"reflect"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
)

// buildProfile is nil unless a profile was asked for.
func (o *runFlags) buildProfile(m *mistakes) *probes.Profile {
	p := o.profile
	for _, n := range []struct {
		flag  string
		steps int
	}{{"profile-start-step", p.StartStep}, {"profile-num-steps", p.Steps}} {
		if n.steps < 0 {
			m.add(n.flag, "%d is negative", n.steps)
		}
	}
	switch {
	case !o.profiled && !reflect.ValueOf(p).IsZero():
		m.add("profile", "is missing, without it the other flags of the profile have no effect")
	case o.profiled:
		if err := backend.CheckProfile(o.backend, &p); err != nil {
			m.add("profile", "%s", strings.TrimPrefix(err.Error(), "start profile: "))
		}
		return &p
	}
	return nil
}
