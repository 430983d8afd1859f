package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEmbedded(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"hook": "https://chat.example/services/SECRET\n", "token": "TOKEN\n", "empty": "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(text string) (*Config, error) {
		if err := os.WriteFile("inferbeat.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Source{Files: []string{"inferbeat.yaml"}}, Checks{})
	}
	c, err := load(`embedded:
  enabled: true
  retention: 3d
  alertmanagers: [{name: main, url: "http://am:9093/prefix", bearer_token_file: token}]
  webhooks: [{name: chat, url_file: hook}]
`)
	if err != nil {
		t.Fatal(err)
	}
	e := c.Embedded
	if e.Retention != 3*24*time.Hour || e.ScrapeInterval != 15*time.Second || e.Path != "data/prometheus" {
		t.Errorf("got retention %v, scrape interval %v and path %q", e.Retention, e.ScrapeInterval, e.Path)
	}
	want := [][3]string{{"main", "http://am:9093/prefix", "TOKEN"}, {"chat", "https://chat.example/services/SECRET", ""}}
	var got [][3]string
	for _, d := range append(e.To, e.Hooks...) {
		got = append(got, [3]string{d.Name, d.URL.Reveal(), d.BearerToken.Reveal()})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("destinations (-want +got):\n%s", diff)
	}
	dump, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	if dump := string(dump); strings.Contains(dump, "SECRET") || strings.Contains(dump, "TOKEN") {
		t.Errorf("the printed configuration tells a secret:\n%s", dump)
	}

	for text, want := range map[string]string{
		"{webhooks: [{name: chat, url_file: hook}]}":                                        "embedded.enabled: must be true for alerts to be sent",
		"{enabled: true, webhooks: [{name: chat}]}":                                         "embedded.webhooks[chat]: needs a url or a url_file",
		"{enabled: true, webhooks: [{name: chat, url: 'SECRET'}]}":                          "embedded.webhooks[chat]: its URL must begin with http:// or https:// and a host",
		"{enabled: true, webhooks: [{name: chat, url: 'http://x', url_file: hook}]}":        "embedded.webhooks[chat].url_file: must not be written beside url",
		"{enabled: true, webhooks: [{name: chat, url_file: SECRET}]}":                       "embedded.webhooks[chat].url_file: cannot be read: no such file or directory",
		"{enabled: true, webhooks: [{name: c, url: 'http://x', bearer_token_file: empty}]}": "embedded.webhooks[c].bearer_token_file: must hold one line, the secret",
	} {
		_, err := load("embedded: " + text + "\n")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: error %v, want it to hold %q and no secret", text, err, want)
		}
	}
}
