package fakellm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// failures are an engine's own words for what goes wrong.
type failures struct {
	early     string // [ErrorUnder200]
	midStream string // [ErrorMidStream]
	broken    string // the same, not streamed
	many      string // [TooManyRequests]
	gone      string // [Unavailable]
	goneAs    int    // its status; default 503
	inBand    bool   // many and gone come under status 200
	clean     bool   // a failure before the first token is an HTTP error
}

const (
	early = "The engine failed before the first token."
	mid   = "The engine failed while decoding."
	many  = "Too many requests."
	gone  = "The engine is not available."
)

// failuresOf lists them by engine, or by engine and path where these differ.
func failuresOf(t *testing.T, d dialect) failures {
	t.Helper()
	done := "\n\ndata: [DONE]\n\n"
	lmdeploy := func(m string) string {
		return `data: {"error":{"message":"` + m + `","type":"internal_error","code":500,"param":null,"object":"error"}}` + done
	}
	lmdeployHTTP := func(m string, code int) string {
		return fmt.Sprintf(`{"message":%q,"type":"invalid_request_error","code":%d,"param":null,"object":"error"}`, m, code)
	}
	flat := func(m, kind string, code int) string {
		return fmt.Sprintf(`{"object":"error","message":%q,"type":%q,"param":null,"code":%d}`, m, kind, code)
	}
	bare := func(m string) string { return fmt.Sprintf(`{"error":%q}`, m) }
	nested := func(m string) string {
		return fmt.Sprintf(`data: {"error":{"message":%q,"type":"InternalServerError","param":null,"code":500}}`, m) + done
	}
	tgi := func(m, kind string) string { return fmt.Sprintf(`{"error":%q,"error_type":%q}`, m, kind) }
	tgiOpenAI := func(m string, code int) string {
		return fmt.Sprintf("data:{\"error\":{\"message\":%q,\"http_status_code\":%d}}\n\ndata:[DONE]\n\n", m, code)
	}
	llama := func(m, kind string, code int) string {
		return fmt.Sprintf(`{"code":%d,"message":%q,"type":%q}`, code, m, kind)
	}
	ollama := func(m string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"api_error","param":null,"code":null}}`, m)
	}
	const ran = "an error was encountered while running the model: "
	dynamo := func(m, kind string, code int) string {
		return fmt.Sprintf(`{"message":%q,"type":%q,"code":%d}`, m, kind, code)
	}
	anthropic := func(m, kind string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, m)
	}
	openai := func(m, kind, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%s}}`, m, kind, code)
	}
	openaiHTTP := failures{broken: openai(mid, "server_error", "null"), many: openai(many, "requests", `"rate_limit_exceeded"`),
		gone:  openai(gone, "server_error", "null"),
		early: "data: " + openai(early, "server_error", "null") + "\n\n", midStream: "data: " + openai(mid, "server_error", "null") + "\n\n"}
	responses := openaiHTTP
	responses.early = "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"server_error\",\"message\":\"" + early + "\",\"param\":null}\n\n"
	responses.midStream = `"status":"failed","model":"fake-8b","output":[],"usage":null,"error":{"code":"server_error","message":"` + mid + "\"}}}\n\n"
	all := map[string]failures{
		LMDeploy: {early: lmdeploy(early), midStream: lmdeploy(mid), broken: lmdeployHTTP(mid, 500), many: lmdeployHTTP(many, 429), gone: lmdeployHTTP(gone, 503)},
		Triton:   {early: "data: " + bare(early) + "\n\n", midStream: "data: " + bare(mid) + "\n\n", broken: bare(mid), many: bare(many), gone: bare(gone)},
		TRTLLM: {early: `data: {"error":` + flat(early, "InternalServerError", 500) + "}" + done, midStream: `data: {"error":` + flat(mid, "InternalServerError", 500) + "}" + done,
			broken: flat(mid, "InternalServerError", 500), many: flat(many, "RateLimitError", 429), gone: flat(gone, "ServiceUnavailableError", 503)},
		Truss: {early: nested(early), midStream: nested(mid), broken: bare(mid), many: bare(many), gone: bare(gone)},
		TGI: {early: tgiOpenAI(early, 500), midStream: tgiOpenAI(mid, 500), broken: tgi(mid, "generation"),
			many: tgiOpenAI("Model is overloaded", 429), gone: tgiOpenAI(gone, 503), inBand: true},
		TGI + "/generate_stream": {early: "data:" + tgi(early, "generation") + "\n\n", midStream: "data:" + tgi(mid, "generation") + "\n\n",
			broken: tgi(mid, "generation"), many: "data:" + tgi("Model is overloaded", "overloaded") + "\n\n",
			gone: "data:" + tgi(gone, "healthcheck") + "\n\n", inBand: true},
		LlamaCPP: {early: "error: " + llama(early, "server_error", 500) + "\n\n", midStream: `data: {"error":` + llama(mid, "server_error", 500) + "}\n\n",
			broken: `{"error":` + llama(mid, "server_error", 500) + "}", many: `{"error":` + llama(many, "invalid_request_error", 429) + "}",
			gone: `{"error":` + llama(gone, "unavailable_error", 503) + "}", clean: true},
		Ollama:                   {early: "data: " + ollama(ran+early) + "\n\n", midStream: "data: " + ollama(ran+mid) + "\n\n", broken: ollama(mid), many: ollama(many), gone: ollama(gone)},
		Ollama + "/api/generate": {early: bare(ran+early) + "\n", midStream: bare(ran+mid) + "\n", broken: bare(mid), many: bare(many), gone: bare(gone)},
		Dynamo: {early: "event: error\n: \"" + early + "\"\n\n", midStream: "event: error\n: \"" + mid + "\"\n\n",
			broken: dynamo(mid, "Internal Server Error", 500), many: dynamo(many, "Too Many Requests", 429), gone: dynamo(gone, "Service Unavailable", 503)},
		Anthropic: {early: "event: error\ndata: " + anthropic(early, "api_error") + "\n\n", midStream: "event: error\ndata: " + anthropic(mid, "api_error") + "\n\n",
			broken: anthropic(mid, "api_error"), many: anthropic(many, "rate_limit_error"), gone: anthropic("Overloaded", "overloaded_error"), goneAs: 529},
		OpenAIResponses: openaiHTTP, OpenAIResponses + "/v1/responses": responses,
	}
	all[Ollama+"/api/chat"] = all[Ollama+"/api/generate"]
	if f, ok := all[d.String()]; ok {
		return f
	}
	f, ok := all[d.engine]
	if !ok {
		t.Fatalf("%v: no failures are listed", d)
	}
	return f
}

