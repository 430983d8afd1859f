package store

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// Three hundred kills and more:
//
//	go test ./exporters/store -run TestKilledWriter -v -args -kills 300
var kills = flag.Int("kills", 15, "how often TestKilledWriter kills its writer")

// writerEnv makes the test binary the writer; its value is the folder and the number
// of the first run.
const writerEnv = "STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if task := os.Getenv(writerEnv); task != "" {
		dir, first, _ := strings.Cut(task, "|")
		n, err := strconv.Atoi(first)
		if err == nil {
			err = writeForEver(dir, n)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if task := os.Getenv(troubleEnv); task != "" {
		fmt.Print(inTrouble(task))
		return
	}
	os.Exit(m.Run())
}

const writers = 3

// writeForEver adds runs from several goroutines and says which ones are done.
func writeForEver(dir string, first int) error {
	fmt.Println("started")
	s, err := Open(context.Background(), Options{Path: dir})
	if err != nil {
		return err
	}
	failed := make(chan error)
	var out sync.Mutex
	for w := range writers {
		go func() {
			for n := first + w; ; n += writers {
				id := killedID(n)
				if err := s.Add(context.Background(), killedRun(n), State{Key: fmt.Sprint("writer-", w), Value: []byte(id)}); err != nil {
					failed <- err
					return
				}
				out.Lock()
				fmt.Println(n)
				out.Unlock()
			}
		}()
	}
	return <-failed
}

func killedID(n int) string { return fmt.Sprintf("k%07d", n) }

// killedRun is of three sizes: one page, several pages, many.
func killedRun(n int) *probes.Run {
	run := measured(killedID(n), night0.Add(time.Duration(n)*time.Minute), 1+n%3*8, 2+n%3*40)
	run.Spec.Requests += n % 7 // documents of their own now and then
	return run
}

// A writer is killed with SIGKILL at any instant, the making of the file included. What
// it had reported as done is there and whole, nothing is there in part, and the next
// writer goes on with the same file.
func TestKilledWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	reported := map[int]bool{}
	next, lost, unreported := 0, 0, 0
	for kill := range *kills {
		if kill%50 == 49 {
			dir = filepath.Join(t.TempDir(), "data") // the making of a file again
			reported = map[int]bool{}
		}
		done := runAndKill(t, dir, next, rand.N(80*time.Millisecond))
		for _, n := range done {
			reported[n] = true
			next = max(next, n+1)
		}
		found := checkKilled(t, dir)
		for n := range reported {
			if !found[n] {
				lost++
				t.Errorf("kill %d: run %d had been reported as done and is gone", kill, n)
			}
		}
		for n := range found {
			next = max(next, n+1)
			if !reported[n] {
				unreported++
				reported[n] = true
			}
		}
		next += writers // so that every writer begins with a new run
	}
	t.Logf("%d kills: %d runs reported or found, %d lost, %d durable before they could be reported", *kills, next, lost, unreported)
	if next < 3**kills {
		t.Errorf("runs written between the kills: got %d; the writer is killed before it does anything", next)
	}
}

// runAndKill lets a writer live for a while and returns what it reported.
func runAndKill(t *testing.T, dir string, first int, life time.Duration) (done []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, "-test.run=^$")
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", writerEnv, dir, first))
	var complaint strings.Builder
	command.Stderr = &complaint
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // started
	timer := time.AfterFunc(life, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("line of the writer: %v", err)
		}
		done = append(done, n)
	}
	if err := command.Wait(); err == nil || complaint.Len() > 0 {
		t.Fatalf("writer: got %v, %s, want a killed process", err, complaint.String())
	}
	return done
}

// checkKilled opens the store that a writer left behind, and returns the runs in it.
func checkKilled(t *testing.T, dir string) map[int]bool {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	runs, err := s.History(t.Context(), Query{Limit: 30, Records: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		n, err := strconv.Atoi(run.ID[1:])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(killedRun(n), run, equate); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", n, diff)
		}
	}
	found := map[int]bool{}
	rows, err := s.reader.Query("SELECT runs.id, samples.run IS NULL FROM runs LEFT JOIN samples ON samples.run = runs.seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var half bool
		if err := rows.Scan(&id, &half); err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(id[1:])
		if err != nil || half {
			t.Errorf("run %s: got %v, without its records: %v", id, err, half)
		}
		found[n] = true
	}
	states, err := s.States(t.Context(), "writer-")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states { // it came with its run or not at all
		if n, err := strconv.Atoi(string(state.Value[1:])); err != nil || !found[n] {
			t.Errorf("state %s names run %s, which is not there", state.Key, state.Value)
		}
	}
	return found
}
