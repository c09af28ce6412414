// Package redis is the handler that hands records over to workers through Redis lists: it
// pushes a request to one list, and the workers push their answers to another.
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

// Settings are the handler's part of the configuration file. URL may hold a password and must
// not be printed.
type Settings struct {
	// URL is redis://user:password@host:port/database, or rediss:// with TLS.
	URL string `yaml:"url,env" required:"redis://127.0.0.1:6379/0"`

	// Input is the list from which workers take requests, Output the list to which they
	// push answers. They have no default: two tables with the same lists would drop each
	// other's answers.
	Input  string `yaml:"input" required:"orders-input"`
	Output string `yaml:"output" required:"orders-output"`

	Fields  mapping.Names `yaml:"fields"`                                          // names of the fields of requests and answers; indexed by the constants below
	Columns []string      `yaml:"columns,names" want:"a column or a list of them"` // of the record in a request; nil: all
}

// The indexes of Settings.Fields: the fields of requests and answers that can be renamed.
const (
	id = iota
	attemptIn
	attemptOut
	attemptNo
	deadline
	traceparent
)

// badSuffix ends the name of the list to which items go that are not answers.
const badSuffix = "-bad"

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Fields: mapping.Names{{"id", "id"}, {"attempt_uid", "attempt_in"}, {"attempt_uid", "attempt_out"}, {"attempt_no", "attempt_no"}, {"deadline", "deadline"}, {"traceparent", "traceparent"}}}
}

// Check calls fail with each problem of the settings. Its texts show no secret.
func (s *Settings) Check(fail func(field, problem string)) {
	if _, err := s.address(); err != nil && s.URL != "" {
		fail("url", err.Error())
	}
	if s.Input != "" && (s.Input == s.Output || s.Input == s.Output+badSuffix) {
		fail("input", "is a list that answers come to; workers need one of their own")
	}
	names := make(map[string]string)
	for i, f := range s.Fields {
		name := f[0]
		key := f[1]
		other, twice := names[name]
		switch {
		case name == "":
			fail("fields."+key, "is empty; name a field")
		case i == attemptOut: // the only field of answers; the others are fields of requests
			if slices.Contains([]string{"type", "message", "error"}, name) {
				fail("fields."+key, name+" is another field of answers; choose another name")
			}
		case twice:
			fail("fields."+key, fmt.Sprintf("%s is the name of %s, too; choose another", mapping.Show(name), other))
		default:
			names[name] = key
		}
	}
	for i, c := range s.Columns {
		if other, taken := names[c]; taken && other != "traceparent" { // that is a field only if tracing is on
			fail(fmt.Sprintf("columns[%d]", i), fmt.Sprintf("%s is a field of requests already; give that another name, such as fields: {%s: record_%s}", mapping.Show(c), other, c))
		}
	}
}

// address returns the host and port of the Redis. Its error shows nothing of the URL, which
// may hold a password.
func (s *Settings) address() (address string, err error) {
	// redigo parses the URL only when it dials. This dialer keeps the address and fails.
	record := func(_ context.Context, _, a string) (net.Conn, error) {
		address = a
		return nil, errors.New("it is not dialed")
	}
	_, _ = redis.DialURL(s.URL, redis.DialContextFunc(record))
	if address == "" || strings.Contains(s.URL, "?") {
		return "", errors.New("is no URL of a Redis; write one such as redis://user:${PASSWORD}@127.0.0.1:6379/0, or rediss:// for TLS; in a password @ is %40, / is %2F and so on")
	}
	return address, nil
}

// ioTimeout bounds connecting, and each read and each write.
const ioTimeout = 3 * time.Second

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: ioTimeout}).DialContext(ctx, network, address)
	return timeoutConn{c}, err
}

// A timeoutConn gives each Read and each Write ioTimeout. The timeouts of redigo are for a
// whole reply, and a reply with a hundred long answers may need more.
type timeoutConn struct{ net.Conn }

func (c timeoutConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(ioTimeout)) // if this fails, so does Read
	return c.Conn.Read(p)
}

func (c timeoutConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(ioTimeout))
	return c.Conn.Write(p)
}

// A Handler pushes a request for each record to the list Input, from which workers take it,
// and reads the workers' answers from the list Output. It requires the refresh policy.
//
// A request is a JSON object with the fields id, attempt_uid, attempt_no, deadline,
// traceparent if the record has one, and the columns of the record. It is pushed once. An answer
// is a JSON object with the attempt_uid of its request and
//
//	type     success, failure, reject (a final failure), or
//	         user_friendly_status: the attempt goes on
//	error    of a failure or reject, a text
//	message  of a user_friendly_status, a text for the customer
//
// Other fields of answers are ignored.
//
// Methods may be called concurrently. A Handler must not be copied or changed after the first
// call, and must be closed at the end.
type Handler struct {
	Settings

	Log *slog.Logger // logs what is pushed at DEBUG, and what is wrong with answers; nil: no log

	// Traced says that records have a [backlog.Record.Traceparent], which is a field of requests.
	Traced bool

	once        sync.Once // makes connections
	connections *redis.Pool

	lastCollect atomic.Value // the error of the last Collect as a string; "<nil>": none
}

