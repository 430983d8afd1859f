package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

// newConfig writes the configuration that a Prometheus outside would have, and lets
// Prometheus read it: the defaults of its many fields are its own business.
func newConfig(o Options) (*config.Config, error) {
	type object = map[string]any
	var managers []object
	for _, d := range o.Alertmanagers {
		u, err := url.Parse(d.URL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			// Not a word of the URL: it may hold a password.
			return nil, fmt.Errorf("alertmanager %q: its URL is none of the form http://host:port/prefix", d.Name)
		}
		manager := object{
			"api_version": "v2", "scheme": u.Scheme, "path_prefix": "/" + d.Name,
			"static_configs": []object{{"targets": []string{u.Host}}},
		}
		switch password, has := u.User.Password(); {
		case d.BearerToken != "":
			manager["authorization"] = object{"credentials": d.BearerToken}
		case has:
			manager["basic_auth"] = object{"username": u.User.Username(), "password": password}
		}
		managers = append(managers, manager)
	}
	text, err := json.Marshal(object{
		"global": object{
			"scrape_interval": o.ScrapeInterval.String(), "scrape_timeout": min(o.ScrapeInterval, 10*time.Second).String(),
			"evaluation_interval": o.EvaluationInterval.String(),
		},
		"scrape_configs": []object{{
			"job_name": job, "static_configs": []object{{"targets": []string{o.Instance}}},
			// Both forms of a histogram are on the page; the native one is exact enough
			// for every panel and a tenth of the series.
			"scrape_native_histograms": true, "always_scrape_classic_histograms": false,
			"enable_compression": false, // the bytes stay in the process
		}},
		"alerting": object{"alertmanagers": managers},
	})
	if err != nil {
		return nil, err
	}
	c, err := config.Load(string(text), o.Log)
	if err != nil {
		return nil, fmt.Errorf("configure the embedded Prometheus: %w", err)
	}
	return c, nil
}

// unnamed sends what the notifier has addressed by a destination's name to the path of
// its URL. The notifier shows its addresses in logs and labels, and a path may be the
// secret; so it never learns it, nor does an error tell it.
func unnamed(destinations []Destination) func(context.Context, *http.Client, *http.Request) (*http.Response, error) {
	return func(ctx context.Context, client *http.Client, r *http.Request) (*http.Response, error) {
		for _, d := range destinations {
			u, err := url.Parse(d.URL)
			if err == nil && r.URL.Path == path.Join("/", d.Name, apiPath) {
				r.URL.Path, r.URL.RawPath, r.URL.RawQuery = strings.TrimSuffix(u.Path, "/")+apiPath, "", u.RawQuery
				break
			}
		}
		response, err := client.Do(r.WithContext(ctx))
		return response, withoutURL(err)
	}
}

// apiPath is what Alertmanagers take alerts at, below their prefix.
const apiPath = "/api/v2/alerts"

// withoutURL takes the URL out of the error of a client: it may be the secret.
func withoutURL(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		return inner.Err
	}
	return err
}

// alertmanagers are the targets of the notifier, by the names that it gives to the
// entries of its configuration.
func alertmanagers(destinations []Destination) map[string][]*targetgroup.Group {
	groups := map[string][]*targetgroup.Group{}
	for i, d := range destinations {
		u, err := url.Parse(d.URL)
		if err != nil {
			continue // newConfig has refused it
		}
		name := fmt.Sprintf("config-%d", i)
		groups[name] = []*targetgroup.Group{{Source: name, Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(u.Host)}}}}
	}
	return groups
}
