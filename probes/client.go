package probes

import "time"

// Client is the proof that a run carries about the process that made it: how
// promptly it read, and what kept it from that.
type Client struct {
	// ReceiveLag describes, over the requests, the longest time that a read returned
	// after the kernel had stamped what it brought; unknown where the kernel does not.
	ReceiveLag Distribution
	// Stamped is the share of reads whose bytes are dated by the kernel's receive
	// stamp. Of the others a late reader is a late token.
	Stamped Optional[float64]
	// Coalesced is the share of the gaps between token events of completed requests
	// that are zero because the events have one stamp.
	Coalesced Optional[float64]

	Process
}

// Process is what a process used and was refused while a run went on.
type Process struct {
	// CPUShare is the CPU time over what might have been used, from 0 to 1.
	CPUShare Optional[float64]
	// GCPauses are the stops of the world by the garbage collector, GCPauseMax the
	// longest and GCPauseTotal their sum, both rounded up by at most a fifth.
	GCPauses                 Optional[int]
	GCPauseTotal, GCPauseMax Optional[time.Duration]
	// Throttled is how long the cgroup's CPU quota held the process's group back,
	// added up over its threads, in ThrottledPeriods periods of the quota.
	ThrottledPeriods Optional[int]
	Throttled        Optional[time.Duration]
	// DescriptorRoom is how many more files could be opened when the run began,
	// PortRoom how many local TCP ports were free.
	DescriptorRoom, PortRoom Optional[int]
}
