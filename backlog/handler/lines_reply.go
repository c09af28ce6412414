package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"backlog/backlog"
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
// of a sentence about the worker that "wrote" it. Names are exact: others, in
// other capitals too, mean nothing.
func parseReply(line []byte) (reply, error) {
	if !json.Valid(line) {
		return reply{}, errors.New("what is not one JSON object")
	}
	if kind := kindOf(trimJSON(line)); kind != "object" {
		return reply{}, fmt.Errorf("JSON of the type %s, which is no object", kind)
	}
	r, word := reply{pause: -1}, ""
	var seen [4]bool
	for name, value := range fields(line) {
		text, i := (*string)(nil), slices.Index(replyFields[:], name)
		switch i {
		case 0:
			text = &r.attempt
		case 1:
			text = &word
		case 2:
			text = &r.text
		case -1:
			continue
		}
		if seen[i] {
			return reply{}, fmt.Errorf("a reply with more than one %s", name)
		}
		seen[i] = true
		switch kind := kindOf(value); {
		case kind == "null":
		case kind == "string" && text != nil:
			*text = textOf(value)
		case kind == "number" && text == nil:
			if err := r.setPause(string(value)); err != nil {
				return reply{}, err
			}
		default:
			return reply{}, fmt.Errorf("a reply whose %s is of the type %s", name, kind)
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

// replyFields are the fields of a reply; all but the last are texts.
var replyFields = [...]string{"attempt_id", "outcome", "error", "retry_after"}

// setPause takes a number of seconds; one beyond all is the longest pause.
func (r *reply) setPause(number string) error {
	seconds, _ := strconv.ParseFloat(number, 64) // infinite, if it is out of range
	if seconds < 0 {
		return errors.New("a reply whose retry_after is negative")
	}
	r.pause = time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
	return nil
}

// err returns the error that the reply stands for.
func (r reply) err() error {
	if r.outcome == backlog.Succeeded {
		return nil
	}
	var err error
	switch text := head(r.text); {
	case r.outcome == backlog.Rejected && text == "":
		err = backlog.Reject(nil)
	case r.outcome == backlog.Rejected:
		err = backlog.Reject(errors.New(text))
	case r.outcome == backlog.Skipped && text == "":
		err = backlog.Skip
	case r.outcome == backlog.Skipped:
		err = &failure{text, []error{backlog.Skip}}
	case text == "":
		err = errors.New("the worker said error, without a text")
	default:
		err = errors.New(text)
	}
	if r.pause >= 0 {
		err = backlog.RetryAfter(r.pause, err)
	}
	return err
}
