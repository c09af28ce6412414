package lines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"backlog/backlog"
	"backlog/backlog/handler/proc"
)

// A reply is what a worker says of one attempt.
type reply struct {
	attempt string
	outcome backlog.Outcome
	text    string        // of the error; may be empty
	pause   time.Duration // that it asks for; negative: none
}

// outcomes are the words for them.
var outcomes = map[string]backlog.Outcome{
	"success": backlog.Succeeded, "error": backlog.Errored, "reject": backlog.Rejected, "skip": backlog.Skipped,
}

// replyFields are the fields of a reply; all but the last are texts.
var replyFields = []string{"attempt_id", "outcome", "error", "retry_after"}

// parseReply reads one line. The error says what is wrong with it, as the rest
// of a sentence about the worker that "wrote" it. Names are exact, and none is there
// twice: encoding/json would take "Error" for "error", and the last of two alike.
func parseReply(line []byte) (reply, error) {
	if !json.Valid(line) {
		return reply{}, errors.New("what is not one JSON object")
	}
	line = bytes.TrimSpace(line)
	if kind := kindOf(line); kind != "object" {
		return reply{}, fmt.Errorf("JSON of the type %s, which is no object", kind)
	}
	r, word := reply{pause: -1}, ""
	texts := [...]*string{&r.attempt, &word, &r.text, nil}
	var seen [len(texts)]bool
	for rest := bytes.TrimSpace(line[1 : len(line)-1]); len(rest) > 0; {
		var quoted, value []byte
		quoted, rest = cutJSON(rest)
		value, rest = cutJSON(rest)
		i := slices.Index(replyFields, textOf(quoted))
		if i < 0 {
			continue
		}
		if seen[i] {
			return reply{}, fmt.Errorf("a reply with more than one %s", replyFields[i])
		}
		seen[i] = true
		switch kind := kindOf(value); {
		case kind == "null":
		case kind == "string" && texts[i] != nil:
			*texts[i] = textOf(value)
		case kind == "number" && texts[i] == nil:
			seconds, _ := strconv.ParseFloat(string(value), 64) // infinite, if it is out of range
			if seconds < 0 {
				return reply{}, errors.New("a reply whose retry_after is negative")
			}
			r.pause = time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
		default:
			return reply{}, fmt.Errorf("a reply whose %s is of the type %s", replyFields[i], kind)
		}
	}
	if r.attempt == "" {
		return reply{}, errors.New("a reply without attempt_id")
	}
	var ok bool
	if r.outcome, ok = outcomes[word]; !ok {
		return reply{}, errors.New("a reply whose outcome is none of success, error, reject and skip")
	}
	return r, nil
}

// cutJSON returns the first value, or name, of what stands between the braces of a
// valid object, and what comes behind its comma or colon.
func cutJSON(b []byte) (value, rest []byte) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':':
			if depth == 0 {
				return bytes.TrimSpace(b[:i]), b[i+1:]
			}
		}
	}
	return bytes.TrimSpace(b), nil
}

// textOf returns what a string in valid JSON means.
func textOf(quoted []byte) (text string) {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	json.Unmarshal(quoted, &text)
	return text
}

// kinds are the types of JSON values by their first byte, but for numbers.
var kinds = [256]string{'{': "object", '[': "array", '"': "string", 't': "bool", 'f': "bool", 'n': "null"}

// kindOf returns the type of a value in valid JSON.
func kindOf(value []byte) string { return cmp.Or(kinds[value[0]], "number") }

// err returns the error that the reply stands for.
func (r reply) err() (err error) {
	text := proc.Head(r.text)
	if text != "" {
		err = errors.New(text)
	}
	switch {
	case r.outcome == backlog.Succeeded:
		return nil
	case r.outcome == backlog.Rejected:
		err = backlog.Reject(err)
	case r.outcome == backlog.Skipped && err == nil:
		err = backlog.Skip
	case r.outcome == backlog.Skipped:
		err = backlog.Worded(text, backlog.Skip)
	case err == nil:
		err = errors.New("the worker said error, without a text")
	}
	if r.pause >= 0 {
		err = backlog.RetryAfter(r.pause, err)
	}
	return err
}

// appendRequest appends the line by which a worker is given r: a JSON object
// and a newline. The attempt comes first, so that a worker that has no JSON
// parser can cut it out.
func appendRequest(b []byte, attempt string, r *backlog.Record) ([]byte, error) {
	var inserted any
	if !r.Inserted.IsZero() {
		inserted = r.Inserted.UTC().Format(time.RFC3339Nano)
	}
	request := backlog.Record{
		Names:  []string{"attempt_id", "id", "status", "inserted", "tier"},
		Values: []any{attempt, r.Key, r.Status, inserted, r.Tier},
	}
	if s := r.Refresh; s != nil {
		request.Names = append(request.Names, "attempt_uid", "attempt_no", "deadline")
		request.Values = append(request.Values, r.AttemptID, s.AttemptNo, s.DeadlineText())
	}
	if r.Reason != "" {
		request.Names = append(request.Names, "reason", "error")
		request.Values = append(request.Values, r.Reason, proc.Head(r.Error))
	}
	b, err := request.AppendColumnsJSON(b)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be written as JSON: %w", err)
	}
	b = append(b[:len(b)-1], `,"record":`...) // in place of the brace
	if b, err = r.AppendColumnsJSON(b); err != nil {
		return nil, fmt.Errorf("the record cannot be written as JSON: %w", err)
	}
	return append(b, "}\n"...), nil
}
