package selftest

import (
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
	"github.com/inferbeat/inferbeat/probes/truth"
)

// Exchange is what a client says of one request. Instants are on its clock.
type Exchange struct {
	ID     string // the X-Request-Id it sent
	Error  string // why it failed; empty when it did not
	Reused bool   // it travelled on a connection that was open
	Due    time.Duration
	Sent   time.Duration
	Setup  time.Duration // spent on the connection, as far as the client tells it apart
	At     []time.Duration
	// Receiving is how promptly the client read; only the measuring path knows.
	Receiving probes.Receiving
}

// Spread describes a sample of times.
type Spread struct {
	N   int     `json:"n"`
	Min float64 `json:"min_seconds"`
	P50 float64 `json:"p50_seconds"`
	P99 float64 `json:"p99_seconds"`
	Max float64 `json:"max_seconds"`
}

// Reading compares what a client reports of a signal with the truth.
type Reading struct {
	N           int     `json:"n"`
	ReportedP50 float64 `json:"reported_p50_seconds"`
	TrueP50     float64 `json:"true_p50_seconds"`
	ReportedP99 float64 `json:"reported_p99_seconds"`
	TrueP99     float64 `json:"true_p99_seconds"`
}

// RatioP50 is reported over true at the median.
func (r Reading) RatioP50() float64 { return r.ReportedP50 / r.TrueP50 }

// RatioP99 is reported over true at the 99th percentile.
func (r Reading) RatioP99() float64 { return r.ReportedP99 / r.TrueP99 }

// Figures are the comparison of a client with the truth.
type Figures struct {
	Requests   int    `json:"requests"`
	Failed     int    `json:"failed"`
	FirstError string `json:"first_error,omitempty"`
	// Events were written by the server and stamped by the client.
	Events          int     `json:"events"`
	EventsPerSecond float64 `json:"events_per_second"`
	// Lag is the client's stamp minus the server's, for each event.
	Lag probes.Optional[Spread] `json:"receive_lag"`
	// ReadsLate is the share of the client's reads that returned more than
	// probes.LateRead after the kernel's stamp of their bytes. It spoils no stamp, but
	// tells how near the client is to its limit.
	ReadsLate probes.Optional[float64] `json:"reads_late_ratio"`
	// TTFT is from sent to first token, set-up of the connection excluded: on
	// connections that were open, and on new ones, where the server's own accept
	// takes part.
	TTFT    probes.Optional[Reading] `json:"ttft"`
	TTFTNew probes.Optional[Reading] `json:"ttft_new_connection"`
	ITL     probes.Optional[Reading] `json:"itl"`
	// Collapsed is the share of gaps that the client reports as less than a
	// twentieth of what they were: events that it read together.
	Collapsed probes.Optional[float64] `json:"collapsed_gaps_ratio"`
	// ServerLate is how late the server was behind its own schedule. It spoils no
	// other figure, but tells how busy the host was.
	ServerLate probes.Optional[Spread] `json:"server_lateness"`
}

// collapsed is the part of a true gap below which a reported one counts as none.
const collapsed = 1.0 / 20

// compare lays exchanges beside the streams that answered them. shift is added to
// the client's instants to bring them onto the server's clock.
func compare(exchanges []Exchange, streams []truth.Stream, shift time.Duration) Figures {
	byID := make(map[string]*truth.Stream, len(streams))
	for i := range streams {
		byID[streams[i].RequestID] = &streams[i]
	}
	var (
		f                Figures
		lag, late        []float64
		open, fresh, itl pairs
		gaps, none       int
		stamped, behind  int
	)
	f.Requests = len(exchanges)
	for i := range exchanges {
		e := &exchanges[i]
		st := byID[e.ID]
		if problem := mismatch(e, st); problem != "" {
			f.Failed++
			if f.FirstError == "" {
				f.FirstError = problem
			}
			continue
		}
		stamped, behind = stamped+e.Receiving.Stamped, behind+e.Receiving.Late
		ttft := &fresh
		if e.Reused {
			ttft = &open
		}
		ttft.add(e.At[0]-e.Sent-e.Setup, st.Sent[0]-st.Received)
		for k := range e.At {
			lag = append(lag, (e.At[k] + shift - st.Sent[k]).Seconds())
			late = append(late, (st.Sent[k] - st.Due[k]).Seconds())
			if k == 0 {
				continue
			}
			reported, really := e.At[k]-e.At[k-1], st.Sent[k]-st.Sent[k-1]
			itl.add(reported, really)
			if gaps++; reported.Seconds() < collapsed*really.Seconds() {
				none++
			}
		}
	}
	f.Events = len(lag)
	f.EventsPerSecond = pace(streams)
	f.Lag, f.ServerLate = spread(lag), spread(late)
	f.TTFT, f.TTFTNew, f.ITL = open.reading(), fresh.reading(), itl.reading()
	if stamped > 0 {
		f.ReadsLate = probes.Known(float64(behind) / float64(stamped))
	}
	if gaps > 0 {
		f.Collapsed = probes.Known(float64(none) / float64(gaps))
	}
	return f
}

