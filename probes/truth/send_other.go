//go:build !unix

package truth

import "net"

// sender writes to a connection and waits for its reader.
type sender struct{ conn net.Conn }

func newSender(c net.Conn) *sender { return &sender{conn: c} }

func (s *sender) send(b []byte) (int, error) { return s.conn.Write(b) }
