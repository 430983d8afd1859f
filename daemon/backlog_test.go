package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

var errFull = errors.New("database or disk is full")

// disk is one that may be full.
type disk struct {
	full  bool
	after func() // a write, whatever became of it
	wrote []string
}

func (d *disk) write(_ context.Context, p *store.Packed) error {
	if d.after != nil {
		defer d.after()
	}
	if d.full {
		return errFull
	}
	d.wrote = append(d.wrote, p.ID())
	return nil
}

// packed is a run of a pair that takes some 2 kB.
func packed(t *testing.T, s *store.Store, id string) *store.Packed {
	t.Helper()
	p, err := s.Pack(&probes.Run{ID: id, Target: fakeTarget("vllm"), Spec: loadSpec()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantBacklog(t *testing.T, when string, b *backlog, waiting int, lost uint64, missing ...string) {
	t.Helper()
	w, l := b.state()
	var got []string
	for key, id := range b.missing {
		got = append(got, key.target+":"+id)
	}
	slices.Sort(got)
	if d := cmp.Diff(missing, got); w != waiting || l != lost || d != "" {
		t.Errorf("%s: %d wait, %d lost, want %d and %d; missing (-want +got):\n%s", when, w, l, waiting, lost, d)
	}
}

func TestBacklogKeepsTheOrder(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := &disk{}
	b := &backlog{write: d.write}
	add := func(target, id string, want error) {
		t.Helper()
		if err := b.add(t.Context(), pairKey{target, "p"}, packed(t, s, id)); !errors.Is(err, want) {
			t.Errorf("add %s: %v, want %v", id, err, want)
		}
	}
	add("a", "1", nil)
	d.full = true
	add("a", "2", errFull)
	add("b", "3", errFull)
	add("a", "4", errFull)
	wantBacklog(t, "on a full disk", b, 3, 0, "a:4", "b:3")
	if err := b.flush(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("flush on a full disk: %v", err)
	}
	if !b.lacks(pairKey{"b", "p"}, "3") || b.lacks(pairKey{"b", "p"}, "2") || b.lacks(pairKey{"c", "p"}, "3") {
		t.Error("run 3 of b is missing, and no other")
	}
	d.full = false
	add("c", "5", nil) // behind those that wait
	wantBacklog(t, "afterwards", b, 0, 0)
	if got := strings.Join(d.wrote, " "); got != "1 2 3 4 5" {
		t.Errorf("written: %s, want in the order of their ends", got)
	}
	if b.bytes != 0 {
		t.Errorf("%d bytes wait, want 0", b.bytes)
	}
}

// Beyond its bound the oldest are lost; one that could never be written does not hold up
// the others.
func TestBacklogIsBounded(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := &disk{full: true}
	b := &backlog{write: d.write, most: 3 * packed(t, s, "1").Size()}
	for i := range 5 {
		_ = b.add(t.Context(), pairKey{fmt.Sprint("t", i), "p"}, packed(t, s, fmt.Sprint(i)))
	}
	wantBacklog(t, "after five", b, 3, 2, "t0:0", "t1:1", "t2:2", "t3:3", "t4:4")
	b.keep(pairKey{"t5", "p"}, packed(t, s, "5"), true)
	wantBacklog(t, "after one that is refused", b, 3, 3, "t0:0", "t1:1", "t2:2", "t3:3", "t4:4", "t5:5")

	// While 2 is written, 6 takes its place: it is not lost after all.
	d.full = false
	d.after = func() {
		d.after = nil
		b.keep(pairKey{"t6", "p"}, packed(t, s, "6"), false)
		wantBacklog(t, "meanwhile", b, 3, 4, "t0:0", "t1:1", "t2:2", "t3:3", "t4:4", "t5:5", "t6:6")
	}
	if err := b.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantBacklog(t, "at the end", b, 0, 3, "t0:0", "t1:1", "t5:5")
	if got := strings.Join(d.wrote, " "); got != "2 3 4 6" {
		t.Errorf("written: %s, want 2 3 4 6", got)
	}
	// A later run of a pair makes up for the lost one.
	if err := b.add(t.Context(), pairKey{"t0", "p"}, packed(t, s, "7")); err != nil {
		t.Fatal(err)
	}
	wantBacklog(t, "after a later run", b, 0, 3, "t1:1", "t5:5")
}

// A whole daemon whose disk is full for some minutes says what is not stored, and has
// forgotten none of it afterwards.
func TestRunsWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		var full atomic.Bool
		minutely := strings.Replace(oneTarget, "every: 10s", `schedule: "* * * * *"`, 1) + fmt.Sprintf("storage: {path: %q}\n", folder)
		b := inBubble(t, minutely, fleetOf(t, fakellm.VLLM).Dial, func(app *App) {
			write := app.memory.backlog.write
			app.memory.backlog.write = func(ctx context.Context, p *store.Packed) error {
				if full.Load() {
					return errFull
				}
				return write(ctx, p)
			}
		})
		unstored := func() bool {
			var pairs []struct {
				LastRun struct {
					Unstored bool `json:"unstored"`
				} `json:"last_run"`
			}
			if err := json.Unmarshal(b.get("/api/v1/pairs").Body.Bytes(), &pairs); err != nil || len(pairs) != 1 {
				t.Fatalf("%d pairs, %v", len(pairs), err)
			}
			page := b.get("/").Body.String()
			if said := strings.Contains(page, ", not stored"); said != pairs[0].LastRun.Unstored {
				t.Errorf("the page says that the run is not stored: %v, the API: %v", said, pairs[0].LastRun.Unstored)
			}
			return pairs[0].LastRun.Unstored
		}
		b.at(70 * time.Second)
		b.wantSeries("at first", runs(probes.RunSuccess, "1"), "inferbeat_store_unwritten_runs 0", "inferbeat_store_lost_runs_total 0")
		if unstored() {
			t.Error("the first run is said not to be stored")
		}
		full.Store(true)
		b.at(4*time.Minute + 10*time.Second)
		b.wantSeries("while the disk is full", runs(probes.RunSuccess, "4"), "inferbeat_store_unwritten_runs 3", "inferbeat_store_lost_runs_total 0")
		if !unstored() || !strings.Contains(b.get("/").Body.String(), "(3 ended runs wait in memory)") {
			t.Error("neither page nor API say that the last run is not stored and that three wait")
		}
		full.Store(false)
		b.at(5*time.Minute + 10*time.Second)
		b.wantSeries("afterwards", runs(probes.RunSuccess, "5"), "inferbeat_store_unwritten_runs 0", "inferbeat_store_lost_runs_total 0")
		if unstored() {
			t.Error("the last run is said not to be stored")
		}
		last := b.Pairs()[0].LastCompletion
		full.Store(true)
		b.at(6*time.Minute + 10*time.Second)
		full.Store(false)
		b.stop() // which writes what it can
		s, err := store.Open(t.Context(), store.Options{Path: folder})
		if err != nil {
			t.Fatal(err)
		}
		history, err := s.History(t.Context(), store.Query{Target: "t", Probe: "canary"})
		if err != nil {
			t.Fatal(err)
		}
		var kept pairMemory
		text, _, err := s.State(t.Context(), pairStateKey(pairKey{"t", "canary"}))
		if err == nil {
			err = store.Decode(text, &kept)
		}
		if err != nil || len(history) != 6 || !kept.LastCompletion.After(last) {
			t.Errorf("%d runs in the store, and the pair last ended at %v, %v; want 6 and after %v", len(history), kept.LastCompletion, err, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
