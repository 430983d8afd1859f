package config

import (
	"reflect"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// limits lists the written bounds by signal, statistic and severity, in the
// order of the vocabulary.
func (b *builder) limits(path string, p *probe) []probes.Limit {
	var out []probes.Limit
	for _, signal := range probes.Signals {
		bySignal, ok := p.Limits[string(signal)]
		if !ok {
			continue
		}
		v := reflect.ValueOf(bySignal)
		for i, stat := range (field{typ: v.Type()}).fields() {
			var last float64
			for j, severity := range probes.Severities {
				var bound float64
				switch x := v.Field(i).Field(j).Interface().(type) {
				case time.Duration:
					bound = x.Seconds()
				case float64:
					bound = x
				}
				if bound == 0 {
					continue
				}
				if bound < last {
					b.report(strings.Join([]string{path, "limits", string(signal), stat.key, string(severity)}, "."),
						"must not be below the bound of a milder severity")
				}
				last = bound
				out = append(out, probes.Limit{Signal: signal, Statistic: probes.Statistic(stat.key), Severity: severity, Bound: bound})
			}
		}
	}
	return out
}

// Queues of more than these are long on the engines that batch up to 256 requests.
const (
	defaultQueueInfo    = 10
	defaultQueueWarning = 50
)

// queueLimits lists the bounds of the waiting queue, from mild to grave.
func (b *builder) queueLimits(path string, p *probe) []probes.QueueLimit {
	q := &p.QueueLimits
	if !b.set(path + ".queue_limits") {
		*q = queueLimits{Info: defaultQueueInfo, Warning: defaultQueueWarning}
	}
	if q.Warning > 0 && q.Warning < q.Info {
		b.report(path+".queue_limits.warning", "must not be below the bound of a milder severity")
	}
	var out []probes.QueueLimit
	for _, l := range []probes.QueueLimit{{Severity: probes.Info, Bound: q.Info}, {Severity: probes.Warning, Bound: q.Warning}} {
		if l.Bound > 0 {
			out = append(out, l)
		}
	}
	return out
}

// failureThreshold is how many failed runs in a row are no accident: a canary's run
// is a request or two, that of the others hundreds.
func failureThreshold(canary bool) int {
	if canary {
		return 3
	}
	return 2
}
