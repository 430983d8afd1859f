package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdown(t *testing.T) {
	got := string(markdown("# Inferbeat<b>\n\nText & `code <x>` of InferbeatPoolDown, not InferbeatNothing.\n\n## Checks\n\n"+
		"1. First?\n\n   ```promql\n   sum(a) > 0\n     and b\n   ```\n\n2. Second.\n\n## End\n\n1. `one`: two.\n", []string{"InferbeatPoolDown"}))
	want := "<h1>Inferbeat&lt;b&gt;</h1>\n" +
		"<p>Text &amp; <code>code &lt;x&gt;</code> of <a href=\"/runbooks/InferbeatPoolDown\">InferbeatPoolDown</a>, not InferbeatNothing.</p>\n" +
		"<h2>Checks</h2>\n<ol>\n<li>First?<pre><code>sum(a) &gt; 0\n  and b\n</code></pre>\n</li>\n<li>Second.</li></ol>\n" +
		"<h2>End</h2>\n<ol>\n<li><code>one</code>: two.</li></ol>\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("page (-want +got):\n%s", d)
	}
}

func TestRunbookPages(t *testing.T) {
	h := Handler(Options{Source: fixedSource{}, Metrics: http.NotFoundHandler(), Runbooks: []string{"InferbeatB", "InferbeatA"},
		Runbook: func(name string) (string, bool) { return "# " + name + "\n", name == "InferbeatA" }})
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/runbooks/":              {200, `<li><a href="/runbooks/InferbeatA">InferbeatA</a></li><li><a href="/runbooks/InferbeatB">InferbeatB</a></li>`},
		"/runbooks/InferbeatA":    {200, "<h1>InferbeatA</h1>"},
		"/runbooks/InferbeatA.md": {200, "<title>InferbeatA · Inferbeat</title>"},
		"/runbooks/InferbeatC":    {404, "there is no such runbook; /runbooks/ lists them"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.text) {
			t.Errorf("GET %s = %d, %.300s; want %d with %s", path, w.Code, w.Body.String(), want.code, want.text)
		}
		if got := w.Header().Get("Content-Security-Policy"); (got != "") != (want.code == 200) {
			t.Errorf("GET %s: policy %q", path, got)
		}
	}
}
