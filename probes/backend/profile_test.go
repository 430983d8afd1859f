package backend

import (
	"strings"
	"testing"

	"github.com/inferbeat/inferbeat/probes"
)

func TestProfile(t *testing.T) {
	all := probes.Profile{Activities: []string{"CPU", "GPU"}, StartStep: 2, Steps: 5, ByStage: true, Stages: []string{"decode"}, OutputDir: "/tmp/p", Prefix: "n"}
	for _, test := range []struct {
		backend string
		profile probes.Profile
		body    string
	}{
		{"sglang", probes.Profile{}, `{}`},
		{"sglang-oai-chat", all, `{"activities":["CPU","GPU"],"num_steps":5,"output_dir":"/tmp/p","profile_by_stage":true,"profile_prefix":"n","profile_stages":["decode"],"start_step":2}`},
		{"vllm-chat", probes.Profile{}, ``},
	} {
		s := &server{answers: []timeline{answer(200, 0, "text/plain", "Start profiling."), answer(200, 0, "text/plain", "Stop profiling.")}}
		tg := target(test.backend)
		tg.BaseURL = "http://engine:8000/v1"
		c := newClient(t, tg, s)
		if err := c.StartProfile(t.Context(), &test.profile); err != nil {
			t.Errorf("%s: StartProfile() = %v", test.backend, err)
		}
		if err := c.StopProfile(t.Context()); err != nil {
			t.Errorf("%s: StopProfile() = %v", test.backend, err)
		}
		if len(s.seen) != 2 {
			t.Fatalf("%s: %d requests, want 2", test.backend, len(s.seen))
		}
		for i, path := range []string{"/start_profile", "/stop_profile"} {
			if s.seen[i].Method != "POST" || s.seen[i].URL.Path != path {
				t.Errorf("%s: %s %s, want POST %s", test.backend, s.seen[i].Method, s.seen[i].URL.Path, path)
			}
		}
		if got := string(s.seen[0].body); got != test.body {
			t.Errorf("%s: started with %s, want %s", test.backend, got, test.body)
		}
	}
}

func TestProfileThatCannotBe(t *testing.T) {
	for _, test := range []struct {
		backend string
		profile probes.Profile
		want    string
	}{
		{"vllm", probes.Profile{Steps: 3}, "backend vllm: its profiler takes no options"},
		{"openai", probes.Profile{}, "backend openai has no call to profile"},
		{"sglang", probes.Profile{}, ""},
		{"no-such", probes.Profile{}, ""}, // Check says that
	} {
		err := CheckProfile(test.backend, &test.profile)
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("CheckProfile(%s) = %v, want %q", test.backend, err, test.want)
		}
		if test.want == "" {
			continue
		}
		s := &server{}
		if err := newClient(t, target(test.backend), s).StartProfile(t.Context(), &test.profile); err == nil || s.conns != 0 {
			t.Errorf("StartProfile of %s = %v with %d connections", test.backend, err, s.conns)
		}
	}
	s := &server{answers: []timeline{answer(404, 0, "text/plain", "Not Found"), answer(500, 0, "text/plain", "disk full")}}
	c := newClient(t, target("vllm"), s)
	if err := c.StartProfile(t.Context(), &probes.Profile{}); err == nil || !strings.Contains(err.Error(), "--profiler-config") {
		t.Errorf("without a profiler: %v, want a word on how to have one", err)
	}
	if err := c.StopProfile(t.Context()); err == nil || err.Error() != "stop profile: status 500 Internal Server Error: disk full" {
		t.Errorf("StopProfile() = %v", err)
	}
}

func TestCheckFlush(t *testing.T) {
	for name, can := range map[string]bool{"sglang": true, "vllm-chat": true, "openai-chat": false, "ollama": false} {
		if err := CheckFlush(name); (err == nil) != can {
			t.Errorf("CheckFlush(%s) = %v, want an error: %v", name, err, !can)
		}
	}
}
