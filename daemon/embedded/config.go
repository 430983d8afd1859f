package embedded

import (
	"encoding/json"
	"fmt"
	"net/url"
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
			"api_version": "v2", "scheme": u.Scheme, "path_prefix": u.Path,
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
