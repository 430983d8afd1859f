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

func decode(maxLine int, reads ...read) ([]seen, error) {
	d := NewSSE(maxLine)
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

func TestDecode(t *testing.T) {
	tests := []struct {
		name  string
		reads []read
		want  []seen
	}{
		{"one event", []read{{5, "data: {}\n\n"}}, []seen{{Data: "{}", Ms: 5}}},
		{"stamp is the read that completed the blank line",
			[]read{{100, "data:"}, {110, " {\"a\":\"one"}, {130, " two\"}\n"}, {131, "\n"}, {150, "data: 1\n\ndata: 2\n\n"}},
			[]seen{{Data: `{"a":"one two"}`, Ms: 131}, {Data: "1", Ms: 150}, {Data: "2", Ms: 150}}},
		{"end mark cut in two, stamped at its line break",
			[]read{{170, "data: [DO"}, {175, "NE]\n"}, {900, "\n"}}, []seen{{Data: "[DONE]", Ms: 175}}},
		{"end mark without blank line, then silence", []read{{90, "data: [DONE]\n"}}, []seen{{Data: "[DONE]", Ms: 90}}},
		{"end mark without any break", []read{{7, "data: [DONE]"}}, []seen{{Data: "[DONE]", Open: true, Ms: 7}}},
		{"no blank, one, two, a tab", []read{{0, "data:a\n\ndata: b\n\ndata:  c\n\ndata:\td \t\n\n"}},
			[]seen{{Data: "a"}, {Data: "b"}, {Data: "c"}, {Data: "d"}}},
		{"crlf", []read{{0, "data: a\r\n\r\ndata: b\r\n\r\n"}}, []seen{{Data: "a"}, {Data: "b"}}},
		{"lone cr", []read{{0, "data: a\r\rdata: b\r\r"}}, []seen{{Data: "a"}, {Data: "b"}}},
		{"crlf cut between cr and lf",
			[]read{{1, "data: a\r"}, {2, "\n\r"}, {3, "\ndata: b\r\n"}, {4, "\r\n"}}, []seen{{Data: "a", Ms: 2}, {Data: "b", Ms: 4}}},
		{"mixed breaks", []read{{0, "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r"}}, []seen{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
		{"byte order mark, also cut", []read{{1, "\xef"}, {2, "\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"}}, []seen{{Data: "a", Ms: 2}}},
		{"byte order mark alone on a line", []read{{1, "\xef\xbb\xbf\n\ndata: a\n\n"}}, []seen{{Data: "a", Ms: 1}}},
		{"several lines", []read{{1, "data: {\ndata:  \"a\":\n"}, {2, "data: 1}\n\n"}}, []seen{{Data: "{\n \"a\":\n1}", Ms: 2}}},
		{"field without colon, empty payload", []read{{0, "data\n\ndata:\n\ndata\ndata\n\ndata: x\n\n"}}, []seen{{Data: "\n"}, {Data: "x"}}},
		{"unknown fields and retry", []read{{0, "retry: 3000\nid: 1\nfoo: bar\ndatax: y\n\ndata: a\n\n"}}, []seen{{Data: "a"}}},
		{"comments", []read{{0, ": ping\n\n:\n\ndata: a\n:inside\n\n"}}, []seen{{Data: "a", Comment: "inside"}}},
		{"name and comment only", []read{{0, "event: error\n: \"engine "}, {3, "shut down\"\n\n"}},
			[]seen{{Name: "error", Comment: `"engine shut down"`, Ms: 3}}},
		{"name with data", []read{{0, "event: ping\ndata: {}\n\ndata: a\n\n"}}, []seen{{Name: "ping", Data: "{}"}, {Data: "a"}}},
		{"error field", []read{{0, "error: {\"code\":400}\n\ndata: a\n\n"}}, []seen{{Data: `{"code":400}`, Error: true}, {Data: "a"}}},
		{"open block at the end is stamped at its payload", []read{{5, "data: {\"a\":1}\n"}, {9, ": ping\n"}},
			[]seen{{Data: `{"a":1}`, Comment: "ping", Open: true, Ms: 5}}},
		{"cut inside a line", []read{{5, "data: {\"a\":"}}, []seen{{Data: `{"a":`, Open: true, Ms: 5}}},
		{"html", []read{{0, "<html>\r\n<body></body></html>\r\n"}}, nil},
		{"nothing", nil, nil},
		{"payload after the end mark", []read{{0, "data: [DONE]\n\ndata: ghost\n\n"}}, []seen{{Data: "[DONE]"}, {Data: "ghost"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := decode(0, test.reads...)
			if err != nil {
				t.Fatalf("Err() = %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLineLimit(t *testing.T) {
	line := func(n int) string { return "data: " + strings.Repeat("x", n-6) + "\n\n" }
	joined := "data: " + strings.Repeat("x", 40) + "\ndata: " + strings.Repeat("y", 40) + "\n\n"
	tests := []struct {
		name string
		text string
		want int // events before the error
		long bool
	}{
		{"at the limit", "data: a\n\n" + line(64), 2, false},
		{"one more", "data: a\n\n" + line(65), 1, true},
		{"comment", "data: a\n\n:" + strings.Repeat("x", 64) + "\n\ndata: b\n\n", 1, true},
		{"joined lines", "data: a\n\n" + joined, 1, true},
		{"line that never ends", "data: a\n\ndata: " + strings.Repeat("x", 100), 1, true},
	}
	for _, test := range tests {
		whole := []read{{0, test.text}}
		bytewise := make([]read, len(test.text))
		for i := range test.text {
			bytewise[i] = read{0, test.text[i : i+1]}
		}
		for how, reads := range map[string][]read{"whole": whole, "bytewise": bytewise} {
			events, err := decode(64, reads...)
			if len(events) != test.want || errors.Is(err, ErrTooLong) != test.long {
				t.Errorf("%s %s: got %d events, error %v, want %d events, too long %v", test.name, how, len(events), err, test.want, test.long)
			}
		}
	}
	d := NewSSE(0)
	d.Feed(bytes.Repeat([]byte("x"), DefaultMaxLine), 0)
	if d.Next(); d.Err() != nil {
		t.Errorf("Err() = %v at the default limit of 16 MiB", d.Err())
	}
	d.Feed([]byte("x"), 0)
	if d.Next(); !errors.Is(d.Err(), ErrTooLong) {
		t.Errorf("Err() = %v above the default limit, want %v", d.Err(), ErrTooLong)
	}
}

func TestResetForgetsTheStreamBefore(t *testing.T) {
	d := NewSSE(32)
	d.Feed([]byte("event: a\n: note\ndata: half\ndata: "+strings.Repeat("x", 40)), 7)
	d.Next()
	d.Reset()
	d.Feed([]byte("\xef\xbb\xbfdata: b\n\n"), 3)
	e, ok := d.Next()
	if !ok || string(e.Data) != "b" || len(e.Name) > 0 || len(e.Comment) > 0 || e.At != 3 {
		t.Errorf("Next() after Reset = %q, name %q, comment %q, at %d, %v, want b alone at 3", e.Data, e.Name, e.Comment, e.At, ok)
	}
}

func TestUntakenEventsAreLostWithoutHarm(t *testing.T) {
	d := NewSSE(0)
	d.Feed([]byte("data: a\n\ndata: b\n\ndata: c"), 1)
	d.Feed([]byte("d\n\n"), 2)
	if e, ok := d.Next(); !ok || string(e.Data) != "cd" {
		t.Errorf("Next() = %q, %v, want cd", e.Data, ok)
	}
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

var pieces = []string{
	"data: ", "data:", "data", "error: ", "event: x", "event: error", ": note", ":", "id: 1", "[DONE]", `{"a":1}`, `{"a":`, "x", " ", "\t",
	"\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r", "\xef\xbb\xbf", "é", "\xff", strings.Repeat("y", 50),
}

func TestEventsDoNotDependOnCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "pieces"), "")
		cuts := rapid.SliceOfN(rapid.Bool(), len(text)+1, len(text)+1).Draw(t, "cuts")
		want, wantErr := decode(60, read{0, text})
		got, gotErr := decode(60, cut(text, func(i int) bool { return cuts[i] })...)
		if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("cutting %q changed the events (-whole +cut), errors %v and %v:\n%s", text, wantErr, gotErr, diff)
		}
	})
}

func FuzzSSE(f *testing.F) {
	f.Add("data: a\r\n\r\ndata: [DONE]\n", uint64(0x5555))
	f.Add("\xef\xbb\xbfevent: error\n: why\n\nerror: x\r\rdata: {\ndata: }\n\n", uint64(1))
	f.Fuzz(func(t *testing.T, text string, mask uint64) {
		want, wantErr := decode(64, read{0, text})
		for how, at := range map[string]func(int) bool{
			"masked":   func(i int) bool { return mask>>(i%64)&1 == 1 },
			"bytewise": func(int) bool { return true },
		} {
			got, gotErr := decode(64, cut(text, at)...)
			if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
				t.Fatalf("%s cuts of %q changed the events (-whole +cut), errors %v and %v:\n%s", how, text, wantErr, gotErr, diff)
			}
		}
	})
}

var chunk = []byte(`data: {"id":"chatcmpl-a1","object":"chat.completion.chunk","created":1767225600,"model":"demo-8b","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n")

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if !json.Valid(bytes.TrimPrefix(chunk, []byte("data: "))) {
		t.Fatal("the chunk is not JSON")
	}
	d := NewSSE(0)
	half := len(chunk) / 2
	events := 0
	drain := func() {
		for _, ok := d.Next(); ok; _, ok = d.Next() {
			events++
		}
	}
	got := testing.AllocsPerRun(100, func() {
		d.Feed(chunk, 1)
		drain()
		d.Feed(chunk[:half], 2)
		drain()
		d.Feed(chunk[half:], 3)
		drain()
	})
	if got != 0 || events != 202 {
		t.Errorf("got %v allocations for 2 events, %d events, want 0 and 202", got, events)
	}
}

func BenchmarkSSE(b *testing.B) {
	for _, bench := range []struct {
		name  string
		reads [][]byte
	}{
		{"event per read", [][]byte{chunk}},
		{"event over two reads", [][]byte{chunk[:100], chunk[100:]}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			d := NewSSE(0)
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
