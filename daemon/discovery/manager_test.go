package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	apiv1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// inventory is a server for http_sd_configs on connections in memory.
type inventory struct {
	mu     sync.Mutex
	answer string // empty: 503
	asked  int
}

func (i *inventory) set(answer string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

func (i *inventory) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	if i.answer == "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(i.answer))
}

// managed runs a manager in a bubble. seen is what was found at each change, with the
// seconds since the start.
type managed struct {
	*Manager
	inventory *inventory
	url       string // of the inventory
	log       bytes.Buffer
	seen      []string
}

func inBubble(t *testing.T, test func(t *testing.T, m *managed)) {
	synctest.Test(t, func(t *testing.T) {
		m := &managed{inventory: &inventory{}}
		var network fakellm.Network
		defer network.Close()
		m.url = network.Serve(m.inventory)
		m.Manager = New(Options{Dial: network.Dial, Log: slog.New(slog.NewTextHandler(&m.log, nil))})
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.Run(ctx, func() { m.seen = append(m.seen, fmt.Sprintf("%gs %s", time.Since(start).Seconds(), m.addresses())) })
		}()
		defer func() {
			stop()
			<-ended
		}()
		test(t, m)
	})
}

func (m *managed) addresses() string {
	var out []string
	for _, f := range m.Found() {
		out = append(out, f.Entry+"/"+f.Address)
	}
	return strings.Join(out, " ")
}

// after lets time pass, to the quiet after the last event.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func httpSD(url string) string {
	return "- url: " + url + "\n  refresh_interval: 30s\n  enable_http2: false\n"
}

func groupsOf(addresses ...string) string {
	text, _ := json.Marshal([]map[string]any{{"targets": addresses}})
	return string(text)
}

// The answers of a web server become changes; a refresh that fails changes nothing, and
// an empty answer does.
func TestRefreshes(t *testing.T) {
	inBubble(t, func(t *testing.T, m *managed) {
		m.Replace([]Entry{entryOf(t, "e", "http_sd_configs", httpSD(m.url+"/?token=hunter2"))})
		after(10 * time.Second) // the server is down
		start := time.Now().Add(-10 * time.Second)
		if diff := cmp.Diff([]State{{Mechanism: "http", Failures: 1}}, m.State()); diff != "" {
			t.Errorf("down from the start (-want +got):\n%s", diff)
		}
		if m.Complete() {
			t.Error("complete without an answer")
		}
		m.inventory.set(groupsOf("b:1", "a:1"))
		after(30 * time.Second)
		if diff := cmp.Diff([]State{{Mechanism: "http", Failures: 1, Targets: 2, LastSuccess: start.Add(30 * time.Second)}}, m.State()); diff != "" {
			t.Errorf("up (-want +got):\n%s", diff)
		}
		m.inventory.set("")
		after(30 * time.Second)
		m.inventory.set(`[{"targets": "a"}]`)
		after(30 * time.Second)
		if got, want := m.addresses(), "e/a:1 e/b:1"; got != want || !m.Complete() {
			t.Errorf("after two failures: got %q, want %q", got, want)
		}
		if diff := cmp.Diff([]State{{Mechanism: "http", Failures: 3, Targets: 2, LastSuccess: start.Add(30 * time.Second)}}, m.State()); diff != "" {
			t.Errorf("failing (-want +got):\n%s", diff)
		}
		m.inventory.set("[]")
		after(30 * time.Second)
		// 30.25 s: 250 ms are left for more to come.
		want := []string{"0.25s ", "30.25s e/a:1 e/b:1", "120.25s "}
		if diff := cmp.Diff(want, m.seen); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if log := m.log.String(); strings.Contains(log, "hunter2") || !strings.Contains(log, "503") {
			t.Errorf("the log shows the token, or not the cause:\n%s", log)
		}
	})
}

