package web

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Source is where the pages get their facts.
type Source interface {
	// Pairs is a snapshot of all pairs, sorted by target and probe.
	Pairs() []probes.PairStatus
	// Comparisons is a snapshot of all comparisons, sorted by name.
	Comparisons() []probes.ComparisonStatus
	// Status is the daemon's own state.
	Status() Status
}

// Status is the daemon's own state at one instant.
type Status struct {
	Now         time.Time
	Started     time.Time
	Version     string
	Ready       bool
	Paused      bool
	ConfigSHA   string
	ReloadError string // why the last reload failed; empty when it did not
	StoreError  string // why the store cannot be written; empty while it can
	Unstored    int    // ended runs that wait for it
	Banner      string // a line for every page, such as "simulated replicas"
}

// Orders are what the daemon can be told over HTTP; a nil order is off.
type Orders struct {
	Reload func(context.Context) error
	Pause  func(paused bool)
}

// Options is what a handler is built from; Source and Metrics are required.
type Options struct {
	Source  Source
	Metrics http.Handler
	Orders  Orders
	// Probe answers GET /probe; nil when that is off.
	Probe http.Handler
	// Alerts are those of the embedded Prometheus; nil when there is none.
	Alerts func() []Alert
	// Queries answers QueryRoutes, Prometheus's query API; nil when there is none.
	Queries     http.Handler
	QueryRoutes []string
	// Runbooks lists the alerts that have one, and Runbook is the page of an alert as
	// Markdown; nil for none.
	Runbooks []string
	Runbook  func(alert string) (markdown string, ok bool)
	// Refresh is how often an open page asks again; 0 never.
	Refresh time.Duration
	// Runs is where ended runs come from; nil keeps none.
	Runs Runs
}

//go:embed *.html
var files embed.FS

var page = parsePage("page.html")

// parsePage reads the template of a page together with what all pages share.
func parsePage(name string) *template.Template {
	return template.Must(template.ParseFS(files, name, "look.html"))
}

// Handler serves /, /metrics, /probe, /api/v1/pairs, /api/v1/comparisons, /api/v1/runs, /ui/, /runbooks, /-/healthy, /-/ready
// and the orders.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		var out bytes.Buffer
		v := newView(o.Source.Status(), o.Source.Pairs(), o.Source.Comparisons(), o.Refresh)
		if o.Alerts != nil {
			v.showAlerts(o.Alerts())
		}
		v.Kept = o.Runs != nil
		if err := page.Execute(&out, v); err != nil {
			http.Error(w, fmt.Sprintf("draw page: %v", err), http.StatusInternalServerError)
			return
		}
		secure(w.Header(), "text/html; charset=utf-8")
		_, _ = out.WriteTo(w)
	})
	mux.Handle("GET /metrics", o.Metrics)
	mux.HandleFunc("/probe", probeNow(o.Probe))
	for _, pattern := range o.QueryRoutes {
		mux.Handle(pattern, o.Queries)
	}
	mux.HandleFunc("GET /api/v1/pairs", serveJSON(func() any { return newPairsJSON(o.Source.Pairs()) }))
	mux.HandleFunc("GET /api/v1/comparisons", serveJSON(func() any { return newComparisonsJSON(o.Source.Comparisons()) }))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "inferbeat is healthy.")
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !o.Source.Status().Ready {
			http.Error(w, "inferbeat is not ready.", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "inferbeat is ready.")
	})
	handleRunbooks(mux, o)
	handleRuns(mux, o.Runs)
	handleOrders(mux, o.Orders)
	return mux
}

func serveJSON(value func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.MarshalIndent(value(), "", "  ")
		if err != nil {
			http.Error(w, fmt.Sprintf("encode answer: %v", err), http.StatusInternalServerError)
			return
		}
		secure(w.Header(), "application/json")
		_, _ = w.Write(append(body, '\n'))
	}
}

func handleOrders(mux *http.ServeMux, orders Orders) {
	const off = "this order is off; set web.enable_lifecycle: true in the configuration"
	order := func(path string, enabled bool, do func(*http.Request) (string, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			if !enabled {
				http.Error(w, off, http.StatusForbidden)
				return
			}
			if fromElsewhere(r) {
				http.Error(w, "orders are not taken from another site", http.StatusForbidden)
				return
			}
			done, err := do(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintln(w, done)
		})
	}
	order("/-/reload", orders.Reload != nil, func(r *http.Request) (string, error) {
		return "configuration reloaded", orders.Reload(r.Context())
	})
	order("/-/pause", orders.Pause != nil, func(*http.Request) (string, error) {
		orders.Pause(true)
		return "all probing is paused", nil
	})
	order("/-/resume", orders.Pause != nil, func(*http.Request) (string, error) {
		orders.Pause(false)
		return "probing goes on", nil
	})
}

// probeNow lets what causes load through when it is on, and asked for on purpose.
func probeNow(handler http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case handler == nil:
			http.Error(w, "probing on request is off; set web.enable_probe: true in the configuration", http.StatusForbidden)
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET runs a probe", http.StatusMethodNotAllowed)
		case fromElsewhere(r):
			http.Error(w, "probes are not run for another site", http.StatusForbidden)
		default:
			w.Header().Set("Cache-Control", "no-store") // a proxy would answer with an old run
			handler.ServeHTTP(w, r)
		}
	}
}

// fromElsewhere reports a request that a page of another site has a browser send, with
// the user's credentials; browsers say so in this header.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

func secure(h http.Header, contentType string) {
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
}
