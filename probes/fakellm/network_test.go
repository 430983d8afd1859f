package fakellm

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		defer n.Close()
		say := func(text string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
		}
		client := http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
		get := func(url string) (string, error) {
			resp, err := client.Get(url)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return string(body), err
		}
		a, b := n.Serve(say("a")), n.Serve(say("b"))
		for url, want := range map[string]string{a: "a", b: "b"} {
			if got, err := get(url); got != want || err != nil {
				t.Errorf("GET %s: got %q, %v, want %q", url, got, err, want)
			}
		}
		if err := n.Stop(a); err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{a, "http://10.9.9.9:8000"} {
			if _, err := get(url); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("GET %s: got %v, want it refused", url, err)
			}
		}
		if _, err := get(b); err != nil {
			t.Errorf("GET of the other one: %v", err)
		}
		var unknown *net.DNSError
		if _, err := get("http://name:8000"); !errors.As(err, &unknown) || !unknown.IsNotFound {
			t.Errorf("GET of a name: got %v, want that it is not known", err)
		}
		if err := n.Stop("http://10.9.9.9:8000"); err == nil {
			t.Error("stopped what is not there")
		}
	})
}
