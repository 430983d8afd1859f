package exporters

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// fakeSink is a sink made of functions; nil ones succeed.
type fakeSink struct {
	name   string
	export func(ctx context.Context, e probes.Event) error
	close  func() error
}

var _ Sink = fakeSink{}

func (s fakeSink) Name() string { return s.name }

func (s fakeSink) Export(ctx context.Context, e probes.Event) error {
	if s.export == nil {
		return nil
	}
	return s.export(ctx, e)
}

func (s fakeSink) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// recorder keeps the run ids it was given.
type recorder struct {
	mu  sync.Mutex
	ids []string
}

func (r *recorder) export(_ context.Context, e probes.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, e.RunID)
	return nil
}

func (r *recorder) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

func run(id string) probes.Event     { return probes.Event{Kind: probes.EventRunDone, RunID: id} }
func request(id string) probes.Event { return probes.Event{Kind: probes.EventRequestDone, RunID: id} }

func TestEverySinkGetsEveryEventInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b recorder
		f := NewFanout(nil, 8, fakeSink{name: "a", export: a.export}, fakeSink{name: "b", export: b.export})
		for _, id := range []string{"1", "2", "3"} {
			f.Publish(run(id))
		}
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		want := []string{"1", "2", "3"}
		if got := a.got(); !slices.Equal(got, want) {
			t.Errorf("sink a got %v, want %v", got, want)
		}
		if got := b.got(); !slices.Equal(got, want) {
			t.Errorf("sink b got %v, want %v", got, want)
		}
	})
}

func TestStuckSinkCostsOnlyItsOwnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var good recorder
		release := make(chan struct{})
		f := NewFanout(nil, 4,
			fakeSink{name: "stuck", export: func(context.Context, probes.Event) error { <-release; return nil }},
			fakeSink{name: "good", export: good.export})
		start := time.Now()
		for range 10 {
			f.Publish(run("r"))
			synctest.Wait()
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("publishing took %v of virtual time, want 0", took)
		}
		// One event is inside the stuck sink, four wait, five are lost.
		want := []SinkStats{{Name: "stuck", Queued: 4, Dropped: 5}, {Name: "good"}}
		if d := cmp.Diff(want, f.Stats()); d != "" {
			t.Errorf("Stats() (-want +got):\n%s", d)
		}
		if got := len(good.got()); got != 10 {
			t.Errorf("good sink got %d events, want 10", got)
		}
		close(release)
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	})
}

func TestRequestsLeaveRoomForTheEndOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got recorder
		release := make(chan struct{})
		f := NewFanout(nil, 8, fakeSink{name: "slow", export: func(ctx context.Context, e probes.Event) error {
			<-release
			return got.export(ctx, e)
		}})
		f.Publish(request("first"))
		synctest.Wait() // it is inside the sink now, the queue is empty
		for range 100 {
			f.Publish(request("q"))
		}
		f.Publish(run("end"))
		if s := f.Stats()[0]; s.Queued != 7 || s.Dropped != 94 {
			t.Errorf("queued %d, dropped %d, want 6 requests and the run queued, 94 requests dropped", s.Queued, s.Dropped)
		}
		close(release)
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		if ids := got.got(); ids[len(ids)-1] != "end" {
			t.Errorf("last event = %q, want the end of the run", ids[len(ids)-1])
		}
	})
}

func TestErrorsAreCountedAndLoggedOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		results := []error{errors.New("disk full"), errors.New("disk full"), errors.New("read-only"), nil, nil, errors.New("disk full")}
		i := 0
		f := NewFanout(slog.New(slog.NewTextHandler(&log, nil)), 16, fakeSink{name: "file", export: func(context.Context, probes.Event) error {
			i++
			return results[i-1]
		}})
		for range results {
			f.Publish(run("r"))
		}
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		if got := f.Stats()[0].Errors; got != 4 {
			t.Errorf("errors = %d, want 4", got)
		}
		var lines []string
		for line := range strings.Lines(log.String()) {
			_, msg, _ := strings.Cut(strings.TrimSpace(line), " ")
			lines = append(lines, msg)
		}
		want := []string{
			`level=ERROR msg="sink cannot export" sink=file error="disk full"`,
			`level=ERROR msg="sink cannot export" sink=file error=read-only`,
			`level=INFO msg="sink works again" sink=file errors_total=3`,
			`level=ERROR msg="sink cannot export" sink=file error="disk full"`,
		}
		if d := cmp.Diff(want, lines); d != "" {
			t.Errorf("log (-want +got):\n%s", d)
		}
	})
}

func TestPanicIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var other recorder
		f := NewFanout(nil, 8,
			fakeSink{name: "broken", export: func(context.Context, probes.Event) error { panic("nil map") },
				close: func() error { panic("twice") }},
			fakeSink{name: "other", export: other.export})
		f.Publish(run("1"))
		f.Publish(run("2"))
		err := f.Close(t.Context())
		if got, want := errText(err), "close sink broken: panic: twice"; got != want {
			t.Errorf("Close() = %q, want %q", got, want)
		}
		want := []SinkStats{{Name: "broken", Errors: 2, Panics: 3}, {Name: "other"}}
		if d := cmp.Diff(want, f.Stats()); d != "" {
			t.Errorf("Stats() (-want +got):\n%s", d)
		}
		if got, want := other.got(), []string{"1", "2"}; !slices.Equal(got, want) {
			t.Errorf("other sink got %v, want %v", got, want)
		}
	})
}

func TestCloseDrainsSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got recorder
		closedAfter := -1
		f := NewFanout(nil, 8, fakeSink{name: "slow",
			export: func(ctx context.Context, e probes.Event) error {
				time.Sleep(time.Second)
				return got.export(ctx, e)
			},
			close: func() error { closedAfter = len(got.got()); return nil }})
		for _, id := range []string{"1", "2", "3"} {
			f.Publish(run(id))
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Close took %v, want 3s", took)
		}
		if closedAfter != 3 {
			t.Errorf("sink was closed after %d events, want 3", closedAfter)
		}
		if err := f.Close(ctx); err != nil {
			t.Errorf("second Close() = %v, want nil", err)
		}
	})
}

func TestCloseGivesUpAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFanout(nil, 8, fakeSink{name: "remote", export: func(ctx context.Context, _ probes.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		for range 3 {
			f.Publish(run("r"))
		}
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := f.Close(ctx)
		if got, want := errText(err), "drain sink remote: context deadline exceeded with 2 events waiting"; got != want {
			t.Errorf("Close() = %q, want %q", got, want)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("Close took %v, want 2s", took)
		}
		synctest.Wait()
		want := []SinkStats{{Name: "remote", Dropped: 2, Errors: 1}}
		if d := cmp.Diff(want, f.Stats()); d != "" {
			t.Errorf("Stats() (-want +got):\n%s", d)
		}
	})
}

func TestPublishAfterCloseIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got recorder
		f := NewFanout(nil, 8, fakeSink{name: "a", export: got.export})
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.Publish(run("late"))
		if s := f.Stats()[0]; s.Dropped != 1 || len(got.got()) != 0 {
			t.Errorf("dropped %d, exported %v, want 1 and nothing", s.Dropped, got.got())
		}
	})
}

func TestPublishersRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got recorder
		f := NewFanout(nil, 1024, fakeSink{name: "a", export: got.export})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					f.Publish(run("r"))
				}
			})
		}
		wg.Wait()
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(got.got()); n != 400 {
			t.Errorf("exported %d events, want 400", n)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func BenchmarkPublish(b *testing.B) {
	f := NewFanout(nil, DefaultQueue, fakeSink{name: "a"}, fakeSink{name: "b"}, fakeSink{name: "c"})
	e := request("r")
	b.ReportAllocs()
	for b.Loop() {
		f.Publish(e)
	}
	if err := f.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
