//go:build e2e

package cli

import (
	"fmt"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// What happens to the daemon in an outage changes nothing about the outage: one that is
// killed and started again keeps one page, with the time at which it began; a mistake in
// the configuration is told and the old one goes on; and only a target that is taken
// out ends its page.
func TestE2EAlertsSurviveTheDaemon(t *testing.T) {
	t.Parallel()           // it waits more than it works
	r := rehearse(t, "30") // keep_firing_for of five minutes is ten seconds, enough for a restart
	set(t, r.engines["falls"], fakellm.Fault{Kind: fakellm.Unavailable})
	outage := time.Now()
	page := r.follow("outage", "InferbeatPoolDown", "pager", outage)

	if err := r.daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.daemon.Wait()
	killed := time.Now()
	r.start()
	eventually(t, "the new daemon counts on where the old one was", func() bool {
		v, ok := query(t, r.prometheus, fmt.Sprintf(`inferbeat_consecutive_failures{target="falls"} and on (instance) process_start_time_seconds > %d`, killed.Unix()))
		return ok && v >= 3
	})
	eventually(t, "an alert that was only held has ended", func() bool { return time.Since(killed) > 17*time.Second })
	if got := r.state("InferbeatPoolDown"); got != "firing" {
		t.Errorf("InferbeatPoolDown is %q after the restart, want firing", got)
	}
	if n, ok := r.inbox.got(outage, "pager", "resolved", "InferbeatPoolDown"); ok {
		t.Errorf("the pager was told at %v that the outage is over, with %v", n.at, n.labels)
	}
	r.once("InferbeatPoolDown", page)

	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	mistake := time.Now()
	r.reload(string(text) + "nonsense: 1\n")
	r.follow("broken configuration", "InferbeatConfigReloadFailed", "default", mistake)
	if got := r.state("InferbeatPoolDown"); got != "firing" {
		t.Errorf("InferbeatPoolDown is %q with a broken configuration, want firing", got)
	}

	removed := time.Now()
	r.reload(regexp.MustCompile(`(?m)^  - \{name: falls,.*\n`).ReplaceAllString(string(text), ""))
	r.resolved("configuration mended", "InferbeatConfigReloadFailed", "default", removed)
	r.resolved("target taken out", "InferbeatPoolDown", "pager", removed)
	r.once("InferbeatPoolDown", page)
	r.never(outage, "default", "InferbeatTargetsDropped", "")
	r.timeline()
}

// reload writes another configuration and tells the daemon.
func (r *rehearsal) reload(text string) {
	r.Helper()
	writeText(r.T, r.config, text)
	if err := r.daemon.Process.Signal(syscall.SIGHUP); err != nil {
		r.Fatal(err)
	}
}

// once checks that all that was told of an alert is about one of them, which began when
// the first one did.
func (r *rehearsal) once(alert string, first notification) {
	r.Helper()
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	for _, n := range r.inbox.all {
		if n.alert == alert && n.receiver == first.receiver && !n.began.Equal(first.began) {
			r.Errorf("%s began at %v and again at %v, with %v", alert, first.began, n.began, n.labels)
		}
	}
}
