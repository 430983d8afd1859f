package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// FuzzReply sends arbitrary bytes as the body of an answer. Whatever they are, Do
// returns one of the documented outcomes, and OK only for an answer that has both
// an end and a token.
func FuzzReply(f *testing.F) {
	names := Names()
	pick := func(backend string) uint8 { return uint8(slices.Index(names, backend)) }
	var table map[string]expected
	if err := json.Unmarshal(mustRead(f, "streams", "expected.json"), &table); err != nil {
		f.Fatal(err)
	}
	for file, stream := range table {
		if body := mustRead(f, "streams", file); len(body) < 10000 {
			for _, backend := range kinds[stream.Kind] {
				f.Add(body, pick(backend), false)
			}
		}
	}
	for backend, v := range voices() {
		f.Add([]byte(v.whole("a", 1)), pick(backend), true)
		f.Add([]byte(v.open+v.token("a", "a", 1)+v.close("a", 1, true)), pick(backend), false)
		f.Add([]byte(v.open+v.token("a", "a", 1)+v.failure), pick(backend), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, pick uint8, whole bool) {
		tg := target(names[int(pick)%len(names)])
		d := dialects[tg.Backend]
		kind := "text/event-stream"
		switch {
		case whole:
			kind = "application/json"
		case d.lines:
			kind = "application/x-ndjson"
		}
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
		// Keys may be written with escapes, so a backslash stands for any end mark.
		marks := [][]byte{[]byte("[DONE]"), []byte(`"done"`), []byte(`"message_stop"`), []byte(`"stop"`), []byte(`"generated_text"`), []byte(`"response.`), []byte(`\`)}
		hasMark := slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.Contains(body, mark) })
		hasEnd := rec.FinishReason != "" || hasMark || d.endsWithBody || (whole && json.Valid(body))
		if !hasToken || !hasEnd {
			t.Fatalf("ok for %q with %d token events, %d tokens, finish %q", body, len(rec.Chunks), n, rec.FinishReason)
		}
	})
}
