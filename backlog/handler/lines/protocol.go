package lines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/proc"
)

// parseReply reads one line: which attempt it is about, and the error that stands for
// its outcome. wrong says what is wrong with the line, as the rest
// of a sentence about the worker that "wrote" it. Names are exact: decoded into a
// struct, "Error" would be taken for "error".
func parseReply(line []byte) (attempt string, outcome, wrong error) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		return "", nil, errors.New("what is not one JSON object")
	}
	var texts [3]string
	for i, name := range []string{"attempt_id", "outcome", "error"} {
		var ok bool
		if texts[i], ok = fields[name].(string); !ok && fields[name] != nil {
			return "", nil, fmt.Errorf("a reply whose %s is no text", name)
		}
	}
	attempt, word, text := texts[0], texts[1], proc.Head(texts[2])
	if text != "" {
		outcome = errors.New(text)
	}
	seconds, pauses := fields["retry_after"].(float64)
	switch {
	case attempt == "":
		return "", nil, errors.New("a reply without attempt_id")
	case !pauses && fields["retry_after"] != nil, seconds < 0:
		return "", nil, errors.New("a reply whose retry_after is no number of seconds")
	case word == "success":
		return attempt, nil, nil
	case word == "reject":
		outcome = backlog.Reject(outcome)
	case word == "skip" && text == "":
		outcome = backlog.Skip
	case word == "skip":
		outcome = backlog.Worded(text, backlog.Skip)
	case word != "error":
		return "", nil, errors.New("a reply whose outcome is none of success, error, reject and skip")
	case text == "":
		outcome = errors.New("the worker said error, without a text")
	}
	if pauses {
		outcome = backlog.RetryAfter(time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2)), outcome)
	}
	return attempt, outcome, nil
}

// request returns the line by which a worker is given r: a JSON object and a newline.
// The attempt comes first, so that a worker that has no JSON parser can cut it out.
func request(attempt string, r *backlog.Record) ([]byte, error) {
	told := new(backlog.Record)
	told.Names, told.Values = r.Told()
	told.Values[0] = attempt
	b, err := told.AppendColumnsJSON(make([]byte, 0, 512))
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], `,"record":`...) // in place of the brace
	if b, err = r.AppendColumnsJSON(b); err != nil {
		return nil, err
	}
	return append(b, "}\n"...), nil
}

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