var (
	_ backlog.ConfiguredHandler = (*Handler)(nil)
	_ backlog.ReadyChecker      = (*Handler)(nil)
	_ backlog.Collector         = (*Handler)(nil)
	_ io.Closer                 = (*Handler)(nil)
)

// readyTimeout is how long the Redis may take to answer in Ready.
const readyTimeout = 2 * time.Second

// Prepare returns what is wrong with the settings, with a hint. Unlike Check it uses no
// network.
func (h *Handler) Prepare() error {
	for _, setting := range []struct{ key, value string }{{"url", h.URL}, {"input", h.Input}, {"output", h.Output}} {
		if setting.value == "" {
			return fmt.Errorf("redis: %s: is empty; see docs/handlers.md", setting.key)
		}
	}
	if err := mapping.FirstProblem(h.Settings.Check); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if h.Traced && slices.Contains(h.Columns, h.Fields[traceparent][0]) {
		return fmt.Errorf("redis: columns: with trace, %s is a field of requests already; give that another name, such as fields: {traceparent: attempt_traceparent}", mapping.Show(h.Fields[traceparent][0]))
	}
	return nil
}

// Check returns why no record could be pushed now. It changes nothing.
func (h *Handler) Check(ctx context.Context) error {
	if err := h.Prepare(); err != nil {
		return err
	}
	return h.Ready(ctx)
}

// Ready implements [backlog.ReadyChecker]. It returns nil if the Redis answers and the list of
// answers can be read.
func (h *Handler) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_, err := h.do(ctx, redis.Args{"LRANGE", h.Output, 1, 0}) // from 1 to 0: reads no item
	return err
}

// Describe implements [backlog.ConfiguredHandler]. Its Columns are those that a request names,
// none if a request has all.
func (h *Handler) Describe() backlog.Description {
	address, _ := h.address()
	checked := fmt.Sprintf("the Redis at %s answers; requests go to %s, answers come from %s", address, h.Input, h.Output)
	return backlog.Description{Columns: h.Columns, Checked: checked}
}

// Handle pushes a request for r and returns [backlog.Accepted]. If the Redis does not take
// the request, or it is unknown whether it has, the error is [backlog.Unstarted] and the
// record stays due. A worker's answer to such a request is dropped later, since its attempt
// has ended.
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

// request returns the JSON of the request for r.
func (h *Handler) request(r *backlog.Record) ([]byte, error) {
	req := backlog.Record{Values: []any{r.Key, r.Memory.UID, r.Memory.AttemptNo, backlog.TimeText(r.Memory.Deadline)}}
	for _, field := range []int{id, attemptIn, attemptNo, deadline} {
		req.Names = append(req.Names, h.Fields[field][0])
	}
	if r.Traceparent != "" {
		req.Names = append(req.Names, h.Fields[traceparent][0])
		req.Values = append(req.Values, r.Traceparent)
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
		req.Names = append(req.Names, name)
		req.Values = append(req.Values, v)
	}
	return req.ColumnsJSON()
}

// pool returns the pool of connections. A connection is dialled when it is first used.
func (h *Handler) pool() *redis.Pool {
	h.once.Do(func() {
		h.connections = &redis.Pool{
			MaxIdle: 16,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				secure := redis.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12})
				return redis.DialURLContext(ctx, h.URL, redis.DialContextFunc(dial), redis.DialTLSHandshakeTimeout(ioTimeout), secure)
			},
			TestOnBorrowContext: ping,
		}
	})
	return h.connections
}

// ping tests a connection that was idle for more than a second before it is used again. A
// command must not be repeated on another connection when this one turns out to be dead: a
// push whose answer was lost would be done twice.
func ping(ctx context.Context, c redis.Conn, used time.Time) (err error) {
	if time.Since(used) > time.Second {
		_, err = redis.DoContext(c, ctx, "PING")
	}
	return err
}

// do sends commands in a pipeline and returns the reply to the last.
func (h *Handler) do(ctx context.Context, commands ...redis.Args) (reply any, err error) {
	if _, err := h.address(); err != nil {
		return nil, fmt.Errorf("redis: url: %w", err)
	}
	c, err := h.pool().GetContext(ctx)
	if err != nil {
		return nil, h.explain(err)
	}
	defer c.Close()
	for i, args := range commands {
		name := args[0].(string)
		if i < len(commands)-1 {
			err = c.Send(name, args[1:]...)
		} else {
			reply, err = redis.DoContext(c, ctx, name, args[1:]...)
		}
		if err != nil {
			return nil, h.explain(err)
		}
	}
	return reply, nil
}

