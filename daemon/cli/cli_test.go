package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHelp(t *testing.T) {
	overview := call(t.Context(), nil, "help")
	if overview.code != exitPass || overview.stderr != "" {
		t.Errorf("help: code %d, stderr %q", overview.code, overview.stderr)
	}
	for _, c := range commands() {
		contains(t, "help", overview.stdout, c.usage, c.short)
		long := call(t.Context(), nil, c.name, "--help")
		short := call(t.Context(), nil, c.name, "-h")
		other := call(t.Context(), nil, "help", c.name)
		if long.code != exitPass || long.stderr != "" || long != short || long != other {
			t.Errorf("%s: --help, -h and help differ or fail: %d %d %d", c.name, long.code, short.code, other.code)
		}
		contains(t, c.name+" --help", long.stdout, "Usage: inferbeat "+c.usage+"\n\n"+c.about+"\n")
		for _, line := range strings.Split(long.stdout, "\n") {
			if len(line) > 110 {
				t.Errorf("%s --help: a line of %d columns: %s", c.name, len(line), line)
			}
		}
	}
	for _, other := range []string{"-h", "--help"} {
		if got := call(t.Context(), nil, other); got != overview {
			t.Errorf("%s is not help", other)
		}
	}
}

// The flags of run come in groups, in the order in which one thinks of them.
func TestHelpOfRunIsGrouped(t *testing.T) {
	text := call(t.Context(), nil, "run", "--help").stdout
	var titles []string
	for _, line := range strings.Split(text, "\n") {
		if title, ok := strings.CutSuffix(line, ":"); ok && !strings.HasPrefix(line, " ") {
			titles = append(titles, title)
		}
	}
	want := []string{
		"Target", "Dataset", "Shared prefixes, images and traces", "Load", "One part of a load that several processes send; 'inferbeat merge' joins their results", "Sampling", "Timeouts of each request (0 is no bound)",
		"Configuration, instead of the flags above", "Output",
	}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestCallMistakes(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "inferbeat: needs a command\n\n" + overview() + "\n"},
		{[]string{"srve"}, "inferbeat: there is no command \"srve\", did you mean \"serve\"?\n"},
		{[]string{"benchmark"}, "inferbeat: there is no command \"benchmark\"; 'inferbeat help' lists them\n"},
		{[]string{"help", "nothing"}, "inferbeat: there is no command \"nothing\"; 'inferbeat help' lists them\n"},
		{[]string{"version", "x"}, "inferbeat version: argument 1 belongs to no flag: options are written --name value, and a value with spaces in quotes; see 'inferbeat version --help'\n"},
		{[]string{"check"}, "inferbeat check: --config: missing, name the configuration file\n"},
		{[]string{"check", "--starts", "-1"}, "inferbeat check: 2 problems\n--config: missing, name the configuration file\n--starts: -1 is negative; 0 lists none\n"},
		{[]string{"check", "--config", "nothing.yaml"}, "inferbeat check: nothing.yaml: read file: no such file or directory\n"},
		{[]string{"serve", "--watch", "-1s"}, "inferbeat serve: 2 problems\n--config: missing, name the configuration file; 'inferbeat demo' needs none\n--watch: -1s is negative; 0 never looks\n"},
		{[]string{"serve", "--conf", "x"}, "inferbeat serve: unknown flag --conf, did you mean \"--config\"?\n"},
		{[]string{"serve", "--config", "../../deploy/examples/minimal.yaml", "--listen", "nowhere", "--log-level", "loud"}, "inferbeat serve: 2 problems\n" +
			"command line: log.level: must be one of debug, info, warn, error, got \"loud\"\ncommand line: web.listen_address: must be host:port, e.g. 127.0.0.1:9799 or [::1]:9799\n"},
		{[]string{"demo", "--listen", "nowhere"}, "web.listen_address: must be host:port, e.g. 127.0.0.1:9799 or [::1]:9799\n"},
	} {
		got := call(t.Context(), nil, tt.args...)
		if got.code != exitUsage || got.stdout != "" || !strings.HasSuffix(got.stderr, tt.want) {
			t.Errorf("%q: code %d, stdout %q, stderr:\n%swant 2, nothing, and:\n%s", tt.args, got.code, got.stdout, got.stderr, tt.want)
		}
	}
}

func TestVersion(t *testing.T) {
	want := result{code: exitPass, stdout: "inferbeat " + buildVersion() + "\n"}
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if got := call(t.Context(), nil, args...); got != want {
			t.Errorf("%q: got %+v, want %+v", args, got, want)
		}
	}
}

func TestReferenceIsUpToDate(t *testing.T) {
	written, err := os.ReadFile("REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(Reference()), string(written)); diff != "" {
		t.Errorf("run go generate ./daemon/cli (-want +got):\n%s", diff)
	}
}
