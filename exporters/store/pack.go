package store

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Forms of a packed text: its first byte.
const (
	packedRaw        = 0
	packedFlate      = 1
	packedDictionary = 2 // deflated against dictionary.txt
)

// dictionary is what the body of a run looks like. With it the body of a canary, which
// is written twice a minute, takes a third of the bytes. It is part of the format: a
// better one gets another number, and this one stays.
//
//go:embed dictionary.txt
var dictionary []byte

// packer deflates. Its writers are as large as a thousand small runs, so they are kept.
type packer struct{ plain, primed sync.Pool }

// errPacked is a text of no known form.
var errPacked = errors.New("unpack: it is of no known form; it was written by a newer inferbeat, or is damaged")

// maxUnpacked bounds what a damaged text may unfold to.
const maxUnpacked = 1 << 30

// pack makes a text smaller; like says that it looks like the dictionary.
func (p *packer) pack(text []byte, like bool) ([]byte, error) {
	pool, form, primer, level := &p.plain, byte(packedFlate), []byte(nil), flate.BestSpeed
	if like {
		pool, form, primer, level = &p.primed, packedDictionary, dictionary, flate.DefaultCompression
	}
	var out bytes.Buffer
	out.WriteByte(form)
	w, _ := pool.Get().(*flate.Writer)
	if w == nil {
		var err error
		if w, err = flate.NewWriterDict(&out, level, primer); err != nil {
			return nil, fmt.Errorf("pack: %w", err)
		}
	} else {
		w.Reset(&out) // keeps the dictionary
	}
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	pool.Put(w)
	if out.Len() > len(text) {
		return append([]byte{packedRaw}, text...), nil
	}
	return out.Bytes(), nil
}

// unpack undoes pack.
func unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	var primer []byte
	switch packed[0] {
	case packedRaw:
		return packed[1:], nil
	case packedFlate:
	case packedDictionary:
		primer = dictionary
	default:
		return nil, errPacked
	}
	r := flate.NewReaderDict(bytes.NewReader(packed[1:]), primer)
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return text, nil
}