// struck is an endless engine with one fault.
func struck(d dialect, f Fault) Config {
	c := endless(d.engine)
	c.Faults = []Fault{f}
	return c
}

// Errors come in each engine's own words, at the right time, and are counted.
func TestEveryDialectReportsErrorsItsOwnWay(t *testing.T) {
	for _, d := range dialects() {
		f := failuresOf(t, d)
		goneAs, manyAs := f.goneAs, 429
		if goneAs == 0 {
			goneAs = 503
		}
		if f.inBand {
			goneAs, manyAs = 200, 200
		}
		for _, tt := range []struct {
			kind   FaultKind
			status int
			want   string
		}{
			{ErrorUnder200, 200, f.early}, {TooManyRequests, manyAs, f.many}, {Unavailable, goneAs, f.gone},
			{Garbage, 200, "<!DOCTYPE html><html><body><h1>It works!</h1></body></html>\n"},
		} {
			bubble(t, struck(d, Fault{Kind: tt.kind, Delay: 90 * time.Second}), func(r *rig) {
				got := r.post(d.path, d.body(4, true, ""))
				if got.status != tt.status || got.raw != tt.want || got.end != 0 {
					t.Errorf("%v, %s:\n got %d %q at %v\nwant %d %q at once", d, tt.kind, got.status, got.raw, got.end, tt.status, tt.want)
				}
				if after := got.header.Get("Retry-After"); (after == "90") != (tt.kind == TooManyRequests) {
					t.Errorf("%v, %s: got Retry-After %q", d, tt.kind, after)
				}
				if s := r.engine.Stats(); s.Refused != 1 || s.Requests[0].Fault != tt.kind {
					t.Errorf("%v, %s: got %d refused, trace %+v", d, tt.kind, s.Refused, s.Requests[0])
				}
			})
		}
		bubble(t, struck(d, Fault{Kind: ErrorMidStream, AfterTokens: 2}), func(r *rig) {
			got := r.post(d.path, d.body(4, true, ""))
			if diff := cmp.Diff(ms(20, 30), got.times()); diff != "" {
				t.Errorf("%v, mid stream: token times (-want +got):\n%s", d, diff)
			}
			if got.status != 200 || got.end != 30*time.Millisecond || !strings.HasSuffix(got.raw, f.midStream) {
				t.Errorf("%v, mid stream: got %d, an end at %v, %q\nwant 200, 30ms, and at the end %q", d, got.status, got.end, got.raw, f.midStream)
			}
			if whole := r.post(d.wholePath(), d.body(4, false, "")); d.wholePath() != d.path || strings.Contains(d.body(4, false, ""), `"stream":false`) {
				if whole.status != 500 || whole.raw != f.broken {
					t.Errorf("%v, mid answer: got %d %s, want 500 %s", d, whole.status, whole.raw, f.broken)
				}
			}
			if s := r.engine.Stats(); s.Aborted != 2 || s.Running != 0 {
				t.Errorf("%v, mid stream: got %d aborted, %d running, want 2, 0", d, s.Aborted, s.Running)
			}
		})
		bubble(t, struck(d, Fault{Kind: ErrorMidStream}), func(r *rig) {
			got, want := r.post(d.path, d.body(4, true, "")), 200
			if f.clean {
				want = 500
			}
			if got.status != want || f.clean && got.raw != f.broken {
				t.Errorf("%v, before the first token: got %d %s, want %d", d, got.status, got.raw, want)
			}
		})
	}
}

