package fakellm

import (
	"fmt"
	"strconv"
	"time"
)

// nativeRenderer writes SGLang's /generate: text and ids are cumulative.
type nativeRenderer struct {
	x    *exchange
	id   []byte // as JSON
	n    int    // tokens so far
	text []byte // all text so far; plain ASCII, so also its JSON
	ids  []byte // all ids so far, comma-separated
	last bool
}

func newNativeRenderer(x *exchange, id string) renderer {
	return &nativeRenderer{x: x, id: appendString(nil, id)}
}

func (r *nativeRenderer) event(dst []byte, n int, last bool) []byte {
	a := &r.x.seq.answer
	r.text = a.appendText(r.text, r.n, r.n+n)
	for i := r.n; i < r.n+n; i++ {
		if i > 0 {
			r.ids = append(r.ids, ',')
		}
		r.ids = strconv.AppendInt(r.ids, int64(a.id(i)), 10)
	}
	r.n += n
	r.last = last
	if !r.x.ask.Stream {
		return dst
	}
	dst = append(dst, "data: "...)
	dst = r.object(dst, "")
	return append(dst, "\n\n"...)
}

// finish reports a failure as SGLang's scheduler does: an ordinary event whose
// finish reason is an abort.
func (r *nativeRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		dst = append(dst, "data: "...)
		dst = r.object(dst, failure)
		dst = append(dst, "\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

func (r *nativeRenderer) whole(dst []byte) []byte { return r.object(dst, "") }

func (r *nativeRenderer) object(dst []byte, failure string) []byte {
	s := r.x.seq
	dst = append(dst, `{"text":"`...)
	dst = append(dst, r.text...)
	dst = append(dst, `","output_ids":[`...)
	dst = append(dst, r.ids...)
	dst = append(dst, `],"meta_info":{"id":`...)
	dst = append(dst, r.id...)
	dst = append(dst, `,"finish_reason":`...)
	switch {
	case failure != "":
		dst = append(dst, `{"type":"abort","message":`...)
		dst = appendString(dst, failure)
		dst = append(dst, `,"status_code":500,"err_type":"InternalServerError"}`...)
	case !r.last:
		dst = append(dst, "null"...)
	case s.answer.stops:
		dst = appendField(dst, `{"type":"stop","matched":`, tokenEOS)
		dst = append(dst, '}')
	default:
		dst = appendField(dst, `{"type":"length","length":`, s.answer.length)
		dst = append(dst, '}')
	}
	dst = appendField(dst, `,"prompt_tokens":`, len(s.prompt))
	dst = append(dst, `,"weight_version":"default","total_retractions":0,"reasoning_tokens":0`...)
	dst = appendField(dst, `,"completion_tokens":`, r.n)
	dst = appendField(dst, `,"cached_tokens":`, r.x.cached())
	if r.last {
		dst = r.appendFinal(dst)
	}
	return append(dst, "}}"...)
}

// appendFinal writes the fields that only the last event has.
func (r *nativeRenderer) appendFinal(dst []byte) []byte {
	s := r.x.seq
	dst = appendField(dst, `,"cached_tokens_details":{"device":`, s.cached)
	dst = fmt.Appendf(dst, `,"host":0},"e2e_latency":%v`, time.Since(s.received).Seconds())
	c := s.spec
	if c.steps == 0 {
		return dst
	}
	dst = fmt.Appendf(dst, `,"spec_accept_rate":%v,"spec_accept_length":%v`,
		float64(c.accepted)/float64(c.drafts), float64(r.n)/float64(c.steps))
	dst = fmt.Appendf(dst, `,"spec_num_correct_drafts":%d,"spec_num_proposed_drafts":%d,"spec_verify_ct":%d`, c.accepted, c.drafts, c.steps)
	dst = fmt.Appendf(dst, `,"spec_accepted_drafts":%d,"spec_proposed_drafts":%d`, c.accepted, c.drafts)
	dst = append(dst, `,"spec_correct_drafts_histogram":`...)
	dst = appendInts(dst, c.histogram)
	dst = append(dst, `,"spec_accept_histogram":`...)
	return appendInts(dst, c.histogram)
}