// Many changes are few: the first is quick, the next ones wait for five seconds.
func TestChangesAreJoined(t *testing.T) {
	inBubble(t, func(t *testing.T, m *managed) {
		m.inventory.set(groupsOf("a:1"))
		fast := strings.Replace(httpSD(m.url), "30s", "1s", 1)
		m.Replace([]Entry{entryOf(t, "e", "http_sd_configs", fast)})
		time.Sleep(500 * time.Millisecond) // between the refreshes
		for i := range 12 {
			time.Sleep(time.Second)
			m.inventory.set(groupsOf(fmt.Sprintf("h%d:1", i)))
		}
		synctest.Wait()
		want := []string{"0.25s e/a:1", "5.25s e/h3:1", "10.25s e/h8:1"}
		if diff := cmp.Diff(want, m.seen); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

// A change of the configuration leaves equal providers alone; the lists of others stand
// until their successors have reported, or for half a minute.
func TestReplace(t *testing.T) {
	inBubble(t, func(t *testing.T, m *managed) {
		m.inventory.set(groupsOf("a:1", "b:1"))
		before := entryOf(t, "e", "http_sd_configs", httpSD(m.url))
		m.Replace([]Entry{before})
		after(10 * time.Second)
		asked := m.inventory.asked

		dropping := entryOf(t, "e", "http_sd_configs", httpSD(m.url), "relabel_configs", "- source_labels: [__address__]\n  regex: a:1\n  action: drop\n")
		dropping.dirs = before.dirs
		if got := foundText(m.Preview([]Entry{dropping})); got != "e/b:1" {
			t.Errorf("previewed %q, want e/b:1", got)
		}
		if got := m.addresses(); got != "e/a:1 e/b:1" {
			t.Errorf("a preview has changed something: %q", got)
		}
		m.Replace([]Entry{dropping})
		if got := m.addresses(); got != "e/b:1" || m.inventory.asked != asked {
			t.Errorf("other rules: got %q and %d requests, want e/b:1 and none", got, m.inventory.asked-asked)
		}

		// Another provider, which does not answer: the old list stands for half a minute.
		m.inventory.set("")
		other := entryOf(t, "e", "http_sd_configs", httpSD(m.url+"/elsewhere"))
		if got := foundText(m.Preview([]Entry{other})); got != "e/a:1 e/b:1" {
			t.Errorf("previewed %q, want the old list", got)
		}
		m.Replace([]Entry{other})
		after(29 * time.Second)
		if got := m.addresses(); got != "e/a:1 e/b:1" {
			t.Errorf("while the successor is silent: got %q", got)
		}
		after(2 * time.Second)
		if got := m.addresses(); got != "" {
			t.Errorf("after half a minute: got %q, want nothing", got)
		}
		// One that answers takes over at once; failures of those before are not forgotten.
		m.inventory.set(groupsOf("c:1"))
		m.Replace([]Entry{entryOf(t, "e", "http_sd_configs", httpSD(m.url+"/third"))})
		after(time.Second)
		if got := m.addresses(); got != "e/c:1" {
			t.Errorf("the successor has answered: got %q, want e/c:1", got)
		}
		if got := m.State(); len(got) != 1 || got[0].Failures != 2 || got[0].Targets != 1 {
			t.Errorf("got state %+v, want 2 failures and 1 target", got)
		}
		m.Replace(nil)
		if got := m.addresses(); got != "" {
			t.Errorf("without entries: got %q", got)
		}
	})
}

func foundText(found []Found) string {
	var out []string
	for _, f := range found {
		out = append(out, f.Entry+"/"+f.Address)
	}
	return strings.Join(out, " ")
}

// A provider that cannot start is tried again, and counted.
func TestProviderThatCannotStart(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	inBubble(t, func(t *testing.T, m *managed) {
		m.Replace([]Entry{entryOf(t, "e", "kubernetes_sd_configs", "- role: pod\n")})
		after(65 * time.Second)
		if diff := cmp.Diff([]State{{Mechanism: "kubernetes", Failures: 3}}, m.State()); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		if !strings.Contains(m.log.String(), "unable to load in-cluster configuration") {
			t.Errorf("the log does not say why:\n%s", &m.log)
		}
	})
}

// A file that cannot be read among others that can is no success; and a log beside the
// files, whose lines wake the watch, does not have one line cause the next.
func TestSuccessOfFiles(t *testing.T) {
	dir := t.TempDir()
	logFile, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.json", groupsOf("a:1"))
	write("b.json", `[{"targets`)
	m := New(Options{Interval: time.Millisecond, Log: slog.New(slog.NewTextHandler(logFile, nil))})
	ctx, stop := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx, func() {
			select {
			case changes <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { stop(); <-ended }()
	e := entryOf(t, "e", "file_sd_configs", "- files: ['"+dir+"/*.json']\n")
	m.Replace([]Entry{e})
	until := func(what string, ok func(State) bool) {
		t.Helper()
		for range 100 {
			if states := m.State(); len(states) == 1 && ok(states[0]) {
				return
			}
			select {
			case <-changes:
			case <-time.After(10 * time.Second):
			}
		}
		t.Fatalf("%s: got %+v", what, m.State())
	}
	until("one of two files", func(s State) bool { return s.Targets == 1 && s.Failures >= 1 && s.LastSuccess.IsZero() })
	write("b.json", groupsOf("b:1", "c:1"))
	until("both files", func(s State) bool { return s.Targets == 3 && !s.LastSuccess.IsZero() })
	before := m.State()[0]
	write("b.json", `[{"targets`)
	until("a file that has broken", func(s State) bool { return s.Failures > before.Failures })
	write("b.json", groupsOf("b:1"))
	until("it is whole again", func(s State) bool { return s.Targets == 2 && s.LastSuccess.After(before.LastSuccess) })
	if n := m.State()[0].Failures; n > 10 {
		t.Errorf("%d failures: the log wakes the watch", n)
	}
}

// Pods come over the wire of the Kubernetes API: a list, and then a watch.
func TestKubernetesPods(t *testing.T) {
	pod := func(name, ip, phase string) apiv1.Pod {
		return apiv1.Pod{
			TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "llm", UID: "1", ResourceVersion: "7", Labels: map[string]string{"app": "vllm"}},
			Spec:       apiv1.PodSpec{Containers: []apiv1.Container{{Name: "vllm", Ports: []apiv1.ContainerPort{{Name: "http", ContainerPort: 8000}}}}},
			Status:     apiv1.PodStatus{PodIP: ip, Phase: apiv1.PodPhase(phase)},
		}
	}
	events := make(chan metav1.WatchEvent)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/namespaces/llm/pods" || r.Header.Get("Authorization") != "Bearer hunter2" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if got := r.URL.Query().Get("labelSelector"); got != "app=vllm" {
			t.Errorf("asked with selector %q", got)
		}
		if r.URL.Query().Get("watch") == "" {
			list := apiv1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []apiv1.Pod{pod("vllm-0", "10.0.0.1", "Running")}}
			_ = json.NewEncoder(w).Encode(list)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" { // an API server of before watch lists
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "sendInitialEvents"}}}})
			return
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case e := <-events:
				_ = json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			}
		}
	}))
	defer api.Close()
	m := New(Options{Interval: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	changes, ended := make(chan string), make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx, func() {
			select {
			case changes <- foundText(m.Found()):
			case <-ctx.Done():
			}
		})
	}()
	defer func() { stop(); <-ended }()
	m.Replace([]Entry{entryOf(t, "e", "kubernetes_sd_configs", "- role: pod\n  api_server: "+api.URL+"\n  authorization: {credentials: hunter2}\n  namespaces: {names: [llm]}\n  selectors: [{role: pod, label: app=vllm}]\n",
		"relabel_configs", "- source_labels: [__meta_kubernetes_pod_ready, __meta_kubernetes_pod_phase]\n  regex: .*;Running\n  action: keep\n- source_labels: [__meta_kubernetes_namespace, __meta_kubernetes_pod_name]\n  separator: /\n  target_label: target\n")})
	until := func(want string) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for got := ""; got != want; {
			select {
			case got = <-changes:
			case <-deadline:
				t.Fatalf("got %q, want %q; state %+v", got, want, m.State())
			}
		}
	}
	send := func(kind string, p apiv1.Pod) {
		e := metav1.WatchEvent{Type: kind}
		p.ResourceVersion = "8"
		e.Object.Object = &p
		events <- e
	}
	until("e/10.0.0.1:8000")
	send("ADDED", pod("vllm-1", "10.0.0.2", "Running"))
	until("e/10.0.0.1:8000 e/10.0.0.2:8000")
	if got := m.Found()[1].Name; got != "llm/vllm-1" {
		t.Errorf("got name %q, want llm/vllm-1", got)
	}
	send("MODIFIED", pod("vllm-0", "10.0.0.1", "Failed"))
	until("e/10.0.0.2:8000")
	send("DELETED", pod("vllm-1", "10.0.0.2", "Running"))
	until("")
	if got := m.State(); len(got) != 1 || got[0].Mechanism != "kubernetes" || got[0].LastSuccess.IsZero() {
		t.Errorf("got state %+v", got)
	}
}

