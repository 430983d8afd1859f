package probes

import "testing"

func TestPlainURL(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{"https://u:p@host:8000/a/b?key=s#frag", "https://host:8000/a/b"},
		{"http://host/%2Fa?", "http://host/%2Fa"},
		{"http://host", "http://host"},
		{"http://[::1]:80/x", "http://[::1]:80/x"},
		{"://u:p@host", ""},
		{"http://host/%zz?key=s", ""},
		{"", ""},
	} {
		if got := PlainURL(tt.raw); got != tt.want {
			t.Errorf("PlainURL(%q): got %q, want %q", tt.raw, got, tt.want)
		}
	}
}
