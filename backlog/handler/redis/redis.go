// Package redis hands records over to workers by lists in a Redis, and hears of them
// again by others.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// Settings are what the configuration says of the lists. URL may hold a password and
// must not be printed.
type Settings struct {
	// URL is redis://user:password@host:port/database, or rediss:// with TLS.
	URL string `yaml:"url,env" required:"redis://127.0.0.1:6379/0"`

	// Input is the list that workers take requests from, Output the one that they
	// put answers into. They have no default: two tables with the same lists would
	// drop each other's answers.
	Input  string `yaml:"input" required:"orders-input"`
	Output string `yaml:"output" required:"orders-output"`

	Fields  mapping.Names `yaml:"fields"`                                          // of requests and answers, in the order below
	Columns []string      `yaml:"columns,names" want:"a column or a list of them"` // in a request; nil: all that records have
}

// The fields of requests and answers that can have other names.
const (
	id = iota
	attemptIn
	attemptOut
	attemptNo
	deadline
)

// badSuffix makes the name of the list for what is no answer.
const badSuffix = "-bad"

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Fields: mapping.Names{{"id", "id"}, {"attempt_uid", "attempt_in"}, {"attempt_uid", "attempt_out"}, {"attempt_no", "attempt_no"}, {"deadline", "deadline"}}}
}

// Check reports what is wrong with the settings, and nothing of what is secret.
func (s *Settings) Check(fail func(field, problem string)) {
	if _, err := s.address(); err != nil && s.URL != "" {
		fail("url", err.Error())
	}
	if s.Input != "" && (s.Input == s.Output || s.Input == s.Output+badSuffix) {
		fail("input", "is a list that answers come to; workers need one of their own")
	}
	names := make(map[string]string)
	for i, f := range s.Fields {
		switch other, twice := names[f[0]]; {
		case f[0] == "":
			fail("fields."+f[1], "is empty; name a field")
		case i == attemptOut: // of answers
			if slices.Contains([]string{"type", "message", "error"}, f[0]) {
				fail("fields."+f[1], f[0]+" is another field of answers; choose another name")
			}
		case twice:
			fail("fields."+f[1], fmt.Sprintf("%s is the name of %s, too; choose another", mapping.Show(f[0]), other))
		default:
			names[f[0]] = f[1]
		}
	}
	for i, c := range s.Columns {
		if other, taken := names[c]; taken {
			fail(fmt.Sprintf("columns[%d]", i), fmt.Sprintf("%s is a field of requests already; give that another name, such as fields: {%s: record_%s}", mapping.Show(c), other, c))
		}
	}
}

// address returns where the Redis is. Its error shows nothing of the URL.
func (s *Settings) address() (address string, err error) {
	parse := func(_ context.Context, _, a string) (net.Conn, error) {
		address = a
		return nil, errors.New("it is not dialed")
	}
	if _, _ = redis.DialURL(s.URL, redis.DialContextFunc(parse)); address == "" || strings.Contains(s.URL, "?") {
		return "", errors.New("is no URL of a Redis; write one such as redis://user:${PASSWORD}@127.0.0.1:6379/0, or rediss:// for TLS; in a password @ is %40, / is %2F and so on")
	}
	return address, nil
}

// wait is how long a Redis may take to let somebody in, and to go on with an answer or with
// reading.
const wait = 3 * time.Second

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: wait}).DialContext(ctx, network, address)
	return conn{c}, err
}

// A conn waits for each part of what is read or written. redigo has a time for the whole, for
// which a hundred long answers may be too long.
type conn struct{ net.Conn }

func (c conn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(wait)) // else Read fails as well
	return c.Conn.Read(p)
}

func (c conn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(wait))
	return c.Conn.Write(p)
}

// Handler pushes a request for each record to a list in a Redis, for workers that
// take it from there, and reads their answers from another.
//
// A request is a JSON object with the fields id, attempt_uid, attempt_no, deadline
// and the columns of the record. It is pushed once. An answer is a JSON object with
// the attempt_uid of its request, and
//
//	type     success, failure, reject (a failure that is final), or
//	         user_friendly_status: the attempt goes on
//	error    of a failure or reject, a text
//	message  of a user_friendly_status, a text for the customer
//
// Other fields of answers are ignored. Methods may be called concurrently. A Handler
// must not be copied or changed after the first call, and is closed at the end.
type Handler struct {
	Settings

	Log *slog.Logger // gets what is pushed, at DEBUG, and warnings of answers; nil: none

	once sync.Once // for what is next
	idle *redis.Pool

	deafness atomic.Value // the text of the error of the last Collect
}

var (
	_ backlog.ConfiguredHandler = (*Handler)(nil)
	_ backlog.ReadyChecker      = (*Handler)(nil)
	_ backlog.Collector         = (*Handler)(nil)
	_ io.Closer                 = (*Handler)(nil)
)

// pingTime is how long a Redis has to say that it is there.
const pingTime = 2 * time.Second

