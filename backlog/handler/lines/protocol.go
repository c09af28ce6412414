package lines

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

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

// parseReply reads one line. The error says what is wrong with it, as the rest
// of a sentence about the worker that "wrote" it. Names are exact: decoded into a
// struct, "Error" would be taken for "error".
func parseReply(line []byte) (reply, error) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		return reply{}, errors.New("what is not one JSON object")
	}
	var texts [3]string
	for i, name := range []string{"attempt_id", "outcome", "error"} {
		var ok bool
		if texts[i], ok = fields[name].(string); !ok && fields[name] != nil {
			return reply{}, fmt.Errorf("a reply whose %s is no text", name)
		}
	}
	outcome, known := outcomes[texts[1]]
	seconds, pauses := fields["retry_after"].(float64)
	switch {
	case texts[0] == "":
		return reply{}, errors.New("a reply without attempt_id")
	case !known:
		return reply{}, errors.New("a reply whose outcome is none of success, error, reject and skip")
	case !pauses && fields["retry_after"] != nil, seconds < 0:
		return reply{}, errors.New("a reply whose retry_after is no number of seconds")
	}
	r := reply{texts[0], outcome, texts[2], -1}
	if pauses {
		r.pause = time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
	}
	return r, nil
}

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
	request := new(backlog.Record)
	request.Names, request.Values = r.Told()
	request.Values[0] = attempt
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
