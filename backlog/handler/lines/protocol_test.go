package lines

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
)

func TestParseReply(t *testing.T) {
	long := strings.Repeat("x", 3<<10)
	for _, tt := range []struct {
		line string
		err  error  // what the record gets
		bad  string // what is wrong with the line
	}{
		{line: `{"attempt_id":"a","outcome":"success"}`},
		{line: ` { "more" : [1, {}], "outcome" : "success", "attempt_id" : "a" } ` + "\r"},
		{line: `{"attempt_id":"a","outcome":"success","error":"none, really","retry_after":5}`},
		{line: `{"attempt_id":"a","outcome":"success","error":null,"retry_after":null}`},
		{line: `{"attempt_id":"\u0061","outcome":"error","error":"no\nanswer"}`, err: errors.New("no\nanswer")},
		{line: `{"attempt_id":"a","outcome":"error"}`, err: errors.New("the worker said error, without a text")},
		{line: `{"attempt_id":"a","outcome":"error","error":"` + long + `"}`, err: errors.New(long[:2<<10] + "…")},
		{line: `{"attempt_id":"a","outcome":"error","error":"nul \u0000"}`, err: errors.New("nul \uFFFD")},
		{line: `{"attempt_id":"a","outcome":"reject"}`, err: backlog.Reject(nil)},
		{line: `{"attempt_id":"a","outcome":"reject","error":"no such customer"}`, err: backlog.Reject(errors.New("no such customer"))},
		{line: `{"attempt_id":"a","outcome":"skip"}`, err: backlog.Skip},
		{line: `{"attempt_id":"a","outcome":"skip","error":"later"}`, err: backlog.Worded("later", backlog.Skip)},
		{line: `{"attempt_id":"a","outcome":"error","error":"busy","retry_after":2.5}`,
			err: backlog.RetryAfter(2500*time.Millisecond, errors.New("busy"))},
		{line: `{"attempt_id":"a","outcome":"skip","retry_after":0}`, err: backlog.RetryAfter(0, backlog.Skip)},
		{line: `{"attempt_id":"a","outcome":"error","error":"busy","retry_after":1e300}`,
			err: backlog.RetryAfter(math.MaxInt64/2+1, errors.New("busy"))},

		{line: `{"attempt_id":"a","outcome":"snooze","snooze":"2h"}`, err: backlog.Snooze(2*time.Hour, nil)},
		{line: `{"attempt_id":"a","outcome":"snooze","snooze":90.5,"error":"closed"}`, err: backlog.Snooze(90500*time.Millisecond, errors.New("closed"))},
		{line: `{"attempt_id":"a","outcome":"snooze","snooze":0}`, err: backlog.Snooze(0, nil)},
		{line: `{"attempt_id":"a","outcome":"snooze"}`, err: errors.New("the worker said snooze, and its field snooze is to say how long: it says no time; write seconds, a duration such as 90m or 3d, or a time such as 2027-01-31T08:00:00Z")},
		{line: `{"attempt_id":"a","outcome":"snooze","snooze":["2h"]}`, err: errors.New("the worker said snooze, and its field snooze is to say how long: it says no time; write seconds, a duration such as 90m or 3d, or a time such as 2027-01-31T08:00:00Z")},
		{line: `{"attempt_id":"a","outcome":"success","snooze":"2h"}`},

		// Names are exact.
		{line: `{"attempt_id":"a","outcome":"error","Outcome":"success"}`, err: errors.New("the worker said error, without a text")},
		{line: `{"ATTEMPT_ID":"b","attempt_id":"a","outcome":"success","Error":{"code":3},"Retry_After":[-1,"x"]}`},
		{line: `{"attempt_id":"a","outc\u006fme":"success","x":{"outcome":"error","a":["}",{"b":"\\\""}]},"y":-1.5e3,"z":true,"":null}`},
		{line: "{\"attempt_id\"\t:\"a\" ,\"x\" :[ ] , \"outcome\":\"error\",\"error\" : \"caf\xe9\" }", err: errors.New("caf\uFFFD")},
		{line: `{"Attempt_id":"a","outcome":"success"}`, bad: "a reply without attempt_id"},
		{line: `{"x":1,"x":2,"attempt_id":"a","outcome":"success"}`},

		{line: `null`, bad: "what is not one JSON object"},
		{line: `{}`, bad: "a reply without attempt_id"},
		{line: `{ }`, bad: "a reply without attempt_id"},
		{line: `{"attempt_id":"a","outcome":true}`, bad: "a reply whose outcome is no text"},
		{line: ``, bad: "what is not one JSON object"},
		{line: `ready`, bad: "what is not one JSON object"},
		{line: `{"attempt_id":"a","outcome":"success"} {}`, bad: "what is not one JSON object"},
		{line: `[1]`, bad: "what is not one JSON object"},
		{line: `"a"`, bad: "what is not one JSON object"},
		{line: `{"outcome":"success"}`, bad: "a reply without attempt_id"},
		{line: `{"attempt_id":"","outcome":"success"}`, bad: "a reply without attempt_id"},
		{line: `{"attempt_id":7,"outcome":"success"}`, bad: "a reply whose attempt_id is no text"},
		{line: `{"attempt_id":"a"}`, bad: "a reply whose outcome is none of success, error, reject, skip and snooze"},
		{line: `{"attempt_id":"a","outcome":"Success"}`, bad: "a reply whose outcome is none of success, error, reject, skip and snooze"},
		{line: `{"attempt_id":"a","outcome":"error","error":{"code":3}}`, bad: "a reply whose error is no text"},
		{line: `{"attempt_id":"a","outcome":"error","retry_after":-1}`, bad: "a reply whose retry_after is no number of seconds"},
		{line: `{"attempt_id":"a","outcome":"error","retry_after":"1m"}`, bad: "a reply whose retry_after is no number of seconds"},
	} {
		attempt, got, err := parseReply([]byte(tt.line))
		bad := ""
		if err != nil {
			bad = err.Error()
		}
		if bad != tt.bad {
			t.Errorf("%.80s: %q, want %q", tt.line, bad, tt.bad)
		}
		if err != nil {
			continue
		}
		if attempt != "a" {
			t.Errorf("%.80s: attempt %q", tt.line, attempt)
		}
		if !reflect.DeepEqual(got, tt.err) {
			t.Errorf("%.80s: %#v, want %#v", tt.line, got, tt.err)
		}
	}
}

