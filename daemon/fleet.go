package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/regression"
)

// sharedLabels are the labels of targets that say what they have in common with others
// beside their pool.
var sharedLabels = []string{"host", "node", "rack", "zone", "network", "gpu_pool"}

// groupsOf are what a pair's target shares with others.
func groupsOf(p *probes.PairStatus, labels map[string]string) []string {
	groups := []string{"pool " + p.Pair.Pool}
	for _, name := range sharedLabels {
		if value := labels[name]; value != "" {
			groups = append(groups, name+" "+value)
		}
	}
	return groups
}

// incidentsOf groups the open changes of pairs. labels are those of the targets.
func incidentsOf(pairs []probes.PairStatus, labels func(*probes.PairStatus) map[string]string) []regression.Incident {
	var open []regression.Standing
	members := map[string]map[string]bool{} // targets of each group that are judged
	for i := range pairs {
		p := &pairs[i]
		if len(p.Changes) == 0 || p.Result == nil {
			continue
		}
		groups := groupsOf(p, labels(p))
		for _, g := range groups {
			if members[g] == nil {
				members[g] = map[string]bool{}
			}
			members[g][p.Pair.Target] = true
		}
		for j := range p.Changes {
			c := &p.Changes[j]
			if c.State != probes.ChangeWorse && c.State != probes.ChangeBetter {
				continue
			}
			open = append(open, regression.Standing{
				Target: p.Pair.Target, Groups: groups, Metric: c.Metric, State: c.State, Since: c.Onset,
				Nights: int(p.Result.CompletedAt.Sub(c.Onset)/(24*time.Hour)) + 1, Renamed: c.Renamed,
			})
		}
	}
	sizes := map[string]int{}
	for g, targets := range members {
		sizes[g] = len(targets)
	}
	return regression.Incidents(open, sizes)
}

// apply says in each change of an incident what it has in common with others. One that
// is held is only suspected: three targets that slow down in the same night have a host
// or a network in common rather than three illnesses.
func apply(incidents []regression.Incident, pairs []probes.PairStatus) {
	for i := range incidents {
		in := &incidents[i]
		if in.Cause == regression.CauseTarget {
			continue
		}
		reason := probes.Reason{Code: probes.ReasonSharedVersion, Text: fmt.Sprintf("so did %s, with the same change of the server", strings.Join(in.Targets, ", "))}
		if in.Cause == regression.CauseEnvironment {
			reason = probes.Reason{Code: probes.ReasonSharedEnvironment, Text: fmt.Sprintf("so did %s, which share %s; if it lasts longer than three nights, each is on its own", strings.Join(in.Targets, ", "), in.Group)}
		}
		for j := range pairs {
			p := &pairs[j]
			if !slices.Contains(in.Targets, p.Pair.Target) {
				continue
			}
			p.Changes = slices.Clone(p.Changes) // a snapshot is shared
			for k := range p.Changes {
				c := &p.Changes[k]
				if c.State != in.State || !slices.Contains(in.Metrics, c.Metric) {
					continue
				}
				c.Reasons = append(slices.Clip(c.Reasons), reason)
				if in.Held && c.State == probes.ChangeWorse {
					c.State = probes.ChangeSuspected
				}
			}
		}
	}
}

// minPeerSamples is how many samples a replica's result needs to be laid beside others.
const minPeerSamples = probes.MinSamplesMean

// outliers adds to pairs in what they are worse than the other replicas of their pool
// under the same probe.
func outliers(pairs []probes.PairStatus) {
	type pool struct{ pool, environment, model, probe string }
	members := map[pool][]int{}
	samples := make([]regression.Sample, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		if p.Result == nil || p.Result.Validity.State == probes.Invalid || p.Kind != probes.Sweep && p.Result.Summary.Completed < minPeerSamples {
			continue
		}
		samples[i] = regression.Current(p.Spec, p.Result)
		key := pool{p.Pair.Pool, string(p.Pair.Environment), p.Pair.Model, p.Pair.Probe}
		members[key] = append(members[key], i)
	}
	for _, list := range members {
		for _, metric := range probes.RegressionMetrics {
			var replicas []regression.Replica
			for _, i := range list {
				if v, ok := samples[i].Value(metric).Get(); ok {
					replicas = append(replicas, regression.Replica{Target: pairs[i].Pair.Target, Value: v})
				}
			}
			for _, o := range regression.Outliers(metric, replicas) {
				for _, i := range list {
					if pairs[i].Pair.Target == o.Target {
						pairs[i].Peers = append(pairs[i].Peers, probes.Reason{Code: probes.ReasonOutlier, Text: fmt.Sprintf(
							"%s is %.1f %% worse than the median of the %d other replicas of pool %s", metric, 100*o.Effect, len(replicas)-1, pairs[i].Pair.Pool)})
					}
				}
			}
		}
	}
}

// tellIncidents logs the incidents of several targets, each once.
func (a *App) tellIncidents() {
	for _, in := range incidentsOf(a.tracker.snapshot(nil), a.labels) {
		if in.Cause == regression.CauseTarget || !a.nights.newIncident(&in) {
			continue
		}
		a.log.Warn("several targets have changed in one night", "cause", in.Cause, "group", in.Group, "state", in.State,
			"since", in.Since.Format(time.DateOnly), "targets", in.Targets, "metrics", in.Metrics, "server", in.Renamed)
	}
}

// labels are those of a pair's target.
func (a *App) labels(p *probes.PairStatus) map[string]string {
	pair, _ := a.configured(keyOf(p.Pair))
	return pair.Target.Labels
}

// newIncident is true the first time that it is asked about an incident of so many
// targets.
func (n *nights) newIncident(in *regression.Incident) bool {
	key := fmt.Sprintf("%s/%s/%s/%s/%d", in.Cause, in.Group, in.State, in.Since.Format(time.DateOnly), len(in.Targets))
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.incidents, key) {
		return false
	}
	told := append(n.incidents, key)
	n.incidents = told[max(0, len(told)-rememberedNews):]
	return true
}
