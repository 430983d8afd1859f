package stream

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func decodeLines(maxLine int, reads ...read) ([]seen, error) {
	d := NewNDJSON(maxLine)
	var events []seen
	take := func(e Event) {
		events = append(events, seen{Data: string(e.Data), Open: e.Unterminated, Ms: int(e.At / time.Millisecond)})
	}
	var buf []byte
	for _, r := range reads {
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

func TestDecodeLines(t *testing.T) {
	tests := []struct {
		name  string
		reads []read
		want  []seen
	}{
		{"one line", []read{{5, "{}\n"}}, []seen{{Data: "{}", Ms: 5}}},
		{"stamp is the read that completed the line",
			[]read{{100, "{\"a\""}, {110, ":1}"}, {131, "\n{\"b\":2}\n{\"c\""}, {140, ":3}\n"}},
			[]seen{{Data: `{"a":1}`, Ms: 131}, {Data: `{"b":2}`, Ms: 131}, {Data: `{"c":3}`, Ms: 140}}},
		{"crlf, also cut in two", []read{{1, "1\r\n2\r"}, {2, "\n3\n"}}, []seen{{Data: "1", Ms: 1}, {Data: "2", Ms: 2}, {Data: "3", Ms: 2}}},
		{"lone cr ends nothing", []read{{1, "{\r\"a\":1}\n"}}, []seen{{Data: "{\r\"a\":1}", Ms: 1}}},
		{"blank lines and white space", []read{{1, "\n\r\n \t\n  1 \t\r\n\n"}}, []seen{{Data: "1", Ms: 1}}},
		{"byte order mark, also cut", []read{{1, "\xef"}, {2, "\xbb\xbf1\n\xef\xbb\xbf2\n"}}, []seen{{Data: "1", Ms: 2}, {Data: "\xef\xbb\xbf2", Ms: 2}}},
		{"open line at the end is stamped at its last byte", []read{{5, "1\n{\"a\":"}, {7, "1}"}},
			[]seen{{Data: "1", Ms: 5}, {Data: `{"a":1}`, Open: true, Ms: 7}}},
		{"nothing but white space is open", []read{{5, "1\n \r"}}, []seen{{Data: "1", Ms: 5}}},
		{"nothing", nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := decodeLines(0, test.reads...)
			if err != nil {
				t.Fatalf("Err() = %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongLines(t *testing.T) {
	tests := []struct {
		name string
		text string
		want int // events before the error
		long bool
	}{
		{"at the limit", "1\n" + strings.Repeat("x", 64) + "\n", 2, false},
		{"one more", "1\n" + strings.Repeat("x", 65) + "\n2\n", 1, true},
		{"line that never ends", "1\n" + strings.Repeat("x", 100), 1, true},
	}
	for _, test := range tests {
		for how, reads := range map[string][]read{
			"whole": {{0, test.text}}, "bytewise": cut(test.text, func(int) bool { return true }),
		} {
			events, err := decodeLines(64, reads...)
			if len(events) != test.want || errors.Is(err, ErrTooLong) != test.long {
				t.Errorf("%s %s: got %d events, error %v, want %d events, too long %v", test.name, how, len(events), err, test.want, test.long)
			}
		}
	}
	d := NewNDJSON(0)
	d.Feed(bytes.Repeat([]byte("x"), DefaultMaxLine), 0)
	if d.Next(); d.Err() != nil {
		t.Errorf("Err() = %v at the default limit of 16 MiB", d.Err())
	}
	d.Feed([]byte("x"), 0)
	if d.Next(); !errors.Is(d.Err(), ErrTooLong) {
		t.Errorf("Err() = %v above the default limit, want %v", d.Err(), ErrTooLong)
	}
	d.Reset()
	d.Feed([]byte("\xef\xbb\xbf1\n"), 3)
	if e, ok := d.Next(); !ok || string(e.Data) != "1" || e.At != 3 || d.Err() != nil {
		t.Errorf("Next() after Reset = %q at %d, %v, error %v, want 1 at 3", e.Data, e.At, ok, d.Err())
	}
}

func TestUntakenLinesAreLostWithoutHarm(t *testing.T) {
	d := NewNDJSON(0)
	d.Feed([]byte("1\n2\n3"), 1)
	d.Feed([]byte("4\n"), 2)
	if e, ok := d.Next(); !ok || string(e.Data) != "34" {
		t.Errorf("Next() = %q, %v, want 34", e.Data, ok)
	}
}

func TestLinesDoNotDependOnCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "pieces"), "")
		cuts := rapid.SliceOfN(rapid.Bool(), len(text)+1, len(text)+1).Draw(t, "cuts")
		want, wantErr := decodeLines(60, read{0, text})
		got, gotErr := decodeLines(60, cut(text, func(i int) bool { return cuts[i] })...)
		if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("cutting %q changed the events (-whole +cut), errors %v and %v:\n%s", text, wantErr, gotErr, diff)
		}
	})
}

func FuzzNDJSON(f *testing.F) {
	f.Add("{\"a\":1}\r\n\n{\"done\":true}", uint64(0x5555))
	f.Add("\xef\xbb\xbf 1 \r\r\n2\r3\n", uint64(1))
	f.Fuzz(func(t *testing.T, text string, mask uint64) {
		want, wantErr := decodeLines(64, read{0, text})
		for how, at := range map[string]func(int) bool{
			"masked":   func(i int) bool { return mask>>(i%64)&1 == 1 },
			"bytewise": func(int) bool { return true },
		} {
			got, gotErr := decodeLines(64, cut(text, at)...)
			if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
				t.Fatalf("%s cuts of %q changed the events (-whole +cut), errors %v and %v:\n%s", how, text, wantErr, gotErr, diff)
			}
		}
	})
}

var line = []byte(`{"model":"demo:8b","created_at":"2026-01-01T00:00:00.000001Z","message":{"role":"assistant","content":" token"},"done":false}` + "\n")

func TestSteadyStateOfLinesAllocatesNothing(t *testing.T) {
	d := NewNDJSON(0)
	half := len(line) / 2
	events := 0
	drain := func() {
		for _, ok := d.Next(); ok; _, ok = d.Next() {
			events++
		}
	}
	got := testing.AllocsPerRun(100, func() {
		for _, p := range [][]byte{line, line[:half], line[half:]} {
			d.Feed(p, 1)
			drain()
		}
	})
	if got != 0 || events != 202 {
		t.Errorf("got %v allocations for 2 events, %d events, want 0 and 202", got, events)
	}
}

func BenchmarkNDJSON(b *testing.B) {
	for _, bench := range []struct {
		name  string
		reads [][]byte
	}{
		{"event per read", [][]byte{line}},
		{"event over two reads", [][]byte{line[:60], line[60:]}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			d := NewNDJSON(0)
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range bench.reads {
					d.Feed(p, 1)
					for _, ok := d.Next(); ok; _, ok = d.Next() {
					}
				}
			}
		})
	}
}
