package handler

import (
	"bytes"
	"fmt"
)

// maxLine is the longest line that a worker may write, without its end.
const maxLine = 1 << 20

// replies is the sink of a worker's standard output.
type replies struct {
	c       *coprocess
	buf     []byte
	n       int // what of buf is an unfinished line
	ready   []verdict
	ignored bool // what it writes means nothing any more
}

func (r *replies) space() []byte {
	if len(r.buf)-r.n < 4<<10 && len(r.buf) <= maxLine {
		size := min(max(64<<10, 2*len(r.buf)), maxLine+1)
		r.buf = append(make([]byte, 0, size), r.buf[:r.n]...)[:size]
	}
	return r.buf[r.n:]
}

func (r *replies) wrote(n int) {
	if r.ignored || n == 0 {
		return
	}
	var wrong *nonsense
	begin, from := 0, r.n // no line ends before from
	r.n += n
	for wrong == nil {
		i := bytes.IndexByte(r.buf[from:r.n], '\n')
		if i < 0 {
			break
		}
		line := r.buf[begin : from+i]
		from += i + 1
		begin = from
		wrong = r.parse(line)
	}
	if wrong == nil && r.n-begin > maxLine {
		wrong = &nonsense{fmt.Sprintf("a line of more than %d bytes", maxLine), bytes.Clone(r.buf[begin : begin+quoted+1])}
	}
	if len(r.ready) > 0 || wrong != nil {
		r.ignored = !r.c.tell(r.ready, wrong)
		clear(r.ready) // they refer to the errors
		r.ready = r.ready[:0]
	}
	r.n = copy(r.buf, r.buf[begin:r.n])
	if r.ignored {
		r.n = 0
	}
}

func (r *replies) parse(line []byte) *nonsense {
	reply, err := parseReply(line)
	if err != nil {
		return &nonsense{err.Error(), bytes.Clone(line[:min(len(line), quoted+1)])}
	}
	r.ready = append(r.ready, verdict{reply.attempt, reply.err(), line})
	return nil
}

// unfinished says what the worker has written behind its last whole line.
func (r *replies) unfinished() string {
	if r.n == 0 {
		return ""
	}
	return fmt.Sprintf(", its last line has no end: %.200q", r.buf[:r.n])
}
