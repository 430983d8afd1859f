package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Embedded is the Prometheus inside the daemon.
type Embedded struct {
	Enabled            bool               `yaml:"enabled" default:"false" doc:"Keep the metrics in a Prometheus inside the daemon, evaluate the shipped alert rules there, and answer Prometheus's query API read-only under /api/v1, so that Grafana needs no other. Leave it off where a Prometheus scrapes /metrics."`
	Path               string             `yaml:"path" as:"path" doc:"Folder of the series. When not written, data/prometheus in the working folder."`
	Retention          time.Duration      `yaml:"retention" default:"15d" min:">0" doc:"How long series are kept."`
	MaxSize            int                `yaml:"max_size" as:"size" default:"4GB" doc:"Most that the folder may take; beyond it the oldest blocks, of two hours and more, go first. 0 is no bound."`
	ScrapeInterval     time.Duration      `yaml:"scrape_interval" default:"15s" min:">0" doc:"How often the metrics are read."`
	EvaluationInterval time.Duration      `yaml:"evaluation_interval" default:"1m" min:">0" doc:"How often rule groups without an interval of their own are evaluated."`
	RulesFaster        float64            `yaml:"rules_faster" default:"1" min:">0" doc:"Divides every window and waiting time of the shipped rules, to see them work in minutes. Judgements of sped-up rules are for a demonstration only."`
	Alertmanagers      named[destination] `yaml:"alertmanagers" doc:"Where alerts are sent to: a list, merged by name. Every one of them gets all."`
	Webhooks           named[destination] `yaml:"webhooks" doc:"URLs that are told which critical and warning alerts fire, in the form of Alertmanager's webhooks: a list, merged by name. Nothing is inhibited or silenced on this way; an Alertmanager can do that."`

	// To and Hooks are both lists with their secrets read.
	To, Hooks []Destination `yaml:"-"`
}

type destination struct {
	Name            string        `yaml:"name" doc:"Name for logs and metrics; required."`
	URL             probes.Secret `yaml:"url" doc:"Where it is: of an Alertmanager its base, http://host:9093. Never printed; better url_file where it holds a key."`
	URLFile         string        `yaml:"url_file" as:"path" doc:"File that holds the url."`
	BearerTokenFile string        `yaml:"bearer_token_file" as:"path" doc:"File that holds the bearer token to send."`
}

// Destination is where alerts are sent to.
type Destination struct {
	Name        string
	URL         probes.Secret
	BearerToken probes.Secret
}

// embedded checks the section and reads its secrets.
func (b *builder) embedded() {
	e := &b.doc.Embedded
	e.To = b.destinations("embedded.alertmanagers", e.Alertmanagers)
	e.Hooks = b.destinations("embedded.webhooks", e.Webhooks)
	if !e.Enabled && len(e.To)+len(e.Hooks) > 0 {
		b.report("embedded.enabled", "must be true for alerts to be sent; without it a Prometheus of your own sends them")
	}
	b.cfg.Embedded = *e
	if e.Path == "" {
		b.cfg.Embedded.Path = filepath.Join("data", "prometheus")
	}
}

func (b *builder) destinations(at string, list named[destination]) []Destination {
	var out []Destination
	for _, name := range sortedKeys(list) {
		d, path := list[name], at+"["+name+"]"
		to := Destination{Name: name, URL: d.URL}
		switch {
		case b.set(path+".url") && b.set(path+".url_file"):
			b.report(path+".url_file", "must not be written beside url")
			continue
		case b.set(path + ".url_file"):
			to.URL = b.secret(path+".url_file", d.URLFile)
		case !b.set(path + ".url"):
			b.report(path, "needs a url or a url_file")
			continue
		}
		if b.set(path + ".bearer_token_file") {
			to.BearerToken = b.secret(path+".bearer_token_file", d.BearerTokenFile)
		}
		if to.URL != "" {
			if err := checkDestination(to.URL.Reveal()); err != nil {
				b.report(path, "%v", err)
				continue
			}
		}
		out = append(out, to)
	}
	return out
}

// checkDestination repeats nothing of the URL, which may be the secret.
func checkDestination(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("its URL must begin with http:// or https:// and a host")
	}
	return nil
}

// secret reads the one line of a file; what is wrong with it is reported without
// its name, in place of which somebody may have written the secret.
func (b *builder) secret(path, file string) probes.Secret {
	text, err := readSecret(file)
	if err != nil {
		b.report(path, "%v", err)
	}
	return text
}

func readSecret(file string) (probes.Secret, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %s", cause(err))
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("must hold one line, the secret")
	}
	return probes.Secret(line), nil
}