// explain adds the address to an error, and a hint unless it is a reply of the Redis.
func (h *Handler) explain(err error) error {
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

// Collect implements [backlog.Collector]. It reads answers until the list is empty. An answer
// is removed from the list only when resolve has taken it: a crash repeats answers and loses
// none. An item that is not an answer is moved to the list Output-bad.
func (h *Handler) Collect(ctx context.Context, resolve func(context.Context, []backlog.Answer) ([]error, error)) error {
	err := h.collect(ctx, resolve)
	h.logCollect(ctx, err)
	return err
}

func (h *Handler) collect(ctx context.Context, resolve func(context.Context, []backlog.Answer) ([]error, error)) error {
	for {
		items, err := redis.Strings(h.do(ctx, redis.Args{"LRANGE", h.Output, 0, batch - 1}))
		if err != nil || len(items) == 0 {
			return err
		}
		answers, bad := h.parseAnswers(items)
		if len(answers) > 0 {
			reasons, err := resolve(ctx, answers)
			if err != nil {
				return err
			}
			h.logDropped(ctx, answers, reasons)
		}
		if err := h.remove(ctx, items, bad); err != nil || len(items) < batch {
			return err
		}
	}
}

// logCollect logs why answers cannot be read, once for each new reason. Without it only
// attempts that time out would show the trouble.
func (h *Handler) logCollect(ctx context.Context, err error) {
	text := fmt.Sprint(err)
	last := h.lastCollect.Swap(text)
	if err != nil && last != text && ctx.Err() == nil && h.Log != nil {
		h.Log.WarnContext(ctx, "answers are not read", "list", h.Output, "err", err)
	}
}

// remove removes items from the list of answers, and moves the bad ones to their own list; a
// bad one that cannot be moved stays. Items are removed by value, not by position: with two
// processes that collect at once, neither removes an item that it has not read.
func (h *Handler) remove(ctx context.Context, items, bad []string) error {
	var err error
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
	_, removeErr := h.do(ctx, commands...)
	return cmp.Or(err, removeErr)
}

// logDropped logs the answers that resolve has refused.
func (h *Handler) logDropped(ctx context.Context, answers []backlog.Answer, reasons []error) {
	var foreign []string
	for i, err := range reasons {
		switch {
		case err == nil || h.Log == nil:
		case errors.Is(err, backlog.ErrConflict):
			foreign = append(foreign, answers[i].UID)
		default: // the answer is lost: the deadline ends its attempt
			h.Log.ErrorContext(ctx, "an answer was not written", "attempt_uid", answers[i].UID, "err", err)
		}
	}
	if len(foreign) > 0 {
		h.Log.WarnContext(ctx, "answers of attempts that do not run were dropped", "n", len(foreign), "first", foreign[0])
	}
}

// outcomes are the values of an answer's type.
var outcomes = map[string]backlog.Outcome{
	"success": backlog.Succeeded, "failure": backlog.Errored, "reject": backlog.Rejected, "user_friendly_status": backlog.Skipped,
	"snooze": backlog.Snoozed,
}

// parseAnswers returns the answers in the items, and the items that are not answers.
func (h *Handler) parseAnswers(items []string) (answers []backlog.Answer, bad []string) {
	for _, item := range items {
		if a, ok := h.parseAnswer(item); ok {
			answers = append(answers, a)
		} else {
			bad = append(bad, item)
		}
	}
	return answers, bad
}

// maxText is how much of a text is kept, in bytes.
const maxText = 2 << 10

// maxUID is the longest UID of an attempt, in bytes.
const maxUID = 255

// parseAnswer reads one item of the list. ok is false if it is not an answer.
func (h *Handler) parseAnswer(item string) (a backlog.Answer, ok bool) {
	var fields map[string]any
	if json.Unmarshal([]byte(item), &fields) != nil {
		return a, false
	}
	word, _ := fields["type"].(string)
	a.UID, _ = fields[h.Fields[attemptOut][0]].(string)
	a.Outcome, ok = outcomes[word]
	text := fields["error"]
	if a.Outcome == backlog.Skipped {
		text = fields["message"]
		ok = ok && text != nil
	}
	if a.Outcome == backlog.Snoozed {
		t, err := backlog.ParseSnooze(fields["snooze"])
		a.Snooze = t
		ok = ok && err == nil
	}
	if text != nil {
		s, isString := text.(string)
		a.Text = s
		ok = ok && isString
	}
	// Some databases refuse U+0000, even in the parameter of a query.
	a.Text = backlog.Beginning(strings.ReplaceAll(a.Text, "\x00", "\uFFFD"), maxText)
	// A database may refuse a query for something that cannot be a UID, and with it the
	// query for all answers of the batch.
	return a, ok && isUID(a.UID)
}

// isUID reports whether a text can be the UID of an attempt: printable ASCII without spaces.
func isUID(text string) bool {
	return text != "" && len(text) <= maxUID && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}
