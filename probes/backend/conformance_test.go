package backend

import (
	"bytes"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// behaviour is one thing that every dialect must get right, whatever its words.
type behaviour struct {
	name string
	// speaks reports whether the dialect can say it; nil: all can.
	speaks func(v voice) bool
	change func(r *probes.Request)
	limits probes.Timeouts
	cancel time.Duration // when we cancel; 0: never
	script func(v voice) timeline
	want   func(v voice) conduct
}

// conduct is what a record must say. Times count from the sending of the request, and
// the answer's head comes at once.
type conduct struct {
	result
	Accept          any
	Prefill, Decode any
	Error           string // a part of it
}

const (
	first = 100 * ms // of the first token
	gap   = 20 * ms
	tail  = 1 * ms // from the last token to the closing events
	rest  = 5 * ms // from there to the end of the body
)

// stream is an answer of 200: events at their times, then how it ended.
func (v voice) stream(steps ...step) timeline {
	return timeline{200, map[string]string{"Content-Type": v.kind}, steps}
}

func at(t time.Duration, text string) step { return step{at: t, data: []byte(text)} }

// spoken are token events of one token each from first on, gap apart, opening included.
func (v voice) spoken(n int) (steps []step, text string) {
	if v.open != "" {
		steps = append(steps, at(0, v.open))
	}
	for i := range n {
		piece := string(rune('a'+i)) + " "
		text += piece
		steps = append(steps, at(first+time.Duration(i)*gap, v.token(piece, text, i+1)))
	}
	return steps, text
}

// ending closes an answer of n tokens whose last came at last.
func (v voice) ending(steps []step, text string, last time.Duration, n int, drafts bool) timeline {
	return v.stream(append(steps, at(last+tail, v.close(text, n, drafts)), step{at: last + tail + rest, end: "close"})...)
}

// complete is what is known of a finished answer of n tokens in the given chunks.
func (v voice) complete(chunks []time.Duration, tokens []int, n int, last time.Duration) conduct {
	c := conduct{result: result{Outcome: probes.OK, Chunks: chunks, Finish: v.finish, End: last + tail}}
	if v.mute {
		c.End = last + tail + rest
	}
	c.Tokens = make([]int, len(chunks))
	if v.counts {
		c.N, c.Prompt = n+v.extra, 7
		if v.running || n+v.extra == len(chunks) {
			c.Tokens = tokens
		}
	}
	if v.cached {
		c.Cached = 3
	}
	if v.timed {
		c.Prefill, c.Decode = 95500*time.Microsecond, 80250*time.Microsecond
	}
	if len(chunks) == 0 {
		c.Chunks, c.Tokens = nil, nil
		return c
	}
	c.TTFT, c.E2E = chunks[0], chunks[len(chunks)-1]
	c.Answer = chunks[0]
	if n > 1 && v.counts {
		c.TPOT = (chunks[len(chunks)-1] - chunks[0]) / time.Duration(n+v.extra-1)
	}
	return c
}

// broken is what is left of an answer that ended badly.
func broken(outcome probes.Outcome, text string, end time.Duration, v voice, chunks int) conduct {
	c := conduct{result: result{Outcome: outcome, Chunks: every(chunks, first, gap), End: end}, Error: text}
	if chunks == 0 {
		c.Chunks = nil
	} else {
		c.Tokens = make([]int, chunks)
		_, c.Text = v.spoken(chunks)
	}
	return c
}

var behaviours = []behaviour{
	{
		name: "normal",
		script: func(v voice) timeline {
			steps, text := v.spoken(5)
			return v.ending(steps, text, first+4*gap, 5, false)
		},
		want: func(v voice) conduct {
			c := v.complete(every(5, first, gap), repeat(5, 1), 5, first+4*gap)
			_, c.Text = v.spoken(5)
			return c
		},
	},
	{
		// Three verify steps give 1, 3 and 2 tokens.
		name: "bursts of speculative decoding",
		script: func(v voice) timeline {
			steps, _ := v.spoken(0)
			text, n := "", 0
			for i, k := range []int{1, 3, 2} {
				burst, joined := "", ""
				for _, piece := range []string{"a ", "b ", "c "}[:k] {
					joined += piece
					n++
					if v.ahead {
						burst += v.token(piece, "", n+k-len(joined)/2)
					} else if v.own {
						burst += v.token(piece, text+joined, n)
					}
				}
				text += joined
				if !v.own {
					burst = v.token(joined, text, n)
				}
				steps = append(steps, at(first+time.Duration(i)*gap, burst))
			}
			return v.ending(steps, text, first+2*gap, 6, true)
		},
		want: func(v voice) conduct {
			chunks, tokens := every(3, first, gap), []int{1, 3, 2}
			if v.own {
				chunks, tokens = []time.Duration{first, first + gap, first + gap, first + gap, first + 2*gap, first + 2*gap}, repeat(6, 1)
			}
			c := v.complete(chunks, tokens, 6, first+2*gap)
			c.Text = "a a b c a b "
			if v.own {
				c.Flags = []string{"coalesced"}
			}
			if v.drafts {
				c.Accept = 2.0
			}
			return c
		},
	},
	{
		name:   "reasoning only",
		speaks: func(v voice) bool { return v.think != nil },
		script: func(v voice) timeline {
			return v.ending([]step{at(0, v.open), at(first, v.think("hm", 1)), at(first+gap, v.think(" so", 2)), at(first+2*gap, v.think(".", 3))},
				"", first+2*gap, 3, false)
		},
		want: func(v voice) conduct {
			c := v.complete(every(3, first, gap), repeat(3, 1), 3, first+2*gap)
			c.Answer = nil
			return c
		},
	},
	{
		name:   "tool call only",
		speaks: func(v voice) bool { return v.call != nil },
		script: func(v voice) timeline {
			return v.ending([]step{at(0, v.open), at(first, v.call(`{"city":`, 2)), at(first+gap, v.call(`"Oslo"}`, 5))}, "", first+gap, 5, false)
		},
		want: func(v voice) conduct {
			c := v.complete(every(2, first, gap), []int{2, 3}, 5, first+gap)
			if v.running {
				c.TPOT = gap / 3 // two tokens were there at the start
			}
			return c
		},
	},
	{
		name:   "not streamed, as asked",
		change: func(r *probes.Request) { r.Sampling.Stream = false },
		script: func(v voice) timeline { return answer(200, 300*ms, "application/json", v.whole("whole answer", 5)) },
		want:   wholeAnswer,
	},
	{
		name: "not streamed, though asked for",
		script: func(v voice) timeline {
			return answer(200, 300*ms, "application/json; charset=utf-8", v.whole("whole answer", 5))
		},
		want: wholeAnswer,
	},
	{
		// An engine may stop at once; where the end itself is a token, that one counts.
		name: "empty",
		script: func(v voice) timeline {
			steps, text := v.spoken(0)
			return v.ending(steps, text, first, 0, false)
		},
		want: func(v voice) conduct {
			c := v.complete(nil, nil, 0, first)
			if v.extra == 0 {
				c.Outcome, c.Error = probes.Empty, "without any token"
			}
			return c
		},
	},
	{
		name:   "error before the stream",
		script: func(v voice) timeline { return answer(503, 30*ms, "application/json", v.refusal, "Retry-After", "2") },
		want: func(v voice) conduct {
			return conduct{result: result{Outcome: probes.HTTP5xx, End: 30 * ms}, Error: "status 503 Service Unavailable: engine shut down"}
		},
	},
	{
		name:   "too many requests",
		script: func(v voice) timeline { return answer(429, 30*ms, "application/json", v.refusal) },
		want: func(v voice) conduct {
			return conduct{result: result{Outcome: probes.HTTP429, End: 30 * ms}, Error: "status 429 Too Many Requests: engine shut down"}
		},
	},
	{
		name: "error in the stream",
		script: func(v voice) timeline {
			steps, _ := v.spoken(1)
			return v.stream(append(steps, at(130*ms, v.failure), step{at: 135 * ms, end: "close"})...)
		},
		want: func(v voice) conduct {
			c := broken(probes.StreamError, "engine shut down", 135*ms, v, 1)
			if strings.Contains(v.failure, "response.failed") {
				c.Finish, c.End = "failed", 130*ms // the failure is an end mark as well
			}
			return c
		},
	},
	{
		name: "error after which nothing comes",
		script: func(v voice) timeline {
			steps, _ := v.spoken(1)
			return v.stream(append(steps, at(130*ms, v.failure), step{at: 130 * ms, end: "hold"})...)
		},
		want: func(v voice) conduct {
			c := broken(probes.StreamError, "engine shut down", 130*ms+afterFailure, v, 1)
			if strings.Contains(v.failure, "response.failed") {
				c.Finish, c.End = "failed", 130*ms
			}
			return c
		},
	},
	{
		name: "truncated by a regular end",
		script: func(v voice) timeline {
			steps, _ := v.spoken(2)
			return v.stream(append(steps, step{at: 130 * ms, end: "close"})...)
		},
		want: func(v voice) conduct {
			if v.nameless {
				// Nothing tells it from an answer that is complete.
				c := broken(probes.OK, "", 130*ms, v, 2)
				c.TTFT, c.Answer, c.E2E = first, first, first+gap
				return c
			}
			return broken(probes.Truncated, "before the answer did", 130*ms, v, 2)
		},
	},
	{
		name: "truncated by the connection",
		script: func(v voice) timeline {
			steps, _ := v.spoken(2)
			return v.stream(append(steps, step{at: 130 * ms, end: "rst"})...)
		},
		want: func(v voice) conduct { return broken(probes.Truncated, "read body: unexpected EOF", 130*ms, v, 2) },
	},
	{
		name: "cut inside an event",
		script: func(v voice) timeline {
			steps, text := v.spoken(2)
			next := v.token("c ", text+"c ", 3)
			return v.stream(append(steps, at(140*ms, next[:len(next)/2]), step{at: 145 * ms, end: "rst"})...)
		},
		want: func(v voice) conduct { return broken(probes.Truncated, "read body: unexpected EOF", 145*ms, v, 2) },
	},
	{
		name:   "cancelled",
		cancel: 130 * ms,
		script: func(v voice) timeline {
			steps, _ := v.spoken(5)
			return v.stream(append(steps, step{at: time.Minute, end: "close"})...)
		},
		want: func(v voice) conduct { return broken(probes.Cancelled, "cancelled by us", 130*ms, v, 2) },
	},
	{
		name:   "slow to begin",
		limits: probes.Timeouts{FirstToken: 90 * ms, Idle: 45 * ms},
		script: func(v voice) timeline {
			beat := ": ping\n\n"
			if v.kind == "application/x-ndjson" {
				beat = "\n"
			}
			steps, text := v.spoken(5)
			steps = append([]step{at(0, beat), at(40*ms, beat), at(80*ms, beat)}, steps[len(steps)-5:]...)
			return v.ending(steps, text, first+4*gap, 5, false)
		},
		want: func(v voice) conduct { return broken(probes.TimeoutFirstToken, "none within 90ms", 90*ms, v, 0) },
	},
	{
		name:   "slow in between",
		limits: probes.Timeouts{FirstToken: 150 * ms, Idle: 110 * ms},
		script: func(v voice) timeline {
			steps, text := v.spoken(2)
			return v.ending(steps, text, time.Minute, 2, false)
		},
		want: func(v voice) conduct {
			c := broken(probes.TimeoutIdle, "silent for 110ms", first+gap+110*ms, v, 2)
			c.TTFT = first // a token that came is a sample
			return c
		},
	},
	{
		name:   "slow altogether",
		limits: probes.Timeouts{Total: 130 * ms},
		script: func(v voice) timeline {
			steps, text := v.spoken(5)
			return v.ending(steps, text, first+4*gap, 5, false)
		},
		want: func(v voice) conduct {
			c := broken(probes.TimeoutTotal, "not complete within 130ms", 130*ms, v, 2)
			c.TTFT = first
			return c
		},
	},
}

func wholeAnswer(v voice) conduct {
	c := v.complete(nil, nil, 5, 300*ms)
	c.End, c.E2E, c.Text, c.Flags = 300*ms, 300*ms, "whole answer", []string{"not_streamed"}
	return c
}

// partial leaves out what an answer that broke off may know or not: running counts.
func partial(got *conduct) {
	if got.Outcome == probes.OK || got.Outcome == probes.Empty {
		return
	}
	got.N, got.Prompt, got.Cached, got.Tokens = nil, nil, nil, nil
}

// TestConformance holds every dialect against every behaviour, to the millisecond.
func TestConformance(t *testing.T) {
	all := voices()
	if diff := cmp.Diff(Names(), slices.Sorted(maps.Keys(all))); diff != "" {
		t.Fatalf("backends with a voice (-want +got):\n%s", diff)
	}
	for _, name := range Names() {
		for _, b := range behaviours {
			if v := all[name]; b.speaks == nil || b.speaks(v) {
				t.Run(name+"/"+strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) { b.check(t, name, v) })
			}
		}
	}
}