// Prepare reports what is wrong with the settings, with a hint. Unlike Check it
// touches no network.
func (h *Handler) Prepare() error {
	for _, x := range [][2]string{{"url", h.URL}, {"input", h.Input}, {"output", h.Output}} {
		if x[1] == "" {
			return fmt.Errorf("redis: %s: is empty; see docs/handlers.md", x[0])
		}
	}
	if err := mapping.FirstProblem(h.Settings.Check); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Check reports what would keep a record from being pushed. It changes nothing.
func (h *Handler) Check(ctx context.Context) error {
	if err := h.Prepare(); err != nil {
		return err
	}
	return h.Ready(ctx)
}

// Ready returns an error unless the Redis answers and lets answers be read, for the
// engine, which begins no attempt else.
func (h *Handler) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	_, err := h.do(ctx, redis.Args{"LRANGE", h.Output, 1, 0}) // none of it
	return err
}

// Describe implements [backlog.ConfiguredHandler]. It asks for the columns that a request has,
// for none if it has them all.
func (h *Handler) Describe() backlog.Description {
	address, _ := h.address()
	checked := fmt.Sprintf("the Redis at %s answers; requests go to %s, answers come from %s", address, h.Input, h.Output)
	return backlog.Description{Columns: h.Columns, Checked: checked}
}

// Handle pushes a request for r and returns [backlog.Accepted]. If the Redis does not
// take it, the error is [backlog.Unstarted]: the record stays due. Where it is not
// known whether the Redis has it, that is so, too: an answer to it is dropped, since
// its attempt is over.
func (h *Handler) Handle(ctx context.Context, r *backlog.Record) error {
	if r.Memory == nil || r.Memory.UID == "" {
		return backlog.Unstarted(errors.New("redis: answers need policy: refresh and its column attempt_uid, by which they are told from others; add it to the table (backlog init prints it)"))
	}
	request, err := h.request(r)
	if err != nil {
		return err
	}
	n, err := redis.Int64(h.do(ctx, redis.Args{"RPUSH", h.Input, request}))
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) {
		if err != nil {
			return string(request), err.Error()
		}
		return string(request), strconv.FormatInt(n, 10) + " in " + h.Input
	})
	switch {
	case err == nil:
		return backlog.Accepted
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return backlog.Unstarted(err)
}

// request returns the JSON that is pushed.
func (h *Handler) request(r *backlog.Record) ([]byte, error) {
	req := backlog.Record{Values: []any{r.Key, r.Memory.UID, r.Memory.AttemptNo, backlog.TimeText(r.Memory.Deadline)}}
	for _, field := range []int{id, attemptIn, attemptNo, deadline} {
		req.Names = append(req.Names, h.Fields[field][0])
	}
	columns := h.Settings.Columns
	if columns == nil {
		columns = slices.DeleteFunc(slices.Clone(r.Names), func(name string) bool { return slices.Contains(req.Names, name) })
	}
	for _, name := range columns {
		v, ok := r.Column(name)
		if !ok {
			return nil, fmt.Errorf("redis: columns: the record has no column %s; see table.columns", name)
		}
		req.Names, req.Values = append(req.Names, name), append(req.Values, v)
	}
	return req.ColumnsJSON()
}

// pool returns the connections, which are made when they are used.
func (h *Handler) pool() *redis.Pool {
	h.once.Do(func() {
		h.idle = &redis.Pool{
			MaxIdle: 16,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialURLContext(ctx, h.URL, redis.DialContextFunc(dial), redis.DialTLSHandshakeTimeout(wait), redis.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
			},
			TestOnBorrowContext: ping,
		}
	})
	return h.idle
}

// ping asks a connection that may have ended since it was used. What was sent may have been
// done: an answer that got lost must not push a request twice.
func ping(ctx context.Context, c redis.Conn, used time.Time) (err error) {
	if time.Since(used) > time.Second {
		_, err = redis.DoContext(c, ctx, "PING")
	}
	return err
}

// do sends commands and returns the answer to the last.
func (h *Handler) do(ctx context.Context, commands ...redis.Args) (answer any, err error) {
	if _, err := h.address(); err != nil {
		return nil, fmt.Errorf("redis: url: %w", err)
	}
	c, err := h.pool().GetContext(ctx)
	if err != nil {
		return nil, h.worded(err)
	}
	defer c.Close()
	for i, args := range commands {
		if name := args[0].(string); i < len(commands)-1 {
			err = c.Send(name, args[1:]...)
		} else {
			answer, err = redis.DoContext(c, ctx, name, args[1:]...)
		}
		if err != nil {
			return nil, h.worded(err)
		}
	}
	return answer, nil
}

// worded returns an error with the place, and a hint where the Redis says nothing.
func (h *Handler) worded(err error) error {
	address, _ := h.address()
	if errors.As(err, new(redis.Error)) {
		return fmt.Errorf("the Redis at %s says: %w", address, err)
	}
	return fmt.Errorf("the Redis at %s: %w; is it running, and is redis.url right?", address, err)
}