// A name that cannot be looked up keeps what it gave before, and is no success.
func TestNamesThatCannotBeLookedUp(t *testing.T) {
	e := entryOf(t, "e", "dns_sd_configs", "- names: [a, b]\n  type: A\n  port: 1\n")
	p := newProvider("e", &e.items[0], "")
	group := func(source string, addresses ...string) *targetgroup.Group {
		g := &targetgroup.Group{Source: source}
		for _, a := range addresses {
			g.Targets = append(g.Targets, model.LabelSet{"__address__": model.LabelValue(a)})
		}
		return g
	}
	first, second := time.Unix(1_800_000_000, 0), time.Unix(1_800_000_030, 0)
	for _, step := range []struct {
		groups   []*targetgroup.Group
		at       time.Time
		want     string
		reported bool
		success  time.Time
	}{
		{nil, first, "", false, time.Time{}},
		{[]*targetgroup.Group{group("a", "1:1")}, first, "e/1:1", false, time.Time{}},
		{[]*targetgroup.Group{group("a", "1:1"), group("b", "2:1", "3:1")}, first, "e/1:1 e/2:1 e/3:1", true, first},
		{[]*targetgroup.Group{group("b", "2:1")}, second, "e/1:1 e/2:1", true, first},
		{[]*targetgroup.Group{group("a"), group("b", "2:1")}, second, "e/2:1", true, second}, // a name without records
	} {
		p.take(step.groups, step.at)
		if got := foundText(findAll("e", nil, p.list())); got != step.want || p.reported != step.reported || !p.succeeded.Equal(step.success) {
			t.Errorf("after %v: got %q, reported %v, success %v", step, got, p.reported, p.succeeded)
		}
	}
}
