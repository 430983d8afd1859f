package stream

import (
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for _, test := range []stream{
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
	} {
		test.run(t, NewSSE(0))
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
