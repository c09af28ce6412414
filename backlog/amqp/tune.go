package amqp

import (
	"encoding/binary"
	"net"
)

// A tuneConn is a connection to a broker that hides the broker's frame_max from the client. It is
// used by the connection that consumes.
//
// The broker checks the size of what publishers send, and afterwards adds headers of its own
// about deliveries and deaths. So a delivery may have a frame larger than frame_max. The client
// would close the connection for it, and again after each reconnect. With a tuneConn the client
// reads that there is no limit, and the broker gets the answer with its own limit. What the
// client sends over this connection is small.
type tuneConn struct {
	net.Conn
	in, out  frameScanner
	frameMax []byte // the broker's frame_max, as it was read
}

// newTuneConn returns a tuneConn for a new socket.
func newTuneConn(socket net.Conn) *tuneConn {
	return &tuneConn{
		Conn: socket,
		in:   frameScanner{method: methodTune},
		out:  frameScanner{method: methodTuneOK, skip: len("AMQP0091")},
	}
}

// The AMQP methods that carry frame_max: class and method.
const (
	methodTune   = 10<<16 | 30
	methodTuneOK = 10<<16 | 31
)

// Read implements [net.Conn].
func (t *tuneConn) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.in.scan(b[:n], func(limit *byte) {
		t.frameMax = append(t.frameMax, *limit)
		*limit = 0
	})
	return n, err
}

// Write implements [net.Conn].
func (t *tuneConn) Write(b []byte) (int, error) {
	if t.out.done {
		return t.Conn.Write(b)
	}
	sent := append([]byte(nil), b...)
	t.out.scan(sent, func(limit *byte) {
		if len(t.frameMax) > 0 {
			*limit = t.frameMax[0]
			t.frameMax = t.frameMax[1:]
		}
	})
	return t.Conn.Write(sent)
}

// A frameScanner scans the first frames of a connection, up to one with a given method.
type frameScanner struct {
	skip     int // bytes before the first frame
	method   uint32
	done     bool
	frame    [limitEnds]byte // the beginning of the present frame
	received int             // bytes of it
}

const (
	frameHead   = 7             // type, channel and size of a frame
	limitBegins = frameHead + 6 // frame_max follows class, method and the maximum of channels
	limitEnds   = limitBegins + 4
)

// scan reads the next bytes, and calls f with each byte of the frame_max in the method.
func (x *frameScanner) scan(b []byte, f func(*byte)) {
	for i := range b {
		switch {
		case x.done:
			return
		case x.skip > 0:
			x.skip--
		default:
			if x.received < len(x.frame) {
				x.frame[x.received] = b[i]
			}
			x.received++
			x.step(&b[i], f)
		}
	}
}

// step is called when one more byte, last, of the present frame has been read.
func (x *frameScanner) step(last *byte, f func(*byte)) {
	n := x.received
	if n > limitBegins && n <= limitEnds && x.frame[0] == 1 && binary.BigEndian.Uint32(x.frame[frameHead:]) == x.method {
		f(last)
		x.done = n == limitEnds
	}
	if n > frameHead && n == frameHead+int(binary.BigEndian.Uint32(x.frame[3:]))+1 {
		x.received = 0
	}
}
