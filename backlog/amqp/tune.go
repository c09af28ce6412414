package amqp

import (
	"encoding/binary"
	"net"
)

// A tuned is a socket over which messages come whose headers may be larger than a frame
// that the broker allows: it checks what publishers send, and then adds what it has to say of
// deliveries and deaths. The client would end the connection for such a frame, again after
// each reconnect. So it is told that there is no limit, and the broker is answered with
// its own. Frames that are sent over this socket are small.
type tuned struct {
	net.Conn
	in, out frames
	most    []byte // the broker's limit
}

// newTuned returns the socket, over which nothing has come or gone.
func newTuned(socket net.Conn) *tuned {
	return &tuned{
		Conn: socket,
		in:   frames{method: methodTune},
		out:  frames{method: methodTuneOK, skip: len("AMQP0091")},
	}
}

// The methods that name the limit, with their class.
const (
	methodTune   = 10<<16 | 30
	methodTuneOK = 10<<16 | 31
)

// Read implements [net.Conn].
func (t *tuned) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.in.pass(b[:n], func(limit *byte) {
		t.most = append(t.most, *limit)
		*limit = 0
	})
	return n, err
}

// Write implements [net.Conn].
func (t *tuned) Write(b []byte) (int, error) {
	if t.out.done {
		return t.Conn.Write(b)
	}
	sent := append([]byte(nil), b...)
	t.out.pass(sent, func(limit *byte) {
		if len(t.most) > 0 {
			*limit = t.most[0]
			t.most = t.most[1:]
		}
	})
	return t.Conn.Write(sent)
}

// A frames reads the frames of a connection's beginning, up to a method.
type frames struct {
	skip   int // bytes before the first frame
	method uint32
	done   bool
	frame  [limitEnds]byte // the beginning of the present frame
	came   int             // bytes of it
}

const (
	frameHead   = 7             // of a frame: type, channel, size
	limitBegins = frameHead + 6 // behind class, method and the number of channels
	limitEnds   = limitBegins + 4
)

// pass calls f with each byte of the limit that the method names.
func (x *frames) pass(b []byte, f func(*byte)) {
	for i := range b {
		switch {
		case x.done:
			return
		case x.skip > 0:
			x.skip--
		default:
			if x.came < len(x.frame) {
				x.frame[x.came] = b[i]
			}
			x.came++
			x.step(&b[i], f)
		}
	}
}

// step looks at the present frame, of which one more byte has come.
func (x *frames) step(last *byte, f func(*byte)) {
	n := x.came
	if n > limitBegins && n <= limitEnds && x.frame[0] == 1 && binary.BigEndian.Uint32(x.frame[frameHead:]) == x.method {
		f(last)
		x.done = n == limitEnds
	}
	if n > frameHead && n == frameHead+int(binary.BigEndian.Uint32(x.frame[3:]))+1 {
		x.came = 0
	}
}
