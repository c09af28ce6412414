package handler

import "bytes"

// A lineLog is a tail that hands on each line of the stream, too.
type lineLog struct {
	tail
	log  func(line string) // nil: nobody wants to know
	line []byte            // the beginning of one, a little more than is handed on
}

func (l *lineLog) wrote(n int) {
	fresh := l.buf[l.n : l.n+n]
	l.tail.wrote(n)
	for l.log != nil {
		part, rest, whole := bytes.Cut(fresh, []byte{'\n'})
		l.line = append(l.line, part[:min(len(part), 2*tailSize-len(l.line))]...)
		if !whole {
			return
		}
		l.flush()
		fresh = rest
	}
}

// flush hands on the line, unless it is blank, as head would have it: valid
// UTF-8 of bounded length.
func (l *lineLog) flush() {
	if text := bytes.TrimRight(l.line, " \t\r"); l.log != nil && len(text) > 0 {
		l.log(head(string(text)))
	}
	l.line = l.line[:0]
}
