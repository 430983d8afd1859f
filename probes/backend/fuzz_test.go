package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// FuzzReply sends arbitrary bytes as the body of an answer. Whatever they are, Do
// returns one of the documented outcomes, and OK only for an answer that has both
// an end and a token.
func FuzzReply(f *testing.F) {
	files, err := filepath.Glob("testdata/streams/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	names := Names()
	for i, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(body) < 10000 {
			f.Add(body, uint8(i), false)
		}
	}
	f.Add([]byte(`{"choices":[{"message":{"content":"a"}}]}`), uint8(0), true)
	f.Add([]byte(`{"text":"a","meta_info":{}}`), uint8(2), true)
	f.Fuzz(func(t *testing.T, body []byte, pick uint8, whole bool) {
		kind := "text/event-stream"
		if whole {
			kind = "application/json"
		}
		tg := target(names[int(pick)%len(names)])
		tg.Timeouts.Total = 10 * time.Second
		tg.Connection.Policy = probes.ConnectionNew
		c, err := New(tg, Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, err := http.ReadRequest(bufio.NewReader(theirs)); err != nil {
					return
				}
				fmt.Fprintf(theirs, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n", kind)
				_, _ = theirs.Write(body)
			}()
			return ours, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		req := request()
		req.Prompt = ""
		rec := c.Do(t.Context(), probes.NewClock(), req, 0)
		switch rec.Outcome {
		case probes.OK, probes.Empty, probes.Truncated, probes.StreamError, probes.BadResponse:
		default:
			t.Fatalf("outcome %q (%s)", rec.Outcome, rec.Error)
		}
		if bytes.Contains([]byte(rec.Error), []byte("internal error")) {
			t.Fatalf("a panic was caught: %s", rec.Error)
		}
		if rec.Outcome != probes.OK {
			return
		}
		n, _ := rec.OutputTokens.Get()
		hasToken := len(rec.Chunks) > 0 || n > 0 || (whole && json.Valid(body))
		hasEnd := rec.FinishReason != "" || bytes.Contains(body, []byte("[DONE]")) || (whole && json.Valid(body))
		if !hasToken || !hasEnd {
			t.Fatalf("ok for %q with %d token events, %d tokens, finish %q", body, len(rec.Chunks), n, rec.FinishReason)
		}
	})
}