// Cuts, hangs and delays leave a stream without its end, or move it.
func TestEveryDialectIsCutHungAndDelayed(t *testing.T) {
	for _, d := range dialects() {
		for _, tt := range []struct {
			fault Fault
			err   error
			times []time.Duration
			end   time.Duration
			whole bool
		}{
			{Fault{Kind: Reset, AfterTokens: 2}, syscall.ECONNRESET, ms(20, 30), 30 * time.Millisecond, false},
			{Fault{Kind: Disconnect, AfterTokens: 2}, io.ErrUnexpectedEOF, ms(20, 30), 30 * time.Millisecond, false},
			{Fault{Kind: Truncate, AfterTokens: 2}, nil, ms(20, 30), 30 * time.Millisecond, false},
			{Fault{Kind: HangAfterTokens, AfterTokens: 2}, context.DeadlineExceeded, ms(20, 30), time.Hour, false},
			{Fault{Kind: HangBeforeHeaders}, context.DeadlineExceeded, nil, time.Hour, false},
			{Fault{Kind: Stall, AfterTokens: 2, Delay: 5 * time.Second}, nil, ms(20, 30, 5040, 5050), 5050 * time.Millisecond, true},
			{Fault{Kind: Slow, Factor: 2}, nil, ms(40, 60, 80, 100), 100 * time.Millisecond, true},
			{Fault{Kind: CloseConnection}, nil, ms(20, 30, 40, 50), 50 * time.Millisecond, true},
		} {
			bubble(t, struck(d, tt.fault), func(r *rig) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				got := r.send(ctx, d.path, d.body(4, true, ""), nil)
				if diff := cmp.Diff(tt.times, got.times()); diff != "" {
					t.Errorf("%v, %s: token times (-want +got):\n%s", d, tt.fault.Kind, diff)
				}
				if !errors.Is(got.err, tt.err) || got.end != tt.end {
					t.Errorf("%v, %s: got %v at %v, want %v at %v", d, tt.fault.Kind, got.err, got.end, tt.err, tt.end)
				}
				synctest.Wait()
				trace := r.engine.Stats().Requests[0]
				if tt.whole {
					if out := d.said(t, got); CountTokens(out.Text) != 4 {
						t.Errorf("%v, %s: got %+v, want 4 tokens", d, tt.fault.Kind, out)
					}
					return
				}
				if trace.Fault != tt.fault.Kind || !trace.Ended || trace.OutputTokens() != len(tt.times) {
					t.Errorf("%v, %s: got trace %+v", d, tt.fault.Kind, trace)
				}
				for _, end := range []string{"[DONE]", `"finish_reason":"l`, `"stop":true`, `"done":true`, `"type":"length"`, "message_stop", "response.incomplete", `"details":{`} {
					if strings.Contains(got.raw, end) {
						t.Errorf("%v, %s: the answer has an end: %s", d, tt.fault.Kind, got.raw)
					}
				}
			})
		}
	}
}

// Heartbeats are comments, events or empty lines, and no tokens; the wrong model is
// named wherever a name is.
func TestEveryDialectBeatsAndNamesModels(t *testing.T) {
	beats := map[string]string{
		TGI: ":\n\n", Anthropic: "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		OpenAIResponses + "/v1/responses": "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":%d}\n\n",
		Ollama + "/api/generate":          "\n", Ollama + "/api/chat": "\n",
	}
	for _, d := range dialects() {
		beat, ok := beats[d.String()]
		if !ok {
			if beat, ok = beats[d.engine]; !ok || d.engine == OpenAIResponses {
				beat = ": ping\n\n"
			}
		}
		bubble(t, struck(d, Fault{Kind: Heartbeats, Delay: 8 * time.Millisecond}), func(r *rig) {
			got := r.post(d.path, d.body(2, true, ""))
			if diff := cmp.Diff(ms(20, 30), got.times()); diff != "" {
				t.Errorf("%v: token times (-want +got):\n%s", d, diff)
			}
			want := []string{beat, beat}
			if strings.Contains(beat, "%d") {
				want = []string{fmt.Sprintf(beat, 2), fmt.Sprintf(beat, 3)}
			}
			var first int
			for _, b := range want {
				i := strings.Index(got.raw[first:], b)
				if i < 0 {
					t.Errorf("%v: got %q, want it to contain %q", d, got.raw, b)
				}
				first += i + len(b)
			}
			wantHeaders := time.Duration(0)
			if d.late {
				wantHeaders = 8 * time.Millisecond
			}
			if got.headers != wantHeaders {
				t.Errorf("%v: got headers at %v, want %v", d, got.headers, wantHeaders)
			}
		})
		bubble(t, struck(d, Fault{Kind: WrongModel}), func(r *rig) {
			names := d.path != "/generate" && d.path != "/generate_stream" // these have no name
			for _, stream := range []bool{true, false} {
				path := d.path
				if !stream {
					path = d.wholePath()
				}
				got := r.post(path, d.body(2, stream, ""))
				if got.status != 200 || strings.Contains(got.raw, "another-model") != names || strings.Contains(got.raw, "fake-8b") {
					t.Errorf("%v, stream %v: got %d %s, want another-model: %v", d, stream, got.status, got.raw, names)
				}
			}
		})
	}
}
