package probes

import "time"

// Environment is the class of a target; it decides which safety limits hold.
type Environment string

// The closed set of environments. A site's own names are mapped onto them.
const (
	Production  Environment = "production"
	Staging     Environment = "staging"
	Development Environment = "development"
)

// Environments lists the closed set in the order it is documented.
var Environments = []Environment{Production, Staging, Development}

// ConnectionPolicy says whether a request may travel on a connection that an
// earlier request has left open.
type ConnectionPolicy string

const (
	// ConnectionReuse takes an idle connection when there is one.
	ConnectionReuse ConnectionPolicy = "reuse"
	// ConnectionNew dials for every request, as bench_serving does.
	ConnectionNew ConnectionPolicy = "new"
)

// Protocol is the version of HTTP that a target is asked in.
type Protocol string

const (
	// HTTP1 is HTTP/1.1, the default.
	HTTP1 Protocol = "http1"
	// HTTP2 is HTTP/2 without a fallback, over TLS or with prior knowledge. Requests in
	// flight have a connection each, as with HTTP1, so that none waits for another.
	HTTP2 Protocol = "http2"
)

// Target is one addressable replica (or virtual address) of one model.
type Target struct {
	Name        string
	Pool        string // replicas that serve the same thing; defaults to Name
	Environment Environment
	Site        string // the user's own name of the environment
	Backend     string // wire dialect, named as in bench_serving
	// BaseURL is scheme://host[:port][/prefix], or unix:///path/of.sock[:/prefix] for a
	// socket of this host; it holds no user info, query or fragment, so it may be printed.
	BaseURL string
	Path    string // replaces the dialect's request path when not empty
	Model   string // empty: asked from /v1/models before a run
	Labels  map[string]string
	// MetricsURL is where the server's metrics page is, when that is not a path of
	// BaseURL; it may be printed likewise. The key and headers of the connection go
	// there only when it is the host and port of BaseURL, or MetricsCredentials says so.
	MetricsURL         string
	MetricsCredentials bool

	Connection Connection
	Timeouts   Timeouts
}

// Connection says how a target is reached.
type Connection struct {
	Policy          ConnectionPolicy
	Protocol        Protocol // empty is HTTP1
	FollowRedirects bool
	// Proxy is "none" (the default), "env" (the process environment's rules) or
	// a proxy URL.
	Proxy  string
	TLS    TLS
	APIKey Secret
	// APIKeyFile is where APIKey is read from before each run; empty when it was
	// given as it is.
	APIKeyFile string
	Headers    map[string]Secret // sent as they are; names are not secret
}

// TLS are the options of an https target.
type TLS struct {
	CAFile             string
	CertFile           string
	KeyFile            string
	ServerName         string // verified and sent as SNI instead of the URL's host
	InsecureSkipVerify bool
}

// Timeouts bound one request. Zero means no bound.
type Timeouts struct {
	Connect    time.Duration // DNS, TCP and TLS together
	FirstToken time.Duration // from sent to the first token event; heartbeats do not count
	Idle       time.Duration // longest silence once the request is sent; any byte counts as life
	Total      time.Duration // from sent to the end of the answer
}

// Pair is the identity of a series: one probe on one target.
type Pair struct {
	Target      string
	Pool        string
	Environment Environment
	Model       string
	Probe       string
}
