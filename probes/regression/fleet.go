package regression

import (
	"cmp"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// FleetThreshold is the score from which a change is believed when a fleet of so many
// primary series may raise falseAlarms a year. Nights of three runs, or with odd ones
// run again, raise a fifth of the false alarms; they may be judged half a step lower.
func FleetThreshold(falseAlarms float64, series int, confirmed bool) float64 {
	threshold := 4.0
	switch each := falseAlarms / float64(max(series, 1)); {
	case each < 0.1:
		threshold = 5
	case each < 0.2:
		threshold = 4.5
	}
	if confirmed {
		threshold -= 0.5
	}
	return threshold
}

// Standing is a change of one target that is open.
type Standing struct {
	Target string
	// Groups are what the target shares with others, such as its pool or its host.
	Groups  []string
	Metric  probes.RegressionMetric
	State   probes.ChangeState // worse or better
	Since   time.Time          // first night
	Nights  int                // that it has lasted
	Renamed []probes.FactChange
}

// IncidentCause is what the changes of an incident have in common.
type IncidentCause string

const (
	CauseTarget      IncidentCause = "target"      // one target
	CauseEnvironment IncidentCause = "environment" // a host, a pool, a network
	CauseVersion     IncidentCause = "version"     // a new version, on several targets
)

// Incident is a set of changes that are one piece of news.
type Incident struct {
	Cause   IncidentCause
	Group   string // of an environment: what the targets share
	State   probes.ChangeState
	Since   time.Time
	Targets []string
	Metrics []probes.RegressionMetric
	Renamed []probes.FactChange
	// Held says that it is too young to be put down to its members: the surroundings of
	// all of them are the likelier cause.
	Held bool
}

const (
	environmentTargets = 3
	environmentShare   = 0.4 // of the group's targets
	environmentNights  = 3   // after which each member is on its own
	sameNight          = 36 * time.Hour
)

// Incidents groups open changes. Members is how many targets each group has. A change
// is in one incident: of its surroundings if many of those who share them changed in
// the same direction within a night, else of the new version that it shares with
// others, else of its target.
func Incidents(open []Standing, members map[string]int) []Incident {
	open = slices.Clone(open)
	slices.SortStableFunc(open, func(a, b Standing) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Metric, b.Metric))
	})
	taken := make([]bool, len(open))
	var out []Incident
	// gather makes an incident of all that are near the first one and alike it.
	gather := func(first int, cause IncidentCause, group string, alike func(*Standing) bool) {
		f := &open[first]
		incident := Incident{Cause: cause, Group: group, State: f.State, Since: f.Since}
		youngest := f.Nights
		for i := range open {
			s := &open[i]
			if taken[i] || s.State != f.State || !near(s, f) || !alike(s) {
				continue
			}
			taken[i] = true
			youngest = max(youngest, s.Nights)
			incident.Targets, incident.Metrics = add(incident.Targets, s.Target), add(incident.Metrics, s.Metric)
			for _, r := range s.Renamed {
				incident.Renamed = add(incident.Renamed, r)
			}
		}
		incident.Held = cause == CauseEnvironment && youngest <= environmentNights
		out = append(out, incident)
	}
	for i := range open {
		f := &open[i]
		if taken[i] {
			continue
		}
		if group, ok := sharedBy(open, taken, f, members); ok {
			gather(i, CauseEnvironment, group, func(s *Standing) bool { return slices.Contains(s.Groups, group) })
			continue
		}
		if len(f.Renamed) > 0 && len(targetsOf(open, taken, f, func(s *Standing) bool { return slices.Equal(s.Renamed, f.Renamed) })) > 1 {
			gather(i, CauseVersion, "", func(s *Standing) bool { return slices.Equal(s.Renamed, f.Renamed) })
			continue
		}
		gather(i, CauseTarget, "", func(s *Standing) bool { return s.Target == f.Target })
	}
	return out
}

// sharedBy is the group of the change whose members changed together.
func sharedBy(open []Standing, taken []bool, f *Standing, members map[string]int) (string, bool) {
	for _, group := range f.Groups {
		together := targetsOf(open, taken, f, func(s *Standing) bool { return slices.Contains(s.Groups, group) })
		// A new version explains more than a common host does.
		if len(f.Renamed) == 0 && len(together) >= environmentTargets && float64(len(together)) >= environmentShare*float64(members[group]) {
			return group, true
		}
	}
	return "", false
}

// targetsOf are those that changed in the same direction at the same time.
func targetsOf(open []Standing, taken []bool, f *Standing, alike func(*Standing) bool) []string {
	var out []string
	for i := range open {
		if s := &open[i]; !taken[i] && s.State == f.State && near(s, f) && alike(s) {
			out = add(out, s.Target)
		}
	}
	return out
}

func near(a, b *Standing) bool { return a.Since.Sub(b.Since).Abs() <= sameNight }

func add[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}