// Whatever a worker writes, it is a reply with one of the five outcomes or it is
// refused with a reason.
func FuzzParseReply(f *testing.F) {
	for _, s := range []string{
		`{"attempt_id":"a","outcome":"success"}`, `{"attempt_id":"a","outcome":"error","error":"\ud800","retry_after":1e-9}`,
		`{"attempt_id":"a","outcome":"skip","retry_after":9e18}`, `{"ATTEMPT_ID":"a","outcome":"reject"}`, `null`, `[]`, ``, `{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		attempt, got, err := parseReply(line)
		if err != nil {
			if err.Error() == "" || len(err.Error()) > 200 {
				t.Errorf("%q: error %q", line, err)
			}
			return
		}
		if !json.Valid(line) || attempt == "" {
			t.Errorf("%q is taken for a reply to %q", line, attempt)
		}
		var fields map[string]any
		if json.Unmarshal(line, &fields); fields["outcome"] != backlog.OutcomeOf(got).String() {
			t.Errorf("%q: outcome %v, error %v", line, fields["outcome"], got)
		}
		if got != nil && strings.ContainsRune(got.Error(), 0) {
			t.Errorf("%q: error %q", line, got)
		}
	})
}

// However what a worker writes is cut into pieces, the lines are the same.
func TestRepliesInPieces(t *testing.T) {
	const text = `{"attempt_id":"a","outcome":"success"}` + "\n" + `{"attempt_id":"b","outcome":"error","error":"no"}` + "\r\n" +
		`{"attempt_id":"c","outcome":"skip"}` + "\n" + `{"attempt`
	for size := 1; size <= len(text); size++ {
		w := newWorker(&Handler{})
		tasks := make(map[string]*task)
		for _, id := range []string{"a", "b", "c", "d"} {
			tasks[id] = &task{attempt: id, done: make(chan error, 1)}
			w.assign(tasks[id])
		}
		r := &replyReader{w: w}
		for rest := text; rest != ""; {
			n, _ := r.Write([]byte(rest[:min(size, len(rest))]))
			rest = rest[n:]
		}
		for id, want := range map[string]backlog.Outcome{"a": backlog.Succeeded, "b": backlog.Errored, "c": backlog.Skipped} {
			select {
			case err := <-tasks[id].done:
				if o := backlog.OutcomeOf(err); o != want || errors.As(err, new(*workerEnd)) {
					t.Errorf("pieces of %d: %s is %v, want %v", size, id, o, want)
				}
			default:
				t.Errorf("pieces of %d: no answer for %s", size, id)
			}
		}
		if w.terminateCtx.Err() != nil || len(w.inFlight) != 1 {
			t.Errorf("pieces of %d: %v, %d in flight", size, w.terminateCtx.Err(), len(w.inFlight))
		}
		if got, want := r.unfinished(), `, its last line has no end: "{\"attempt"`; got != want {
			t.Errorf("pieces of %d: %s, want %s", size, got, want)
		}
	}
}

// A line is bounded.
func TestRepliesTooLong(t *testing.T) {
	for extra, want := range map[int]string{0: "what is not one JSON object", 1: "a line of more than 1048576 bytes"} {
		w := newWorker(&Handler{})
		r := &replyReader{w: w}
		line := strings.Repeat("x", maxLine+extra) + "\n"
		for line != "" {
			n, _ := r.Write([]byte(line[:min(32<<10, len(line))]))
			line = line[n:]
		}
		if bad := context.Cause(w.terminateCtx); bad == nil || !strings.HasPrefix(bad.Error(), "the worker wrote "+want+`: "xxx`) {
			t.Errorf("%d bytes: %v, want %s", maxLine+extra, bad, want)
		}
		if len(r.rest) != 0 {
			t.Errorf("%d bytes are kept", len(r.rest))
		}
	}
}
