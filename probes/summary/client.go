package summary

import (
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// clientOf adds what the records say about the process that made them to what the
// process says about itself.
func clientOf(in Input) probes.Client {
	c := probes.Client{Process: in.Process}
	var lags []float64
	var reads, stamped, zero, gaps int
	for i := range in.Records {
		r := &in.Records[i]
		reads += r.Receiving.Reads
		stamped += r.Receiving.Stamped
		if r.Receiving.Stamped > 0 {
			lags = append(lags, r.Receiving.LagMax.Seconds())
		}
		if r.Outcome == probes.OK {
			z, n := r.ZeroGaps()
			zero += z
			gaps += n
		}
	}
	if len(lags) > 0 {
		c.ReceiveLag = probes.Distribution(stats.DescribeInPlace(lags))
	}
	if reads > 0 {
		c.Stamped = probes.Known(float64(stamped) / float64(reads))
	}
	if gaps > 0 {
		c.Coalesced = probes.Known(float64(zero) / float64(gaps))
	}
	return c
}
