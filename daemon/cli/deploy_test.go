package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// setting is the one value of a line NAME=value or NAME value of a file.
func setting(t *testing.T, text, name string) string {
	t.Helper()
	all := regexp.MustCompile(`(?m)^`+name+`[= ](.*)$`).FindAllStringSubmatch(text, -1)
	if len(all) != 1 {
		t.Fatalf("%s is there %d times", name, len(all))
	}
	return all[0][1]
}

// The service runs the configuration that ships beside it, which keeps what it
// measures where the service may write, and ends before it is killed.
func TestSystemdUnit(t *testing.T) {
	const folder = "../../deploy/systemd/"
	unit := readFile(t, folder+"inferbeat.service")
	call := strings.Fields(setting(t, unit, "ExecStart"))
	files, _ := parsed(t, serveCommand, call[1:]).GetStringArray("config")
	if call[0] != "/usr/local/bin/inferbeat" || len(files) != 1 || !strings.Contains(unit, "deploy/systemd/inferbeat.yaml "+files[0]) {
		t.Errorf("it calls %q, which its own manual does not install", call)
	}
	c, err := loadConfig([]string{folder + "inferbeat.yaml"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if state := "/var/lib/" + setting(t, unit, "StateDirectory"); c.Storage.Path != state {
		t.Errorf("the store is in %s, and the service may write to %s", c.Storage.Path, state)
	}
	if stop, err := time.ParseDuration(setting(t, unit, "TimeoutStopSec") + "s"); err != nil || stop < c.ShutdownGrace+10*time.Second {
		t.Errorf("it is killed after %s, and its runs may take %s", stop, c.ShutdownGrace)
	}
	for name, want := range map[string]string{
		"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "",
		"ExecReload": "/bin/kill -HUP $MAINPID", "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
	} {
		if got := setting(t, unit, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// The key of a target in the way of the service's manual is read.
func TestSystemdCredential(t *testing.T) {
	unit := readFile(t, "../../deploy/systemd/inferbeat.service")
	line := regexp.MustCompile(`api_key_file: \S+`).FindString(unit)
	key := writeFile(t, "llm", "sk-SECRET")
	config := writeFile(t, "inferbeat.yaml", strings.Replace(readFile(t, "../../deploy/systemd/inferbeat.yaml"), "backend: vllm-chat,", "backend: vllm-chat, "+line+",", 1))
	c, err := loadConfig([]string{config}, []string{"CREDENTIALS_DIRECTORY=" + filepath.Dir(key)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Targets()[0].Connection.APIKeyFile; line == "" || got != key {
		t.Errorf("the key is read from %q, want %q", got, key)
	}
}

// The image serves the file that compose mounts, as a user without rights, and
// asks itself whether it is ready.
func TestImage(t *testing.T) {
	text := readFile(t, "../../deploy/docker/Dockerfile")
	list := func(name string) (words []string) {
		t.Helper()
		line := setting(t, text, name)
		if err := json.Unmarshal([]byte(line[strings.Index(line, "["):]), &words); err != nil {
			t.Fatalf("%s %s: %v", name, line, err)
		}
		return words
	}
	flags := parsed(t, serveCommand, list("CMD"))
	files, _ := flags.GetStringArray("config")
	if listen, _ := flags.GetString("listen"); len(files) != 1 || listen != ":"+setting(t, text, "EXPOSE") {
		t.Errorf("it serves %q on %q", files, listen)
	}
	if got := list("ENTRYPOINT"); len(got) != 1 || got[0] != "/inferbeat" {
		t.Errorf("it runs %q", got)
	}
	if got := list("HEALTHCHECK"); len(got) != 2 || got[0] != "/inferbeat" || len(parsed(t, healthCommand, got[1:]).Args()) != 0 {
		t.Errorf("its health is %q", got)
	}
	compose := readFile(t, "../../deploy/compose/compose.yaml")
	for _, part := range []string{"- ./inferbeat.yaml:" + files[0] + ":ro\n", "dockerfile: deploy/docker/Dockerfile\n"} {
		if !strings.Contains(compose, part) {
			t.Errorf("compose.yaml does not say %q", part)
		}
	}
	c, err := loadConfig([]string{"../../deploy/compose/inferbeat.yaml"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(compose, "- inferbeat:"+c.Storage.Path+"\n") || !strings.Contains(text, " /data "+c.Storage.Path+"\n") {
		t.Errorf("the store is in %s, which is no volume of compose.yaml, or does not belong to the user of the image", c.Storage.Path)
	}
}

// Paths of the repository that the manuals and the heads of the files name exist.
func TestNamedPathsExist(t *testing.T) {
	root := "../../"
	paths := regexp.MustCompile("(?:^|[\\s(\"'`=[]|\\./)((?:deploy|alerts|daemon|dashboards|exporters|probes)/[\\w./-]*\\w)")
	read := []string{"README.md", "CHANGELOG.md", "dashboards/README.md"}
	if err := filepath.WalkDir(root+"deploy", func(file string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Type().IsRegular() {
			read = append(read, strings.TrimPrefix(file, root))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, file := range read {
		for _, match := range paths.FindAllStringSubmatch(readFile(t, root+file), -1) {
			if _, err := os.Stat(root + match[1]); err != nil {
				t.Errorf("%s names %s: %v", file, match[1], err)
			}
		}
	}
	folders, err := os.ReadDir(root + "deploy")
	if err != nil {
		t.Fatal(err)
	}
	index := readFile(t, root+"deploy/README.md")
	for _, folder := range folders {
		if folder.IsDir() && !strings.Contains(index, "]("+folder.Name()+")") {
			t.Errorf("deploy/README.md does not lead to %s", folder.Name())
		}
	}
}
