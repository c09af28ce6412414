package amqp

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// A fieldReader makes headers of bytes, as the client does of what a broker sends.
type fieldReader struct{ rest []byte }

func (r *fieldReader) byte() byte {
	if len(r.rest) == 0 {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *fieldReader) text() string {
	n := min(int(r.byte()), len(r.rest))
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *fieldReader) number() (n uint64) {
	var b [8]byte
	copy(b[:], r.text())
	return binary.LittleEndian.Uint64(b[:])
}

// knownNames are the headers that are read or written.
var knownNames = []string{
	"count", "backoff", "x-death", "x-delivery-count", "CC", "BCC", originalKeyHeader, savedHeadersHeader, retryInfo, "x-first-death-reason", "x-last-death-queue", "",
}

func (r *fieldReader) name() string {
	if b := int(r.byte()); b < len(knownNames) {
		return knownNames[b]
	}
	return r.text()
}

func (r *fieldReader) table(depth int) amqp.Table {
	t := make(amqp.Table)
	for range r.byte() % 8 {
		t[r.name()] = r.field(depth)
	}
	return t
}

func (r *fieldReader) field(depth int) any {
	kind := r.byte() % 17
	if depth == 0 && kind < 2 {
		return nil
	}
	switch kind {
	case 0:
		return r.table(depth - 1)
	case 1:
		list := []any{}
		for range r.byte() % 4 {
			list = append(list, r.field(depth-1))
		}
		return list
	case 2:
		return r.byte() == 1
	case 3:
		return r.byte()
	case 4:
		return int8(r.byte())
	case 5:
		return int16(r.number())
	case 6:
		return int32(r.number())
	case 7:
		return int64(r.number())
	case 8:
		return math.Float32frombits(uint32(r.number()))
	case 9:
		return math.Float64frombits(r.number())
	case 10:
		return amqp.Decimal{Scale: r.byte(), Value: int32(r.number())}
	case 11:
		return time.Unix(int64(r.number()), 0)
	case 12:
		return []byte(r.text())
	case 13:
		return nil
	}
	return r.text()
}

// FuzzHeaders shows that any headers and body become a record whose columns are JSON, that a copy of a copy is the
// copy, that the publisher's headers outlive retries, and that the error queue has the body as it was.
func FuzzHeaders(f *testing.F) {
	for _, b := range []string{
		"", "\x01\x00\x07\x01\x02", "\x02\x00\x07\x01\x02\x01\x07\x01\x3c", "\x02\x00\x0e\x03two\x01\x00\x02",
		"\x01\x07\x00\x01\x00\x06\x01\x05", "\x03\x06\x0e\x03key\x00\x06\x01\xff\x01\x06\x01\x01", "\x01\x0a\x09\x08\x00\x00\x00\x00\x00\x00\xf8\x7f", "\x01\xff\x01a\x01\x03\x00\x00\x01\x03\x03",
	} {
		f.Add([]byte(b), []byte("body"), "key")
	}
	f.Add([]byte{}, []byte("\xff\x00"), "\xff")
	f.Fuzz(func(t *testing.T, fields, body []byte, key string) {
		s := &Settings{Queue: "work"}
		s.Sneakers.RoutingKey = "work"
		s.Sneakers.MaxRetries = 3
		d := &amqp.Delivery{Headers: (&fieldReader{fields}).table(3), Body: body, RoutingKey: key}
		n := failureCount(d.Headers)
		r := s.recordOf(d, identity{})
		if n < 0 || n > 1_000_000 || r.Memory.Failures != n {
			t.Errorf("%d failures, and the record has %d", n, r.Memory.Failures)
		}
		for i, v := range r.Values {
			if raw, ok := v.(json.RawMessage); ok && !json.Valid(raw) {
				t.Errorf("column %s is no JSON: %q", r.Names[i], raw)
			}
		}
		if !bytes.Equal(Body(&r), body) {
			t.Errorf("the body is %q", Body(&r))
		}
		once := copyMessage(d)
		twice := copyMessage(&amqp.Delivery{Headers: once.Headers, Body: once.Body})
		if failureCount(once.Headers) == 0 && !sameJSON(once.Headers, twice.Headers) {
			t.Errorf("a copy has %v, and a copy of it %v", once.Headers, twice.Headers)
		}
		retried := s.retryMessage(d)
		retried.Headers["count"] = int64(n) + 1
		retried.Headers["backoff"] = int64(60)
		if was, is := publisherHeaders(d.Headers), publisherHeaders(retried.Headers); len(was)+len(is) > 0 && !sameJSON(was, is) {
			t.Errorf("the publisher's headers are %v, and after a retry %v", was, is)
		}
		back := &amqp.Delivery{Headers: retried.Headers, Body: retried.Body, RoutingKey: s.retryKey(originalKey(d))}
		if originalKey(back) != originalKey(d) {
			t.Errorf("the key was %q, and is %q after a retry", originalKey(d), originalKey(back))
		}
		p := s.errorMessage(d, backlog.Settlement{Error: "no", Memory: &backlog.Memory{Failures: n + 1}})
		var failed failure
		if err := json.Unmarshal(p.Body, &failed); err != nil {
			t.Fatal(err)
		}
		payload, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(failed.Payload, "\n", ""))
		if err != nil || !bytes.Equal(payload, body) {
			t.Errorf("the error queue has the body %q, error %v", payload, err)
		}
		if size := tableSize(d.Headers); size < 4 {
			t.Errorf("the headers have %d bytes", size)
		}
		hasLongName(d.Headers)
	})
}

