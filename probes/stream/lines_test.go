package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decoder is what both decoders are to a reader.
type decoder interface {
	Feed(p []byte, at time.Duration)
	Next() (Event, bool)
	Finish() (Event, bool)
	Reset()
	Err() error
}

// kind is one decoder and how it is written to.
type kind struct {
	name string
	make func(maxLine int) decoder
	// event is one event of about 180 bytes, as an engine writes it.
	event []byte
	// line is an event whose line has n bytes; n is above 6.
	line func(n int) string
}

var kinds = []kind{
	{
		"SSE", func(maxLine int) decoder { return NewSSE(maxLine) },
		[]byte(`data: {"id":"chatcmpl-a1","object":"chat.completion.chunk","created":1767225600,"model":"demo-8b","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"),
		func(n int) string { return "data: " + strings.Repeat("x", n-6) + "\n\n" },
	},
	{
		"NDJSON", func(maxLine int) decoder { return NewNDJSON(maxLine) },
		[]byte(`{"model":"demo:8b","created_at":"2026-01-01T00:00:00.000001Z","message":{"role":"assistant","content":" token"},"done":false}` + "\n"),
		func(n int) string { return strings.Repeat("x", n) + "\n" },
	},
}

// read is one network read of a test: what it brought and when it returned.
type read struct {
	ms   int
	text string
}

// seen is an Event with its slices copied.
type seen struct {
	Name, Data, Comment string
	Error, Open         bool
	Ms                  int
}

// decode gives all events of a stream.
func decode(d decoder, reads ...read) ([]seen, error) {
	var events []seen
	take := func(e Event) {
		events = append(events, seen{
			string(e.Name), string(e.Data), string(e.Comment), e.ErrorField, e.Unterminated, int(e.At / time.Millisecond),
		})
	}
	var buf []byte
	for _, r := range reads {
		// The buffer is used again and again, as a connection's is.
		buf = append(buf[:0], r.text...)
		d.Feed(buf, time.Duration(r.ms)*time.Millisecond)
		for e, ok := d.Next(); ok; e, ok = d.Next() {
			take(e)
		}
	}
	if e, ok := d.Finish(); ok {
		take(e)
	}
	return events, d.Err()
}

// stream is a test of one decoder: reads, and the events that they are.
type stream struct {
	name  string
	reads []read
	want  []seen
}

func (s stream) run(t *testing.T, d decoder) {
	t.Run(s.name, func(t *testing.T) {
		got, err := decode(d, s.reads...)
		if err != nil {
			t.Fatalf("Err() = %v", err)
		}
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// cut splits text at every offset for which at(offset) is true.
func cut(text string, at func(int) bool) []read {
	var reads []read
	last := 0
	for i := 1; i <= len(text); i++ {
		if i == len(text) || at(i) {
			reads = append(reads, read{0, text[last:i]})
			last = i
		}
	}
	return reads
}

func bytewise(int) bool { return true }

func TestLineLimit(t *testing.T) {
	for _, k := range kinds {
		short := k.line(7)
		tests := []struct {
			name string
			text string
			want int // events before the error
			long bool
		}{
			{"at the limit", short + k.line(64), 2, false},
			{"one more", short + k.line(65) + short, 1, true},
			{"line that never ends", short + strings.TrimRight(k.line(106), "\n"), 1, true},
		}
		if k.name == "SSE" {
			tests = append(tests, []struct {
				name string
				text string
				want int
				long bool
			}{
				{"comment", short + ":" + strings.Repeat("x", 64) + "\n\n" + short, 1, true},
				{"joined lines", short + "data: " + strings.Repeat("x", 40) + "\ndata: " + strings.Repeat("y", 40) + "\n\n", 1, true},
			}...)
		}
		for _, test := range tests {
			for how, reads := range map[string][]read{"whole": {{0, test.text}}, "bytewise": cut(test.text, bytewise)} {
				events, err := decode(k.make(64), reads...)
				if len(events) != test.want || errors.Is(err, ErrTooLong) != test.long {
					t.Errorf("%s, %s %s: got %d events, error %v, want %d events, too long %v", k.name, test.name, how, len(events), err, test.want, test.long)
				}
			}
		}
	}
}

func TestDefaultLineLimit(t *testing.T) {
	for _, k := range kinds {
		d := k.make(0)
		d.Feed(bytes.Repeat([]byte("x"), DefaultMaxLine), 0)
		if d.Next(); d.Err() != nil {
			t.Errorf("%s: Err() = %v at the default limit of 16 MiB", k.name, d.Err())
		}
		d.Feed([]byte("x"), 0)
		if d.Next(); !errors.Is(d.Err(), ErrTooLong) {
			t.Errorf("%s: Err() = %v above the default limit, want %v", k.name, d.Err(), ErrTooLong)
		}
		d.Reset()
		d.Feed([]byte("\xef\xbb\xbf"+k.line(7)), 3)
		if e, ok := d.Next(); !ok || e.At != 3 || d.Err() != nil || !strings.Contains(k.line(7), string(e.Data)) {
			t.Errorf("%s: Next() after Reset = %q at %d, %v, error %v", k.name, e.Data, e.At, ok, d.Err())
		}
	}
}

func TestUntakenEventsAreLostWithoutHarm(t *testing.T) {
	for _, tt := range []struct {
		d             decoder
		first, second string
	}{
		{NewSSE(0), "data: a\n\ndata: b\n\ndata: c", "d\n\n"},
		{NewNDJSON(0), "a\nb\nc", "d\n"},
	} {
		tt.d.Feed([]byte(tt.first), 1)
		tt.d.Feed([]byte(tt.second), 2)
		if e, ok := tt.d.Next(); !ok || string(e.Data) != "cd" {
			t.Errorf("Next() = %q, %v, want cd", e.Data, ok)
		}
	}
}

var pieces = []string{
	"data: ", "data:", "data", "error: ", "event: x", "event: error", ": note", ":", "id: 1", "[DONE]", `{"a":1}`, `{"a":`, "x", " ", "\t",
	"\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r", "\xef\xbb\xbf", "é", "\xff", strings.Repeat("y", 50),
}

// sameWhenCut holds the events of a text against those of the same text in pieces.
func sameWhenCut(t interface{ Fatalf(string, ...any) }, k kind, text string, at func(int) bool) {
	want, wantErr := decode(k.make(60), read{0, text})
	got, gotErr := decode(k.make(60), cut(text, at)...)
	if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%s: cutting %q changed the events (-whole +cut), errors %v and %v:\n%s", k.name, text, wantErr, gotErr, diff)
	}
}

func TestEventsDoNotDependOnCuts(t *testing.T) {
	for _, k := range kinds {
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "pieces"), "")
			cuts := rapid.SliceOfN(rapid.Bool(), len(text)+1, len(text)+1).Draw(t, "cuts")
			sameWhenCut(t, k, text, func(i int) bool { return cuts[i] })
		})
	}
}

func fuzz(f *testing.F, k kind, seeds ...string) {
	for i, seed := range seeds {
		f.Add(seed, []uint64{0x5555, 1}[i%2])
	}
	f.Fuzz(func(t *testing.T, text string, mask uint64) {
		sameWhenCut(t, k, text, bytewise)
		sameWhenCut(t, k, text, func(i int) bool { return mask>>(i%64)&1 == 1 })
	})
}

func FuzzSSE(f *testing.F) {
	fuzz(f, kinds[0], "data: a\r\n\r\ndata: [DONE]\n", "\xef\xbb\xbfevent: error\n: why\n\nerror: x\r\rdata: {\ndata: }\n\n")
}

func FuzzNDJSON(f *testing.F) {
	fuzz(f, kinds[1], "{\"a\":1}\r\n\n{\"done\":true}", "\xef\xbb\xbf 1 \r\r\n2\r3\n")
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, k := range kinds {
		if !json.Valid(bytes.TrimPrefix(k.event, []byte("data: "))) {
			t.Fatalf("%s: the event is not JSON", k.name)
		}
		d := k.make(0)
		half := len(k.event) / 2
		events := 0
		got := testing.AllocsPerRun(100, func() {
			for _, p := range [][]byte{k.event, k.event[:half], k.event[half:]} {
				d.Feed(p, 1)
				for _, ok := d.Next(); ok; _, ok = d.Next() {
					events++
				}
			}
		})
		if got != 0 || events != 202 {
			t.Errorf("%s: got %v allocations for 2 events, %d events, want 0 and 202", k.name, got, events)
		}
	}
}

func BenchmarkSSE(b *testing.B) {
	d := NewSSE(0)
	benchmark(b, kinds[0].event, func(p []byte) {
		d.Feed(p, 1)
		for _, ok := d.Next(); ok; _, ok = d.Next() {
		}
	})
}

func BenchmarkNDJSON(b *testing.B) {
	d := NewNDJSON(0)
	benchmark(b, kinds[1].event, func(p []byte) {
		d.Feed(p, 1)
		for _, ok := d.Next(); ok; _, ok = d.Next() {
		}
	})
}

// benchmark decodes an event that one read brings, and one that comes in two.
func benchmark(b *testing.B, event []byte, decode func(p []byte)) {
	for _, bench := range []struct {
		name  string
		reads [][]byte
	}{
		{"event per read", [][]byte{event}},
		{"event over two reads", [][]byte{event[:len(event)/2], event[len(event)/2:]}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range bench.reads {
					decode(p)
				}
			}
		})
	}
}
