package regression

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func TestFleetThreshold(t *testing.T) {
	for _, tt := range []struct {
		alarms    float64
		series    int
		confirmed bool
		want      float64
	}{
		{4, 0, false, 4}, {4, 20, false, 4}, {4, 21, false, 4.5}, {4, 40, false, 4.5}, {4, 41, false, 5}, {4, 4000, false, 5}, {4, 41, true, 4.5}, {4, 20, true, 3.5},
	} {
		if got := FleetThreshold(tt.alarms, tt.series, tt.confirmed); got != tt.want {
			t.Errorf("%v alarms of %d series, confirmed %v: got %v, want %v", tt.alarms, tt.series, tt.confirmed, got, tt.want)
		}
	}
}

func TestIncidents(t *testing.T) {
	worse := func(target, group string, night, nights int, renamed ...probes.FactChange) Standing {
		return Standing{
			Target: target, Groups: []string{group}, Metric: probes.MetricTPOTp50, State: probes.ChangeWorse, Since: day(night), Nights: nights, Renamed: renamed,
		}
	}
	of := func(s Standing, metric probes.RegressionMetric, state probes.ChangeState) Standing {
		s.Metric, s.State = metric, state
		return s
	}
	tpot := []probes.RegressionMetric{probes.MetricTPOTp50}
	image := probes.FactChange{Name: "version", Before: "1", After: "2"}
	tests := []struct {
		name    string
		open    []Standing
		members map[string]int
		want    []Incident
	}{
		{name: "none"},
		{
			name: "one_target",
			open: []Standing{worse("a", "h", 3, 2), of(worse("a", "h", 4, 1), probes.MetricE2Ep50, probes.ChangeWorse), worse("a", "h", 9, 1)},
			want: []Incident{
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(3), Targets: []string{"a"}, Metrics: []probes.RegressionMetric{probes.MetricTPOTp50, probes.MetricE2Ep50}},
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(9), Targets: []string{"a"}, Metrics: tpot},
			},
		},
		{
			name:    "a_host",
			open:    []Standing{worse("c", "h", 4, 1), worse("a", "h", 3, 2), worse("b", "h", 3, 2), worse("d", "i", 3, 2)},
			members: map[string]int{"h": 7, "i": 1},
			want: []Incident{
				{Cause: CauseEnvironment, Group: "h", State: probes.ChangeWorse, Since: day(3), Targets: []string{"a", "b", "c"}, Metrics: tpot, Held: true},
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(3), Targets: []string{"d"}, Metrics: tpot},
			},
		},
		{
			name:    "a_host_for_long",
			open:    []Standing{worse("a", "h", 3, 4), worse("b", "h", 3, 4), worse("c", "h", 3, 4)},
			members: map[string]int{"h": 3},
			want:    []Incident{{Cause: CauseEnvironment, Group: "h", State: probes.ChangeWorse, Since: day(3), Targets: []string{"a", "b", "c"}, Metrics: tpot}},
		},
		{
			name:    "too_few_of_the_host",
			open:    []Standing{worse("a", "h", 3, 2), worse("b", "h", 3, 2), worse("c", "h", 3, 2)},
			members: map[string]int{"h": 8},
			want: []Incident{
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(3), Targets: []string{"a"}, Metrics: tpot},
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(3), Targets: []string{"b"}, Metrics: tpot},
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(3), Targets: []string{"c"}, Metrics: tpot},
			},
		},
		{
			name: "opposite_directions",
			open: []Standing{worse("a", "h", 3, 2), worse("b", "h", 3, 2), of(worse("c", "h", 3, 2), probes.MetricTPOTp50, probes.ChangeBetter)}, members: map[string]int{"h": 3},
			want: []Incident{
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(3), Targets: []string{"a"}, Metrics: tpot},
				{Cause: CauseTarget, State: probes.ChangeWorse, Since: day(3), Targets: []string{"b"}, Metrics: tpot},
				{Cause: CauseTarget, State: probes.ChangeBetter, Since: day(3), Targets: []string{"c"}, Metrics: tpot},
			},
		},
		{
			name:    "a_new_image",
			open:    []Standing{worse("a", "h", 3, 2, image), worse("b", "h", 3, 2, image), worse("c", "h", 4, 1, image)},
			members: map[string]int{"h": 3},
			want: []Incident{{
				Cause: CauseVersion, State: probes.ChangeWorse, Since: day(3), Targets: []string{"a", "b", "c"}, Metrics: tpot, Renamed: []probes.FactChange{image},
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Incidents(tt.open, tt.members)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutliers(t *testing.T) {
	pool := func(values ...float64) []Replica {
		out := make([]Replica, len(values))
		for i, v := range values {
			out[i] = Replica{Target: string(rune('a' + i)), Value: v}
		}
		return out
	}
	even := []float64{0.0200, 0.0202, 0.0198, 0.0201, 0.0199, 0.0203, 0.0197, 0.0200}
	slow := append([]float64{}, even...)
	slow[4] = 0.0240
	tests := []struct {
		name   string
		metric probes.RegressionMetric
		pool   []Replica
		want   []Outlier
	}{
		{"alike", probes.MetricTPOTp50, pool(even...), nil},
		{"one_of_eight", probes.MetricTPOTp50, pool(slow...), []Outlier{{Target: "e", Effect: 0.2}}},
		{"a_fast_one_is_no_news", probes.MetricTPOTp50, pool(0.02, 0.02, 0.016, 0.02), nil},
		{"capacity", probes.MetricCapacity, pool(20, 20, 15, 20), []Outlier{{Target: "c", Effect: 0.25}}},
		{"two", probes.MetricTPOTp50, pool(0.02, 0.03), nil},
		{"scattered", probes.MetricTPOTp50, pool(0.010, 0.015, 0.020, 0.025, 0.030, 0.035), nil},
		{"not_a_value", probes.MetricSuccessRatio, pool(1, 1, 0.5), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Outliers(tt.metric, tt.pool)
			for i := range got {
				if got[i].Sigmas < outlierSigmas {
					t.Errorf("%s is only %v sigmas off", got[i].Target, got[i].Sigmas)
				}
				got[i].Sigmas, got[i].Effect = 0, math.Round(got[i].Effect*1e6)/1e6
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