func (b behaviour) check(t *testing.T, name string, v voice) {
	synctest.Test(t, func(t *testing.T) {
		tg := target(name)
		tg.Timeouts = b.limits
		s := &server{answers: []timeline{b.script(v)}}
		c := newClient(t, tg, s)
		req := request()
		if b.change != nil {
			b.change(req)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if b.cancel > 0 {
			defer time.AfterFunc(b.cancel, cancel).Stop()
		}
		rec := c.Do(ctx, probes.NewClock(), req, 0)
		got := conduct{resultOf(rec), known(rec.AcceptLength), known(rec.ServerPrefill), known(rec.ServerDecode), rec.Error}
		want := b.want(v)
		if !strings.Contains(got.Error, want.Error) || (want.Error == "") != (got.Error == "") {
			t.Errorf("error %q, want %q in it", got.Error, want.Error)
		}
		got.Error, want.Error = "", ""
		partial(&got)
		partial(&want)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(conduct{})); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		c.Close()
		time.Sleep(time.Hour)
	})
}

// Wherever the network cuts an answer, its reading is the same.
func TestConformanceOfCuts(t *testing.T) {
	for name, v := range voices() {
		c := newClient(t, target(name), &server{})
		steps, text := v.spoken(3)
		for _, end := range []string{v.close(text, 3, true), v.failure, ""} {
			var body []byte
			for _, s := range steps {
				body = append(body, s.data...)
			}
			body = append(body, end...)
			whole := untimed(readCut(c, request(), body))
			checkCuts(t, c, body, whole)
			// Mixed line ends and a byte order mark change nothing either.
			crlf := append([]byte("\xef\xbb\xbf"), bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n"))...)
			if got := untimed(readCut(c, request(), crlf)); !reflect.DeepEqual(whole, got) {
				t.Errorf("%s: other line ends change the reading (-want +got):\n%s", name, cmp.Diff(whole, got))
			}
		}
	}
}
