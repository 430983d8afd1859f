package discovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func problemsOf(problems []Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%d: %s", p.Line, p.Message))
	}
	return strings.Join(out, "\n")
}

// What is printed has all defaults and absolute paths, and no secret; it is read again
// as what it was.
func TestCheckShowsWhatMayBeShown(t *testing.T) {
	for _, tt := range []struct{ name, key, yaml, want string }{
		{"file", "file_sd_configs", "- files:\n    - targets/*.json\n    - /abs/t.yml\n", `
- files:
  - /etc/inferbeat/targets/*.json
  - /abs/t.yml
  refresh_interval: 5m
`},
		{"http", "http_sd_configs", "- url: https://inventory/llm?token=hunter2\n  basic_auth:\n    username: me\n    password: hunter3\n", `
- basic_auth:
    username: me
    password: <secret>
  follow_redirects: true
  enable_http2: true
  refresh_interval: 1m
  url: https://inventory/llm?<secret>
`},
		{"http with files and headers", "http_sd_configs", "- url: http://inventory\n  refresh_interval: 30s\n  authorization:\n    credentials_file: token\n  http_headers:\n    X-Key:\n      secrets: [hunter2]\n", `
- authorization:
    type: Bearer
    credentials_file: /etc/inferbeat/token
  follow_redirects: true
  enable_http2: true
  http_headers:
    X-Key:
      secrets:
      - <secret>
  refresh_interval: 30s
  url: http://inventory
`},
		{"dns", "dns_sd_configs", "- names: [llm.svc]\n  type: A\n  port: 8000\n", `
- names:
  - llm.svc
  refresh_interval: 30s
  type: A
  port: 8000
`},
		{"kubernetes", "kubernetes_sd_configs", "- role: pod\n  namespaces:\n    names: [llm]\n  selectors:\n    - role: pod\n      label: app=vllm\n", `
- role: pod
  kubeconfig_file: ""
  follow_redirects: true
  enable_http2: true
  namespaces:
    own_namespace: false
    names:
    - llm
  selectors:
  - role: pod
    label: app=vllm
`},
		{"relabel", "relabel_configs", "- source_labels: [__meta_x, y]\n  regex: (.+);(.*)\n  target_label: target\n  replacement: ${1}-$2\n- action: drop\n  source_labels: [z]\n  regex: a\n", `
- source_labels: [__meta_x, "y"]
  separator: ;
  regex: (.+);(.*)
  target_label: target
  replacement: ${1}-$2
  action: replace
- source_labels: [z]
  separator: ;
  regex: a
  replacement: $1
  action: drop
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, problems := Check(Section{Key: tt.key, Dir: "/etc/inferbeat", YAML: tt.yaml})
			if len(problems) > 0 {
				t.Fatal(problemsOf(problems))
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), shown); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
			again, problems := Check(Section{Key: tt.key, Dir: "/elsewhere", YAML: shown})
			if again != shown || len(problems) > 0 {
				t.Errorf("read again it is\n%s%s", again, problemsOf(problems))
			}
		})
	}
}

// Mistakes have their line, come all at once, and repeat nothing that may be a secret.
func TestCheckReportsMistakes(t *testing.T) {
	for _, tt := range []struct{ name, key, yaml, want string }{
		{"unknown key", "file_sd_configs", "- files: [a.json]\n  refresh_intervall: 5m\n", "2: unknown key refresh_intervall"},
		{"several", "http_sd_configs", "- url: http://a\n  tls_confg: {}\n  basic_auth: hunter2\n- url: ftp://a\n- role: pod\n  url: http://b\n",
			"2: unknown key tls_confg\n3: holds a string where Prometheus wants a mapping or another kind of value\n4: URL scheme must be 'http' or 'https'\n5: unknown key role"},
		{"no files", "file_sd_configs", "- files: []\n", "1: file service discovery config must contain at least one path name"},
		{"bad file name", "file_sd_configs", "- files: [targets.txt]\n", `1: path name "targets.txt" is not valid for file discovery`},
		{"bad duration", "file_sd_configs", "- files: [a.json]\n  refresh_interval: soon\n", `1: not a valid duration string: "soon"`},
		{"password in the URL", "http_sd_configs", "- url: http://me:hunter2@a/\n", "1: must not hold a user or a password in url: send them with basic_auth"},
		{"URL that is none", "http_sd_configs", "- url: \"http://me:hunter2@a:b/\"\n", "1: holds a URL that is none"},
		{"two secrets", "http_sd_configs", "- url: http://a\n  bearer_token: hunter2\n  basic_auth:\n    password: hunter3\n", "1: at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be configured"},
		{"secret as a list", "http_sd_configs", "- url: http://a\n  bearer_token: [hunter2]\n", "2: holds a list where Prometheus wants a mapping or another kind of value"},
		{"secret as a key", "http_sd_configs", "- url: http://a\n  \"Bearer hunter2\": x\n", "2: unknown key (not shown, it is not a plain word)"},
		{"dns without names", "dns_sd_configs", "- type: A\n", "1: DNS-SD config must contain at least one SRV record name"},
		{"dns without port", "dns_sd_configs", "- names: [a]\n  type: A\n", "1: a port is required in DNS-SD configs for all record types except SRV"},
		{"role", "kubernetes_sd_configs", "- role: pods\n", `1: unknown Kubernetes SD role "pods"`},
		{"no role", "kubernetes_sd_configs", "- namespaces: {names: [a]}\n", "1: role missing (one of: pod, service, endpoints, endpointslice, node, ingress)"},
		{"no mapping", "file_sd_configs", "- targets.json\n", "1: holds an item that is not a mapping"},
		{"no list", "file_sd_configs", "files: [a.json]\n", "0: must be a list"},
		{"regex", "relabel_configs", "- source_labels: [a]\n  regex: (\n  target_label: b\n", "1: error parsing regexp: missing closing ): (not shown)"},
		{"relabel action", "relabel_configs", "- action: dorp\n", `1: unknown relabel action "dorp"`},
		{"relabel without target", "relabel_configs", "- source_labels: [a]\n", "1: relabel configuration for replace action requires 'target_label' value"},
		{"label that is no label", "relabel_configs", "- target_label: a.b\n  replacement: c\n", `1: "a.b" is invalid 'target_label' for replace action`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Check(Section{Key: tt.key, Dir: "/", YAML: tt.yaml})
			got := problemsOf(problems)
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if strings.Contains(got, "hunter") {
				t.Errorf("a secret is shown: %s", got)
			}
			for _, p := range problems {
				if p.Unknown != "" && len(p.Known) == 0 {
					t.Errorf("unknown key %s has nothing to be compared with", p.Unknown)
				}
			}
		})
	}
}

func entryOf(t *testing.T, name string, sections ...string) Entry {
	t.Helper()
	var list []Section
	for i := 0; i < len(sections); i += 2 {
		list = append(list, Section{Key: sections[i], Dir: t.TempDir(), YAML: sections[i+1]})
	}
	e, err := NewEntry(name, list)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
