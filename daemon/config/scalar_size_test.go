package config

import "testing"

func TestSizes(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "4096": 4096, "7B": 7, "3KB": 3_000, "512MB": 512_000_000, "4GB": 4_000_000_000, "2TB": 2_000_000_000_000} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("size %s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "4G", "4 GB", "-1GB", "1.5GB", "4gb", "99999999999TB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("size %q: got %d, want an error", text, got)
		}
	}
}
