package jsonl

import "github.com/inferbeat/inferbeat/probes"

// client is what is known of the process that made the run.
type client struct {
	ReceiveLag       *latency `json:"receive_lag_seconds"` // the longest of each request
	Stamped          *number  `json:"kernel_stamped_ratio"`
	Coalesced        *number  `json:"coalesced_gaps_ratio"`
	CPUShare         *number  `json:"cpu_ratio"`
	GCPauses         optional `json:"gc_pauses"`
	GCPauseTotal     *number  `json:"gc_pause_total_seconds"`
	GCPauseMax       *number  `json:"gc_pause_max_seconds"`
	ThrottledPeriods optional `json:"throttled_periods"`
	Throttled        *number  `json:"throttled_seconds"`
	DescriptorRoom   optional `json:"open_files_room"`
	PortRoom         optional `json:"local_ports_room"`
}

// newClient is nil when nothing is known, as of another tool's run.
func newClient(c *probes.Client) *client {
	if *c == (probes.Client{}) {
		return nil
	}
	out := &client{
		Stamped: known(c.Stamped), Coalesced: known(c.Coalesced), CPUShare: known(c.CPUShare),
		GCPauses: c.GCPauses, GCPauseTotal: inSeconds(c.GCPauseTotal), GCPauseMax: inSeconds(c.GCPauseMax),
		ThrottledPeriods: c.ThrottledPeriods, Throttled: inSeconds(c.Throttled),
		DescriptorRoom: c.DescriptorRoom, PortRoom: c.PortRoom,
	}
	if c.ReceiveLag.N > 0 {
		out.ReceiveLag = new(newLatency(c.ReceiveLag))
	}
	return out
}
