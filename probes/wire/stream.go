package wire

import "bufio"

// Stream reads the body into buf and gives take what has come, until take returns
// false or the body ends. Its errors are those of Read, io.EOF included; nil says that
// take had enough. LastRead dates the bytes that take is called with, and take may
// move the read deadline, which holds for the next wait. take must not wait, and may be
// called in another goroutine that streams from the same client, never in two at once:
// that is what makes many streams cheap (see poller).
func (r *Response) Stream(buf []byte, take func(p []byte) (more bool)) error {
	if r.err != nil {
		return r.err
	}
	if raw := r.cn.raw; raw.polled == nil || r.cn.stream != raw || r.cn.h2 != nil || r.Compressed {
		return r.pull(buf, take)
	}
	s := streaming{r: r, buf: buf, take: take}
	return s.run()
}

// pull is Stream on connections that only their own goroutine can read.
func (r *Response) pull(buf []byte, take func(p []byte) (more bool)) error {
	for {
		n, err := r.Read(buf)
		if n > 0 && !take(buf[:n]) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// streaming is one Stream of a polled connection.
type streaming struct {
	r    *Response
	buf  []byte
	take func(p []byte) (more bool)
	// rest: the connection has ended, or is stuck; plain reads find out how.
	rest bool
}

func (s *streaming) run() error {
	raw, body := s.r.cn.raw, &s.r.body
	raw.prompt, body.prompt = true, true
	var err error
	if !s.step() {
		err = raw.stream(s.step)
	}
	raw.prompt, body.prompt = false, false
	switch {
	case err != nil:
		s.r.err = s.r.bodyError(err)
	case s.rest:
		return s.r.pull(s.buf, s.take)
	}
	return s.r.err
}

// step takes all that has come, and reports whether the stream is over.
func (s *streaming) step() bool {
	for {
		n, err := s.r.body.Read(s.buf)
		if n > 0 && !s.take(s.buf[:n]) {
			return true
		}
		switch err {
		case nil:
		case errNothing: // that is whole
			if !s.fill() {
				return s.rest
			}
		default:
			s.r.err = s.r.bodyError(err)
			return true
		}
	}
}

// fill reads once from the socket, behind what is left of a line, and reports whether
// that brought anything.
func (s *streaming) fill() bool {
	cn := s.r.cn
	_, err := cn.br.Peek(cn.br.Buffered() + 1)
	switch err {
	case nil, errNothing:
	case bufio.ErrBufferFull: // a line that is too long
		s.rest = true
	default:
		cn.pending, s.rest = err, true
	}
	return err == nil
}
