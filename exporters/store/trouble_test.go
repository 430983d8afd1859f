package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// troubleEnv makes the test binary open a folder as an ordinary user and print what
// happened.
const troubleEnv = "STORE_TEST_TROUBLE"

func inTrouble(dir string) string {
	s, err := Open(context.Background(), Options{Path: dir})
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	if err := s.Add(context.Background(), night(3)); err != nil {
		return err.Error()
	}
	return "no trouble"
}

// asOrdinaryUser opens the folder in a process that file modes hold for, which they do
// not for root.
func asOrdinaryUser(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary lies where only its owner may go.
	copied := filepath.Join(dir, "..", "store.test")
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, text, 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(copied)
	command.Dir = dir
	command.Env = append(os.Environ(), troubleEnv+"="+dir)
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// openToAll is a folder that any user may reach.
func openToAll(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "store-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTroubleIsNamed(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	full := func(t *testing.T, dir string) {
		t.Helper()
		s := openStore(t, Options{Path: dir})
		add(t, s, night(0))
		mustClose(t, s)
	}
	for _, c := range []struct {
		name  string
		setUp func(t *testing.T, dir string)
		open  func(t *testing.T, dir string) string // nil: as the owner
		want  []string
		kept  bool // the file is as it was
	}{
		{name: "path is a file", setUp: func(t *testing.T, dir string) { os.Remove(dir); write(t, dir, "x") },
			want: []string{"storage.path must name a folder"}},
		{name: "database is a folder", setUp: func(t *testing.T, dir string) { os.Mkdir(filepath.Join(dir, fileName), 0o755) },
			want: []string{"it is a folder", "another storage.path"}},
		{name: "no database", setUp: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, fileName), strings.Repeat("not a database. ", 1000))
		},
			want: []string{"it is no database", "left as it is", "restore a backup"}, kept: true},
		{name: "cut short", setUp: func(t *testing.T, dir string) { full(t, dir); os.Truncate(filepath.Join(dir, fileName), 50) },
			want: []string{"it is no database", "left as it is"}, kept: true},
		{name: "another program's", setUp: func(t *testing.T, dir string) {
			db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("CREATE TABLE photos (id)"); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"database of another program"}, kept: true},
		{name: "newer", setUp: func(t *testing.T, dir string) {
			s := openStore(t, Options{Path: dir})
			if _, err := s.writer.Exec("PRAGMA user_version = 99"); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
		}, want: []string{"newer inferbeat", "schema 99"}, kept: true},
		{name: "root page damaged", setUp: func(t *testing.T, dir string) {
			full(t, dir)
			f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte(strings.Repeat("\xff", 3000)), 100); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"damaged", "left as it is", "restore a backup"}, kept: true},
		{name: "another daemon", setUp: func(t *testing.T, dir string) { openStore(t, Options{Path: dir}) },
			want: []string{fmt.Sprintf("another daemon (process %d) has it", os.Getpid())}},
		{name: "nothing to read", setUp: func(*testing.T, string) {},
			open: func(t *testing.T, dir string) string {
				_, err := Open(t.Context(), Options{Path: dir, Access: Read})
				return fmt.Sprint(err)
			}, want: []string{"there is no store yet"}},
		{name: "folder may not be written", setUp: func(t *testing.T, dir string) { os.Chmod(dir, 0o555) },
			open: asOrdinaryUser, want: []string{"permission denied"}},
		{name: "file may not be written", setUp: func(t *testing.T, dir string) {
			full(t, dir)
			for _, f := range []string{fileName, "inferbeat.lock"} {
				os.Chmod(filepath.Join(dir, f), 0o444)
			}
			os.Chown(filepath.Join(dir, "inferbeat.lock"), 65534, 65534)
			os.Chmod(filepath.Join(dir, "inferbeat.lock"), 0o644)
		}, open: asOrdinaryUser, want: []string{"may not be written", "give the user of inferbeat the right"}, kept: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := openToAll(t)
			c.setUp(t, dir)
			file := filepath.Join(dir, fileName)
			before, _ := os.ReadFile(file)
			var got string
			if c.open != nil {
				got = c.open(t, dir)
			} else {
				s, err := Open(t.Context(), Options{Path: dir})
				if err == nil {
					s.Close()
				}
				got = fmt.Sprint(err)
			}
			for _, want := range append(c.want, dir) {
				if !strings.Contains(got, want) {
					t.Errorf("error: got %q, want one with %q", got, want)
				}
			}
			if after, _ := os.ReadFile(file); c.kept && string(after) != string(before) {
				t.Error("the file has changed")
			}
		})
	}
}

