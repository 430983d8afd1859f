package stream

import "testing"

func TestDecodeLines(t *testing.T) {
	for _, test := range []stream{
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
	} {
		test.run(t, NewNDJSON(0))
	}
}
