package wire

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// contentCoding is the one coding that was laid on the body; "" is none.
func contentCoding(h http.Header) string {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	if coding == "identity" {
		return ""
	}
	return coding
}

// decoder decompresses. It opens the compressed stream at the first Read, so
// that headers are reported while not even the first compressed byte is there.
type decoder struct {
	coding string
	src    io.Reader
	plain  io.Reader
}

// Read returns io.EOF at the end of the compressed stream.
func (d *decoder) Read(p []byte) (int, error) {
	if d.plain == nil {
		plain, err := openCoding(d.coding, d.src)
		if err != nil {
			return 0, unexpected(err)
		}
		d.plain = plain
	}
	for {
		if n, err := d.plain.Read(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func openCoding(coding string, src io.Reader) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		zr, err := gzip.NewReader(src)
		if err == nil {
			// Else the last bytes would wait until it is known whether another
			// member follows.
			zr.Multistream(false)
		}
		return zr, err
	case "deflate":
		br := bufio.NewReader(src)
		head, err := br.Peek(2)
		if err != nil {
			return nil, err
		}
		// The standard says zlib; some servers send the bare stream.
		if head[0]&0x0f == 8 && (uint16(head[0])<<8|uint16(head[1]))%31 == 0 {
			return zlib.NewReader(br)
		}
		return flate.NewReader(br), nil
	}
	return nil, errors.New("server compressed with " + coding + ", which was not asked for and is not understood")
}