// A daemon that was killed while it made its file leaves one that the next one makes.
func TestKilledWhileMakingTheFile(t *testing.T) {
	for name, statement := range map[string]string{"nothing yet": "", "laid out": "PRAGMA auto_vacuum = INCREMENTAL"} {
		dir := t.TempDir()
		db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, Options{Path: dir})
		add(t, s, night(0))
		var mode int
		if err := s.writer.QueryRow("PRAGMA auto_vacuum").Scan(&mode); err != nil || mode != 2 {
			t.Errorf("%s: auto_vacuum: got %d, %v, want 2 (incremental)", name, mode, err)
		}
	}
}

// A full disk loses the run that did not fit, says so, and nothing else.
func TestDiskFull(t *testing.T) {
	s := openStore(t, Options{})
	add(t, s, night(0))
	var pages int
	if err := s.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		if _, err := s.writer.Exec(fmt.Sprint("PRAGMA max_page_count = ", n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages + 2)
	big := measured("big", night0, 100, 100)
	err := s.Add(t.Context(), big)
	if err == nil || !strings.Contains(err.Error(), "the disk is full; free space") || !strings.Contains(err.Error(), s.Path()) {
		t.Fatalf("add to a full disk: got error %v, want one that names the file and what to do", err)
	}
	if Refused(err) {
		t.Error("a full disk counts as refusing the run for good")
	}
	if _, err := s.Run(t.Context(), "big"); err == nil {
		t.Error("the run that did not fit is there")
	}
	limit(1 << 20)
	add(t, s, big)
	got, err := s.Run(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(big, got, equate); diff != "" {
		t.Errorf("run after there was room again (-want +got):\n%s", diff)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// What breaks a rule of the schema would break it again.
func TestRefused(t *testing.T) {
	s := openStore(t, Options{})
	p, err := s.Pack(night(0))
	if err != nil {
		t.Fatal(err)
	}
	if size, least := p.Size(), packedOverhead+len(p.row.body)+len(p.row.samples); size <= least || p.ID() != night(0).ID {
		t.Errorf("packed run %s of %d bytes, want %s of more than its body's %d", p.ID(), size, night(0).ID, least)
	}
	if _, err := s.writer.Exec("CREATE TRIGGER refuse BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END"); err != nil {
		t.Fatal(err)
	}
	if err := s.AddPacked(t.Context(), p); !Refused(err) {
		t.Errorf("added against a rule: %v, want an error that refuses the run for good", err)
	}
	if _, err := s.writer.Exec("DROP TRIGGER refuse"); err != nil {
		t.Fatal(err)
	}
	if err := s.AddPacked(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got, err := s.Run(t.Context(), p.ID())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(night(0), got, equate); d != "" {
		t.Errorf("packed run (-want +got):\n%s", d)
	}
}

// A page in the middle is damaged: the store opens, what can be read is read, and the
// check says what is wrong.
func TestDamagedPage(t *testing.T) {
	s := openStore(t, Options{})
	for n := range 50 {
		add(t, s, measured(fmt.Sprint("r", n), night0, 30, 60))
	}
	file := mustClose(t, s)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	page := info.Size() / 2 &^ 4095
	if _, err := f.WriteAt([]byte(strings.Repeat("\xa5", 3*4096)), page); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, Options{Path: filepath.Dir(file)})
	if err := again.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "it is damaged and was left as it is; restore a backup") {
		t.Errorf("check: got %v, want what is wrong and what to do", err)
	}
	readable := 0
	for n := range 50 {
		if _, err := again.Run(t.Context(), fmt.Sprint("r", n)); err == nil {
			readable++
		}
	}
	if readable < 40 {
		t.Errorf("runs that can still be read: got %d, want all but those on three pages of %d", readable, info.Size()/4096)
	}
}

var updateVersions = flag.Bool("update", false, "write testdata/vN for the present schema, if there is none yet")

// versionRuns are in every file of testdata: a run of repeats, a sweep, and what only an
// imported run has.
func versionRuns() []*probes.Run {
	plain, whole, sweep := night(0), night(1), night(2)
	one, two := *night(1), *night(1)
	one.ID, two.ID = "part-1", "part-2"
	whole.Parts = []probes.Part{{Role: "repeat 1", Run: &one}, {Role: "repeat 2", Run: &two}}
	whole.Summary.Repeats = probes.Repeats{Runs: 2, Used: 2, Spread: []probes.Spread{{Name: "ttft_p50_seconds", N: 2, Median: 0.1, Min: 0.1, Max: 0.2}}}
	sweep.Spec.Kind, sweep.Spec.Probe = probes.Sweep, "capacity"
	sweep.Steps = []probes.Step{{Rate: 4, Start: night0, End: night0, Records: sweep.Records, Judged: 3, Over: map[string]int{"ttft": 1}, Passed: true}}
	sweep.Capacity = probes.Capacity{Rate: probes.Known(3.5), Low: probes.Known(3.0), Bracketed: true, Objective: "ttft", Safe: probes.Known(2.8), End: probes.SweepConverged}
	plain.Source, plain.Origin, plain.SkippedRows = "bench_serving", "result.jsonl:3", 2
	return []*probes.Run{plain, whole, sweep}
}

// Files that earlier versions have written open, are brought up to date and hold what
// was put into them. The present version's file is among them, for the day it is an
// earlier one.
func TestEarlierVersions(t *testing.T) {
	ack := probes.Acknowledgement{Target: "llama-a", Probe: "nightly", Metric: probes.MetricTPOTp50, At: night0, Author: "kim", Reason: "new kernel"}
	present := filepath.Join("testdata", fmt.Sprintf("v%d", len(migrations)), fileName)
	if _, err := os.Stat(present); err != nil && *updateVersions {
		s := openStore(t, Options{Path: filepath.Dir(present)})
		add(t, s, versionRuns()...)
		if err := s.Acknowledge(t.Context(), ack); err != nil {
			t.Fatal(err)
		}
		if err := s.PutState(t.Context(), State{Key: "key", Value: []byte("value"), Expires: night0}); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		os.Remove(filepath.Join(filepath.Dir(present), "inferbeat.lock"))
	}
	for version := range len(migrations) {
		name := filepath.Join("testdata", fmt.Sprintf("v%d", version+1), fileName)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("%v; 'go test ./exporters/store -update' writes that of the present version", err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), text, 0o644); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, Options{Path: dir})
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		for _, want := range versionRuns() {
			got, err := s.Run(t.Context(), want.ID)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if diff := cmp.Diff(want, got, equate); diff != "" {
				t.Errorf("%s: run %s (-want +got):\n%s", name, want.ID, diff)
			}
		}
		acks, err := s.Acknowledgements(t.Context(), "", "")
		if diff := cmp.Diff([]probes.Acknowledgement{ack}, acks); err != nil || diff != "" {
			t.Errorf("%s: acknowledgements: %v (-want +got):\n%s", name, err, diff)
		}
		if value, ok, err := s.State(t.Context(), "key"); string(value) != "value" || !ok || err != nil {
			t.Errorf("%s: state: got %q, %v, %v, want value", name, value, ok, err)
		}
		add(t, s, night(9))
	}
}

// The dictionary is part of the format: with another one nothing can be read.
func TestDictionaryIsFixed(t *testing.T) {
	const want = "5705d511245e57d1ef0c029f7958c594e4ccc69482068f8ff79f5c1689673cf1"
	if got := fmt.Sprintf("%x", sha256.Sum256(dictionary)); got != want {
		t.Errorf("dictionary.txt: got SHA-256 %s, want %s; a better dictionary gets a form of its own in pack.go", got, want)
	}
}
