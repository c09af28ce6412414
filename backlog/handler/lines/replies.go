package lines

import (
	"bytes"
	"fmt"

	"backlog/backlog/handler/proc"
)

// maxLine is the longest line that a worker may write, without its end.
const maxLine = 1 << 20

// replies is a worker's standard output.
type replies struct {
	w       *worker
	rest    []byte // an unfinished line
	ignored bool   // what it writes means nothing any more
}

// Write implements io.Writer. It does not fail.
func (r *replies) Write(p []byte) (int, error) {
	if r.ignored {
		return len(p), nil
	}
	r.rest = append(r.rest, p...)
	unread, whole := r.rest, true
	for whole {
		var line, after []byte
		var wrong error
		if line, after, whole = bytes.Cut(unread, []byte{'\n'}); len(line) > maxLine {
			wrong = nonsense(fmt.Sprintf("a line of more than %d bytes", maxLine), line)
		} else if whole {
			wrong = r.read(line)
			unread = after
		}
		if wrong != nil {
			r.ignored, r.rest = true, nil
			r.w.end(wrong)
			return len(p), nil
		}
	}
	r.rest = append(r.rest[:0], unread...)
	return len(p), nil
}

func (r *replies) read(line []byte) error {
	attempt, outcome, wrong := parseReply(line)
	if wrong != nil {
		return nonsense(wrong.Error(), line)
	}
	return r.w.report(attempt, outcome, line)
}

// unfinished says what the worker has written behind its last whole line.
func (r *replies) unfinished() string {
	if len(r.rest) == 0 {
		return ""
	}
	return fmt.Sprintf(", its last line has no end: %.200q", r.rest)
}

// messages is a worker's standard error.
type messages struct {
	tail proc.Tail
	log  func(line string)
	line []byte // the beginning of one, a little more than is logged
}

// Write implements io.Writer. It does not fail.
func (m *messages) Write(p []byte) (int, error) {
	m.tail.Write(p)
	for fresh := p; ; {
		part, rest, whole := bytes.Cut(fresh, []byte{'\n'})
		m.line = append(m.line, part[:min(len(part), 2*proc.TailSize-len(m.line))]...)
		if !whole {
			return len(p), nil
		}
		m.flush()
		fresh = rest
	}
}

// flush logs the line, unless it is blank, as valid UTF-8 of bounded length.
func (m *messages) flush() {
	if text := bytes.TrimRight(m.line, " \t\r"); len(text) > 0 {
		m.log(proc.Head(string(text)))
	}
	m.line = m.line[:0]
}

// beginning returns as much of a line as can be in the log.
func beginning(line []byte) string {
	return string(bytes.TrimSpace(line[:min(len(line), 2*proc.TailSize)]))
}
