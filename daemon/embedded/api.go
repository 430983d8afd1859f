package embedded

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

// Routes are the patterns that [Prometheus.Handler] answers: what a Grafana data
// source asks for. Nothing else of Prometheus's API is reachable, above all nothing
// that writes or deletes series or shows the configuration.
var Routes = []string{
	"GET /api/v1/query", "POST /api/v1/query",
	"GET /api/v1/query_range", "POST /api/v1/query_range",
	"GET /api/v1/query_exemplars", "POST /api/v1/query_exemplars",
	"GET /api/v1/format_query", "POST /api/v1/format_query",
	"GET /api/v1/parse_query", "POST /api/v1/parse_query",
	"GET /api/v1/series", "POST /api/v1/series",
	"GET /api/v1/labels", "POST /api/v1/labels",
	"GET /api/v1/label/{name}/values",
	"GET /api/v1/metadata",
	"GET /api/v1/rules", "GET /api/v1/alerts",
	"GET /api/v1/status/buildinfo",
}

func (p *Prometheus) newAPI() http.Handler {
	api := v1.NewAPI(
		p.reading, p.db, nil, p.db,
		func(context.Context) v1.ScrapePoolsRetriever { return p.scraper },
		func(context.Context) v1.TargetRetriever { return p.scraper },
		func(context.Context) v1.AlertmanagerRetriever { return p.notifier },
		func() config.Config { return *p.config },
		nil, v1.GlobalURLOptions{ListenAddress: p.options.Instance, Host: p.options.ExternalURL.Host, Scheme: p.options.ExternalURL.Scheme},
		func(f http.HandlerFunc) http.HandlerFunc { return f },
		nil, "", false, false, 0,
		p.options.Log,
		func(context.Context) v1.RulesRetriever { return p.rules },
		0, 0, 0, false, nil,
		nil, buildInfo(), nil, nil,
		prometheus.NewRegistry(), nil, nil,
		false, nil, false, false, false,
		lookback, false, false, nil, nil, v1.OpenAPIOptions{}, p.parser, false, queryTimeout,
	)
	router := route.New()
	api.Register(router.WithPrefix("/api/v1"))
	mux := http.NewServeMux()
	for _, pattern := range Routes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Origin") // pages of other sites get no permission to read
			router.ServeHTTP(w, r)
		})
	}
	return mux
}

// buildInfo says which Prometheus answers: data sources choose by it what they ask.
// Module v0.316.0 is Prometheus 3.16.0.
func buildInfo() *v1.PrometheusVersion {
	version := &v1.PrometheusVersion{Version: "unknown", GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, module := range info.Deps {
		if module.Path != "github.com/prometheus/prometheus" {
			continue
		}
		if parts := strings.Split(strings.TrimPrefix(module.Version, "v"), "."); len(parts) == 3 && len(parts[1]) == 3 {
			version.Version = parts[1][:1] + "." + strings.TrimPrefix(parts[1][1:], "0") + "." + parts[2]
		}
	}
	return version
}
