package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
// of a sentence about the worker that "wrote" it.
func parseReply(line []byte) (reply, error) {
	var w struct {
		Attempt string   `json:"attempt_id"`
		Outcome string   `json:"outcome"`
		Error   string   `json:"error"`
		Pause   *float64 `json:"retry_after"`
	}
	if err := json.Unmarshal(line, &w); err != nil {
		var kind *json.UnmarshalTypeError
		if !errors.As(err, &kind) {
			return reply{}, errors.New("what is not one JSON object")
		}
		if kind.Field == "" {
			return reply{}, fmt.Errorf("JSON of the type %s, which is no object", kind.Value)
		}
		return reply{}, fmt.Errorf("a reply whose %s is of the type %s", kind.Field, kind.Value)
	}
	if w.Attempt == "" {
		return reply{}, errors.New("a reply without attempt_id")
	}
	outcome, ok := outcomes[w.Outcome]
	if !ok {
		return reply{}, errors.New("a reply whose outcome is none of success, error, reject and skip")
	}
	r := reply{attempt: w.Attempt, outcome: outcome, text: w.Error, pause: -1}
	if w.Pause != nil {
		if *w.Pause < 0 {
			return reply{}, errors.New("a reply whose retry_after is negative")
		}
		r.pause = time.Duration(min(*w.Pause*float64(time.Second), math.MaxInt64/2))
	}
	return r, nil
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