// sameJSON reports whether the headers are the same, NaN being itself.
func sameJSON(a, b amqp.Table) bool {
	return reflect.DeepEqual(a, b) || bytes.Equal(asJSON(jsonField(a)), asJSON(jsonField(b)))
}

// FuzzRubyValue shows that what Ruby has printed, or anything else, is a value that can be published again.
func FuzzRubyValue(f *testing.F) {
	for _, text := range []string{
		`{:a=>1, "b"=>[2.5, nil]}`, `{a: "x\n\u{1f600}\xff", "b" => {}}`, `[[[[`, `{:a=>#<Time:0x0>}`, `"\`, `{a b`, `:x`, `{?!: true}`, `[1,]`, `1e999`, `NaN`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := rubyValue(text)
		bound := time.Second + time.Duration(len(text))*time.Millisecond
		if isSlow(bound, text) {
			t.Errorf("%d bytes take more than %v", len(text), bound)
		}
		if err := (amqp.Table{"v": v}).Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if !json.Valid(asJSON(jsonField(v))) {
			t.Errorf("%q: no JSON", text)
		}
	})
}

// isSlow reports whether the text takes longer than the bound each of three times: once may be the machine.
func isSlow(bound time.Duration, text string) bool {
	for range 3 {
		begun := time.Now()
		rubyValue(text)
		if time.Since(begun) <= bound {
			return false
		}
	}
	return true
}

// FuzzOutcome shows that whatever a worker answers is the outcome that it names, or an error, and that a pause
// that it asks for is as long as it says.
func FuzzOutcome(f *testing.F) {
	for _, s := range []string{
		`{"attempt_id":"a","outcome":"success","worker":"w","ticket":"e30."}`, `{"outcome":"error","error":"\ud800\u0000","retry_after":1e300}`, `{"outcome":"error","retry_after":-1}`,
		`{"outcome":"reject"}`, `{"outcome":"skip","retry_after":0.5}`, `{"outcome":"other"}`, `{}`, `null`, `[]`, `{`, `{"outcome":"error","retry_after":9223372036.9}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var o outcome
		if json.Unmarshal(body, &o) != nil {
			return
		}
		err := o.err()
		want := backlog.Errored
		switch o.Outcome {
		case "success":
			want = backlog.Succeeded
		case "reject":
			want = backlog.Rejected
		case "skip":
			want = backlog.Skipped
		}
		if o.RetryAfter == nil && backlog.OutcomeOf(err) != want || (err == nil) != (o.Outcome == "success") {
			t.Errorf("%q: outcome %v", body, backlog.OutcomeOf(err))
		}
		if wait, asks := backlog.PauseOf(err); err != nil && o.RetryAfter != nil {
			seconds := min(max(0, *o.RetryAfter), 100*365*24*3600)
			if !asks || wait.Seconds() < seconds*0.999-1e-6 || *o.RetryAfter <= 0 && wait != 0 {
				t.Errorf("%q: a pause of %v", body, wait)
			}
		}
		d := &Dispatch{DispatchSettings: DispatchSettings{Secret: secret}, Table: "orders-1", States: "s1"}
		if _, err := d.ticketOf(&received{outcome: o}); err == nil {
			t.Errorf("%q has a ticket that nobody has signed", body)
		} else if errors.Is(err, errForged) && o.Ticket == "" {
			t.Errorf("%q: %v", body, err)
		}
		letter := new(received)
		letter.fromDeadLetter(&amqp.Delivery{Body: body})
	})
}