// mismatch says why an exchange cannot be compared, empty when it can.
func mismatch(e *Exchange, st *truth.Stream) string {
	switch {
	case e.Error != "":
		return e.Error
	case st == nil:
		return "the server knows no request " + e.ID
	case st.Cut:
		return "the server could not finish request " + e.ID
	case len(e.At) != len(st.Sent):
		return "the client saw another number of events than the server wrote"
	}
	return ""
}

// pace is the rate of all writes, from the first to the last.
func pace(streams []truth.Stream) float64 {
	var first, last time.Duration
	n := 0
	for i := range streams {
		for _, at := range streams[i].Sent {
			if n == 0 || at < first {
				first = at
			}
			last = max(last, at)
			n++
		}
	}
	if n < 2 || last == first {
		return 0
	}
	return float64(n-1) / (last - first).Seconds()
}

// pairs are samples of one signal, as reported and as they were.
type pairs struct{ reported, really []float64 }

func (p *pairs) add(reported, really time.Duration) {
	p.reported, p.really = append(p.reported, reported.Seconds()), append(p.really, really.Seconds())
}

func (p *pairs) reading() probes.Optional[Reading] {
	if len(p.reported) == 0 {
		return probes.Optional[Reading]{}
	}
	slices.Sort(p.reported)
	slices.Sort(p.really)
	return probes.Known(Reading{
		N:           len(p.reported),
		ReportedP50: stats.Percentile(p.reported, 50), TrueP50: stats.Percentile(p.really, 50),
		ReportedP99: stats.Percentile(p.reported, 99), TrueP99: stats.Percentile(p.really, 99),
	})
}

func spread(samples []float64) probes.Optional[Spread] {
	if len(samples) == 0 {
		return probes.Optional[Spread]{}
	}
	slices.Sort(samples)
	return probes.Known(Spread{
		N: len(samples), Min: samples[0], P50: stats.Percentile(samples, 50), P99: stats.Percentile(samples, 99), Max: samples[len(samples)-1],
	})
}

// Offered compares the rate of an open loop with what was asked.
type Offered struct {
	Asked   float64 `json:"asked_per_second"`
	Sent    float64 `json:"sent_per_second"`
	SendLag Spread  `json:"send_lag"` // sent minus due
	Failed  int     `json:"failed"`
}

// Error is how far the rate was off, as a share of what was asked.
func (o Offered) Error() float64 { return o.Sent/o.Asked - 1 }

// offered computes the rate from the instants at which requests really left.
func offered(exchanges []Exchange, asked float64) probes.Optional[Offered] {
	var lag []float64
	var first, last time.Duration
	failed := 0
	for i, e := range exchanges {
		if e.Error != "" {
			failed++
		}
		lag = append(lag, (e.Sent - e.Due).Seconds())
		if i == 0 || e.Sent < first {
			first = e.Sent
		}
		last = max(last, e.Sent)
	}
	s, ok := spread(lag).Get()
	if !ok || last == first {
		return probes.Optional[Offered]{}
	}
	return probes.Known(Offered{Asked: asked, Sent: float64(len(exchanges)-1) / (last - first).Seconds(), SendLag: s, Failed: failed})
}