// Close closes the connections.
func (h *Handler) Close() error { return h.pool().Close() }

// batch is how many answers are read at once.
const batch = 100

// Collect reads answers until there are none, tells of them, and only then removes
// them: a crash repeats answers, and loses none. tell is [backlog.Engine.Resolve].
// What is no answer is moved to the list Output-bad.
func (h *Handler) Collect(ctx context.Context, tell func(context.Context, []backlog.Answer) ([]error, error)) (err error) {
	defer func() { h.deaf(ctx, err) }()
	for {
		items, err := redis.Strings(h.do(ctx, redis.Args{"LRANGE", h.Output, 0, batch - 1}))
		if err != nil || len(items) == 0 {
			return err
		}
		answers, bad := h.read(items)
		if len(answers) > 0 {
			reasons, err := tell(ctx, answers)
			if err != nil {
				return err
			}
			h.warn(ctx, answers, reasons)
		}
		if err := h.remove(ctx, items, bad); err != nil || len(items) < batch {
			return err
		}
	}
}

// deaf logs what keeps answers from being read, once until it is something else: without
// it, there would only be attempts that time out.
func (h *Handler) deaf(ctx context.Context, err error) {
	now := fmt.Sprint(err)
	if last := h.deafness.Swap(now); err != nil && last != now && ctx.Err() == nil && h.Log != nil {
		h.Log.WarnContext(ctx, "answers are not read", "list", h.Output, "err", err)
	}
}

// remove removes items that were read. Each is removed by what it says: who collects
// at the same time removes none that was not seen. What is no answer stays where it cannot
// be moved.
func (h *Handler) remove(ctx context.Context, items, bad []string) (err error) {
	if len(bad) > 0 {
		_, err = h.do(ctx, redis.Args{"RPUSH", h.Output + badSuffix}.AddFlat(bad))
		if err == nil && h.Log != nil {
			h.Log.WarnContext(ctx, fmt.Sprintf("%s has what is no answer; it is in %s now", h.Output, h.Output+badSuffix), "n", len(bad), "first", backlog.Beginning(bad[0], 200))
		}
	}
	var commands []redis.Args
	for _, item := range items {
		if err == nil || !slices.Contains(bad, item) {
			commands = append(commands, redis.Args{"LREM", h.Output, 1, item})
		}
	}
	_, left := h.do(ctx, commands...)
	return cmp.Or(err, left)
}

// warn logs answers that were dropped.
func (h *Handler) warn(ctx context.Context, answers []backlog.Answer, reasons []error) {
	var foreign []string
	for i, err := range reasons {
		switch {
		case err == nil || h.Log == nil:
		case errors.Is(err, backlog.ErrConflict):
			foreign = append(foreign, answers[i].UID)
		default: // it is not taken: the deadline ends the attempt
			h.Log.ErrorContext(ctx, "an answer was not written", "attempt_uid", answers[i].UID, "err", err)
		}
	}
	if len(foreign) > 0 {
		h.Log.WarnContext(ctx, "answers of attempts that do not run were dropped", "n", len(foreign), "first", foreign[0])
	}
}

// types are the words for outcomes.
var types = map[string]backlog.Outcome{
	"success": backlog.Succeeded, "failure": backlog.Errored, "reject": backlog.Rejected, "user_friendly_status": backlog.Skipped,
}

// read returns the answers in the items, and the items that are none.
func (h *Handler) read(items []string) (answers []backlog.Answer, bad []string) {
	for _, item := range items {
		if a, ok := h.answer(item); ok {
			answers = append(answers, a)
		} else {
			bad = append(bad, item)
		}
	}
	return answers, bad
}

// maxText is how much of a text is kept.
const maxText = 2 << 10

func (h *Handler) answer(item string) (a backlog.Answer, ok bool) {
	var fields map[string]any
	if json.Unmarshal([]byte(item), &fields) != nil {
		return a, false
	}
	word, _ := fields["type"].(string)
	a.UID, _ = fields[h.Fields[attemptOut][0]].(string)
	a.Outcome, ok = types[word]
	text := fields["error"]
	if a.Outcome == backlog.Skipped {
		text = fields["message"]
		ok = ok && text != nil
	}
	if s, isText := text.(string); text != nil {
		a.Text, ok = s, ok && isText
	}
	// Some databases have no U+0000 in a text, not even to look for.
	a.Text = backlog.Beginning(strings.ReplaceAll(a.Text, "\x00", "\uFFFD"), maxText)
	// A database would refuse to look for some texts that are no UIDs, and with them for
	// all answers of a batch.
	return a, ok && a.UID != "" && len(a.UID) <= 255 && !strings.ContainsFunc(a.UID, notOfUID)
}

func notOfUID(r rune) bool { return r <= ' ' || r > '~' }
