package redis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"backlog/backlog"
	"backlog/backlog/handler/redis"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

var _ backlog.Handler = (*redis.Handler)(nil)

// lists are those of one test.
type lists struct {
	redigo.Conn
	handler *redis.Handler
	log     *bytes.Buffer
}

// newLists returns lists of the test's own on the Redis.
func newLists(t *testing.T, url string, change func(s *redis.Settings)) *lists {
	t.Helper()
	l := &lists{log: new(bytes.Buffer)}
	s := redis.NewSettings()
	s.URL, s.Input, s.Output = url, testserver.Name("in-"), testserver.Name("out-")
	if change != nil {
		change(s)
	}
	l.handler = &redis.Handler{Settings: *s, Log: slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	t.Cleanup(func() {
		if l.Conn != nil {
			_, _ = l.Do("DEL", s.Input, s.Output, s.Output+"-bad")
			l.Close()
		}
		l.handler.Close()
	})
	return l
}

// connect lets the test look at the lists itself.
func (l *lists) connect(t *testing.T, url string) {
	t.Helper()
	var err error
	if l.Conn, err = redigo.DialURL(url); err != nil {
		t.Fatal(err)
	}
}

func (l *lists) all(t *testing.T, list string) []string {
	t.Helper()
	items, err := redigo.Strings(l.Do("LRANGE", list, 0, -1))
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func (l *lists) push(t *testing.T, list string, items []string) {
	t.Helper()
	if _, err := l.Do("RPUSH", redigo.Args{list}.AddFlat(items)...); err != nil {
		t.Fatal(err)
	}
}

// begun is a record whose attempt runs.
func begun() *backlog.Record {
	return &backlog.Record{
		Key: backlog.NewKey(int64(7)), AttemptID: "u1", Names: []string{"id", "input_url", "n"}, Values: []any{int64(7), `https://example.com/"a"`, nil},
		Memory: &backlog.Memory{UID: "u1", AttemptNo: 2, Deadline: time.Date(2026, 1, 5, 7, 0, 0, 5e8, time.UTC)},
	}
}

// names are the ones of the page's example.
func names(s *redis.Settings) {
	s.Fields[0][0], s.Fields[1][0], s.Fields[2][0] = "big_table_uid", "refresh_attempt_uid", "request_attempt_uid"
	s.Columns = []string{"input_url"}
}

func TestRedisPushes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *redis.Settings)
		want   string
	}{
		"all columns": {nil, `{"id":7,"attempt_uid":"u1","attempt_no":2,"deadline":"2026-01-05T07:00:00.5Z","input_url":"https://example.com/\"a\"","n":null}`},
		"names":       {names, `{"big_table_uid":7,"refresh_attempt_uid":"u1","attempt_no":2,"deadline":"2026-01-05T07:00:00.5Z","input_url":"https://example.com/\"a\""}`},
		"none":        {func(s *redis.Settings) { s.Columns = []string{} }, `{"id":7,"attempt_uid":"u1","attempt_no":2,"deadline":"2026-01-05T07:00:00.5Z"}`},
		"trace in the place of a column": {
			func(s *redis.Settings) { s.Fields[5][0] = "input_url" },
			`{"id":7,"attempt_uid":"u1","attempt_no":2,"deadline":"2026-01-05T07:00:00.5Z","input_url":"00-4bf9-00f0-01","n":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLists(t, testserver.RedisURL(t), test.change)
			l.connect(t, l.handler.URL)
			r := begun()
			if strings.HasPrefix(name, "trace") {
				r.Traceparent = "00-4bf9-00f0-01"
			}
			for range 2 {
				if err := l.handler.Handle(t.Context(), r); !errors.Is(err, backlog.Accepted) {
					t.Fatal(err)
				}
			}
			if got := l.all(t, l.handler.Input); !slices.Equal(got, []string{test.want, test.want}) {
				t.Errorf("pushed %s, want %s", got, test.want)
			}
			if !strings.Contains(l.log.String(), "2 in "+l.handler.Input) {
				t.Errorf("logged %s", l.log)
			}
		})
	}
}

func TestRedisRefusesRecords(t *testing.T) {
	l := newLists(t, testserver.RedisURL(t), names)
	l.connect(t, l.handler.URL)
	other := begun()
	other.Names = []string{"id", "elsewhere", "n"}
	handlertest.WantError(t, l.handler.Handle(t.Context(), other), "redis: columns: the record has no column input_url; see table.columns", backlog.Errored)
	for _, r := range []*backlog.Record{handlertest.NewRecord(), {Memory: new(backlog.Memory)}} {
		if err := l.handler.Handle(t.Context(), r); backlog.OutcomeOf(err) != backlog.Skipped || !strings.Contains(err.Error(), "policy: refresh and its column attempt_uid") {
			t.Error(err)
		}
	}
	if got := l.all(t, l.handler.Input); len(got) > 0 {
		t.Errorf("pushed %s", got)
	}
}

// told is who is told of answers, and knows some attempts.
type told struct {
	running map[string]bool
	answers []backlog.Answer
	err     error
}

func (to *told) tell(_ context.Context, answers []backlog.Answer) (reasons []error, err error) {
	if to.err != nil {
		return nil, to.err
	}
	reasons = make([]error, len(answers))
	for i, a := range answers {
		if !to.running[a.UID] {
			reasons[i] = fmt.Errorf("%w: no running attempt", backlog.ErrConflict)
			continue
		}
		to.answers = append(to.answers, a)
		if a.Outcome != backlog.Skipped {
			delete(to.running, a.UID)
		}
	}
	return reasons, nil
}

func TestRedisCollects(t *testing.T) {
	l := newLists(t, testserver.RedisURL(t), names)
	l.connect(t, l.handler.URL)
	good := []string{
		`{"big_table_uid":7,"request_attempt_uid":"a","type":"user_friendly_status","message":"half \u0000way","more":{}}`,
		`{"request_attempt_uid":"a","type":"user_friendly_status","message":"nearly"}`,
		`{"request_attempt_uid":"b","type":"failure","error":"no such host"}`,
		`{"request_attempt_uid":"c","type":"failure","error":null}`,
		`{"request_attempt_uid":"a","type":"success"}`,
		`{"request_attempt_uid":"d","type":"reject","error":"Provided URL is invalid"}`,
		`{"request_attempt_uid":"e","type":"snooze","snooze":"2h","error":"closed"}`,
		`{"request_attempt_uid":"f","type":"snooze","snooze":90}`,
	}
	bad := []string{
		"", "null", "[]", `"a"`, "{", `{"request_attempt_uid":"b","type":"success"} x`, `{"type":"success"}`, `{"request_attempt_uid":"b"}`,
		`{"request_attempt_uid":"b","type":"done"}`, `{"request_attempt_uid":7,"type":"success"}`, `{"request_attempt_uid":"","type":"success"}`,
		`{"request_attempt_uid":"b\u0000","type":"success"}`, `{"request_attempt_uid":"b","type":"failure","error":7}`,
		`{"request_attempt_uid":"b","type":"user_friendly_status"}`, `{"request_attempt_uid":"b","type":"user_friendly_status","message":["x"]}`, "\xff\xfe",
		`{"request_attempt_uid":"b","type":"snooze"}`, `{"request_attempt_uid":"b","type":"snooze","snooze":"soon"}`,
	}
	items := append(append([]string{}, bad...), good...)
	l.push(t, l.handler.Output, items)
	to := &told{running: map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": true}}
	if err := l.handler.Collect(t.Context(), to.tell); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(to.answers, func(a, b backlog.Answer) int { return strings.Compare(a.UID, b.UID) })
	want := []backlog.Answer{
		{UID: "a", Outcome: backlog.Skipped, Text: "half \uFFFDway"}, {UID: "a", Outcome: backlog.Skipped, Text: "nearly"}, {UID: "a", Outcome: backlog.Succeeded},
		{UID: "b", Outcome: backlog.Errored, Text: "no such host"}, {UID: "c", Outcome: backlog.Errored}, {UID: "d", Outcome: backlog.Rejected, Text: "Provided URL is invalid"},
		{UID: "e", Outcome: backlog.Snoozed, Text: "closed", Snooze: backlog.SnoozeTime{For: 2 * time.Hour}}, {UID: "f", Outcome: backlog.Snoozed, Snooze: backlog.SnoozeTime{For: 90 * time.Second}},
	}
	if !reflect.DeepEqual(to.answers, want) {
		t.Errorf("told %+v, want %+v", to.answers, want)
	}
	if got := l.all(t, l.handler.Output+"-bad"); !slices.Equal(got, bad) {
		t.Errorf("bad: %q, want %q", got, bad)
	}
	if got := l.all(t, l.handler.Output); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

// What is no answer stays where it cannot be moved, and keeps no answer from being read.
func TestRedisCannotMove(t *testing.T) {
	l := newLists(t, testserver.RedisURL(t), nil)
	l.connect(t, l.handler.URL)
	if _, err := l.Do("SET", l.handler.Output+"-bad", "no list"); err != nil {
		t.Fatal(err)
	}
	l.push(t, l.handler.Output, []string{"garbage", `{"attempt_uid":"a","type":"success"}`})
	to := &told{running: map[string]bool{"a": true}}
	if err := l.handler.Collect(t.Context(), to.tell); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || len(to.answers) != 1 {
		t.Errorf("told %v, error %v", to.answers, err)
	}
	if got := l.all(t, l.handler.Output); !slices.Equal(got, []string{"garbage"}) {
		t.Errorf("left: %q", got)
	}
	_, _ = l.Do("DEL", l.handler.Output+"-bad")
	if err := l.handler.Collect(t.Context(), to.tell); err != nil || !slices.Equal(l.all(t, l.handler.Output+"-bad"), []string{"garbage"}) {
		t.Errorf("moved: %q, %v", l.all(t, l.handler.Output+"-bad"), err)
	}
}

// TestRedisKeepsAnswers shows that answers stay where nobody could be told of them.
func TestRedisKeepsAnswers(t *testing.T) {
	l := newLists(t, testserver.RedisURL(t), nil)
	l.connect(t, l.handler.URL)
	items := []string{`{"attempt_uid":"a","type":"success"}`, "garbage"}
	l.push(t, l.handler.Output, items)
	away := errors.New("the database is away")
	if err := l.handler.Collect(t.Context(), (&told{err: away}).tell); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	if got := l.all(t, l.handler.Output); !slices.Equal(got, items) {
		t.Errorf("left: %q", got)
	}
	refused := errors.New("column disabled_reason takes 10 characters")
	err := l.handler.Collect(t.Context(), func(context.Context, []backlog.Answer) ([]error, error) { return []error{refused}, nil })
	if got := l.all(t, l.handler.Output); err != nil || len(got) > 0 {
		t.Errorf("left: %q, %v", got, err)
	}
	if !strings.Contains(l.log.String(), refused.Error()) {
		t.Errorf("logged %s", l.log)
	}
}

// answers returns n of them in any order, of which 10 % are of attempts that nobody
// knows, 5 % are no answers and 5 % come twice; and the attempts of the others.
func answers(n int) (items []string, running map[string]bool, garbage int) {
	running = make(map[string]bool)
	for i := range n {
		uid := "uid-" + strconv.Itoa(i)
		item := fmt.Sprintf(`{"id":%d,"attempt_uid":%q,"type":"success"}`, i, uid)
		switch p := i % 20; {
		case p < 2: // foreign
		case p == 2:
			item = "garbage " + strconv.Itoa(i)
			garbage++
		case p == 3:
			items = append(items, item)
			running[uid] = true
		default:
			running[uid] = true
		}
		items = append(items, item)
	}
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items, running, garbage
}

func TestRedisThousandAnswers(t *testing.T) {
	l := newLists(t, testserver.RedisURL(t), nil)
	l.connect(t, l.handler.URL)
	items, running, garbage := answers(1000)
	l.push(t, l.handler.Output, items)
	n, to := len(running), &told{running: running}
	for away := 0; len(l.all(t, l.handler.Output)) > 0; away++ {
		to.err = nil
		if away == 0 {
			to.err = errors.New("the database is away")
		}
		if err := l.handler.Collect(t.Context(), to.tell); !errors.Is(err, to.err) {
			t.Fatal(err)
		}
	}
	if len(to.answers) != n || len(to.running) != 0 {
		t.Errorf("%d answers, want %d; still running: %v", len(to.answers), n, to.running)
	}
	if got := l.all(t, l.handler.Output+"-bad"); len(got) != garbage {
		t.Errorf("%d are bad, want %d", len(got), garbage)
	}
}

// python returns the one that has the client of Redis, and skips the test where none has.
func python(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(path, "-c", "import redis").Run() == nil {
			return path
		}
	}
	t.Skip("Python has no package redis")
	return ""
}

// TestRedisWorker runs the worker of the page.
func TestRedisWorker(t *testing.T) {
	url := testserver.RedisURL(t)
	l := newLists(t, url, nil)
	const path = "../../../testdata/workers/redis_worker.py"
	_, shown, _ := strings.Cut(testkit.ReadFile(t, "../../../docs/handlers.md"), "```python\n")
	if shown, _, _ = strings.Cut(shown, "```"); shown == "" || !strings.Contains(testkit.ReadFile(t, path), shown) {
		t.Errorf("the page shows another worker: %s", shown)
	}
	worker := exec.Command(python(t), path, l.handler.Input, l.handler.Output)
	worker.Env = append(os.Environ(), "REDIS_URL="+url)
	var said bytes.Buffer
	worker.Stderr = &said
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
		if t.Failed() {
			t.Logf("the worker said: %s", said.String())
		}
	}()
	to := &told{running: make(map[string]bool)}
	for uid, city := range map[string]string{"a": "Rome", "b": "Nowhere"} {
		to.running[uid] = true
		r := begun()
		r.Names, r.Values, r.Memory.UID = []string{"id", "city"}, []any{int64(7), city}, uid
		if err := l.handler.Handle(t.Context(), r); !errors.Is(err, backlog.Accepted) {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the worker has answered", func() bool {
		if err := l.handler.Collect(t.Context(), to.tell); err != nil {
			t.Fatal(err)
		}
		return len(to.answers) == 2
	})
	slices.SortFunc(to.answers, func(a, b backlog.Answer) int { return strings.Compare(a.UID, b.UID) })
	if want := []backlog.Answer{{UID: "a"}, {UID: "b", Outcome: backlog.Errored, Text: "ValueError: there is no such city"}}; !reflect.DeepEqual(to.answers, want) {
		t.Errorf("%+v, want %+v", to.answers, want)
	}
}

// server starts a Redis of the test's own, which keeps nothing when it is stopped.
func server(t *testing.T, port string) (stop func()) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no program redis-server to start and stop")
	}
	c := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the Redis listens", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	stop = func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	t.Cleanup(stop)
	return stop
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestRedisAway restarts a Redis, and what was in it is lost: while it is away no
// record is begun, and what is handled is left as it was.
// TestRedisDeaf is a Redis in which answers cannot be read.
func TestRedisDeaf(t *testing.T) {
	l := newLists(t, testserver.RedisURL(t), nil)
	l.connect(t, l.handler.URL)
	spoil := func() { _, _ = l.Do("SET", l.handler.Output, "no list") }
	spoil()
	if err := l.handler.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("an attempt would begin: %v", err)
	}
	for range 3 {
		if err := l.handler.Collect(t.Context(), new(told).tell); err == nil {
			t.Error("no error")
		}
	}
	_, _ = l.Do("DEL", l.handler.Output)
	if err := l.handler.Collect(t.Context(), new(told).tell); err != nil {
		t.Error(err)
	}
	spoil()
	l.handler.Collect(t.Context(), new(told).tell)
	if n := strings.Count(l.log.String(), "answers are not read"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, l.log)
	}
}

func TestRedisAway(t *testing.T) {
	port := freePort(t)
	stop := server(t, port)
	l := newLists(t, "redis://:hidden@127.0.0.1:"+port+"/0", nil)
	l.connect(t, "redis://127.0.0.1:"+port)
	if _, err := l.Do("CONFIG", "SET", "requirepass", "another"); err != nil {
		t.Fatal(err)
	}
	err := l.handler.Ready(t.Context())
	if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "the Redis at 127.0.0.1:"+port+" says: ") {
		t.Errorf("a password that is wrong: %v", err)
	}
	if _, err := l.Do("CONFIG", "SET", "requirepass", "hidden"); err != nil {
		t.Fatal(err)
	}
	if err := l.handler.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.handler.Handle(t.Context(), begun()); !errors.Is(err, backlog.Accepted) {
		t.Error(err)
	}

	stop()
	to := new(told)
	for what, err := range map[string]error{
		"Ready": l.handler.Ready(t.Context()), "Handle": l.handler.Handle(t.Context(), begun()), "Collect": l.handler.Collect(t.Context(), to.tell),
	} {
		if err == nil || !strings.Contains(err.Error(), "; is it running, and is redis.url right?") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", what, err)
		}
		if what == "Handle" && backlog.OutcomeOf(err) != backlog.Skipped {
			t.Errorf("%s: the record is not left as it was: %v", what, err)
		}
	}

	server(t, port)
	items, running, _ := answers(1000)
	n := len(running)
	to.running = running
	h := redis.Handler{Settings: l.handler.Settings}
	h.URL = "redis://127.0.0.1:" + port
	defer h.Close()
	if err := h.Handle(t.Context(), begun()); !errors.Is(err, backlog.Accepted) {
		t.Error(err)
	}
	l.connect(t, "redis://127.0.0.1:"+port)
	if got := l.all(t, h.Input); len(got) != 1 {
		t.Errorf("%d requests: the one from before the restart is lost, and no other is there twice", len(got))
	}
	l.push(t, h.Output, items)
	if err := h.Collect(t.Context(), to.tell); err != nil || len(to.answers) != n {
		t.Errorf("%d of %d answers, %v", len(to.answers), n, err)
	}
}

// TestRedisDistrusts has a server whose certificate is not trusted: it does not learn the password.
func TestRedisDistrusts(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes
	server.StartTLS()
	defer server.Close()
	l := newLists(t, "rediss://:hunter2@"+server.Listener.Addr().String(), nil)
	err := l.handler.Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("want the certificate refused, got %v", err)
	}
}

// TestRedisSilent is a server that takes connections and says nothing.
func TestRedisSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := newLists(t, "redis://"+listener.Addr().String(), nil)
	began := time.Now()
	if err := l.handler.Ready(t.Context()); err == nil || time.Since(began) > 15*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.handler.Handle(ctx, begun()); backlog.OutcomeOf(err) != backlog.Skipped {
		t.Errorf("too late: %v", err)
	}
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if err := l.handler.Handle(ctx, begun()); !errors.Is(err, stopped) {
		t.Errorf("stopped: %v", err)
	}
}

func TestRedisSettings(t *testing.T) {
	for want, change := range map[string]func(s *redis.Settings){
		"": func(*redis.Settings) {},
		"url: is no URL of a Redis; write one such as redis://user:${PASSWORD}@127.0.0.1:6379/0, or rediss:// for TLS; in a password @ is %40, / is %2F and so on":  func(s *redis.Settings) { s.URL = "http://:hidden@%zz" },
		"url: is no URL of a Redis; write one such as redis://user:${PASSWORD}@127.0.0.1:6379/0, or rediss:// for TLS; in a password @ is %40, / is %2F and so on ": func(s *redis.Settings) { s.URL = "redis://127.0.0.1/0?db=1" },
		"input: is a list that answers come to; workers need one of their own":                                                                                      func(s *redis.Settings) { s.Input = "out" },
		"input: is a list that answers come to; workers need one of their own ":                                                                                     func(s *redis.Settings) { s.Input = "out-bad" },
		"fields.id: is empty; name a field":                                                                      func(s *redis.Settings) { s.Fields[0][0] = "" },
		"fields.attempt_in: id is the name of id, too; choose another":                                           func(s *redis.Settings) { s.Fields[1][0] = "id" },
		"fields.attempt_out: type is another field of answers; choose another name":                              func(s *redis.Settings) { s.Fields[2][0] = "type" },
		"columns[1]: id is a field of requests already; give that another name, such as fields: {id: record_id}": func(s *redis.Settings) { s.Columns = []string{"a", "id"} },
	} {
		s := redis.NewSettings()
		s.URL, s.Input, s.Output = "redis://127.0.0.1", "in", "out"
		change(s)
		got := ""
		s.Check(func(field, problem string) { got += field + ": " + problem })
		if want = strings.TrimSpace(want); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		err := (&redis.Handler{Settings: *s}).Prepare()
		refused, wantRefused := "", ""
		if err != nil {
			refused = err.Error()
		}
		if want != "" {
			wantRefused = "redis: " + want
		}
		testkit.Equal(t, "Prepare", refused, wantRefused)
	}
	s := redis.NewSettings()
	s.URL, s.Input, s.Output, s.Columns = "redis://127.0.0.1", "in", "out", []string{"traceparent"}
	for traced, want := range map[bool]string{
		false: "<nil>",
		true:  "redis: columns: with trace, traceparent is a field of requests already; give that another name, such as fields: {traceparent: attempt_traceparent}",
	} {
		testkit.Equal(t, "Prepare", fmt.Sprint((&redis.Handler{Settings: *s, Traced: traced}).Prepare()), want)
	}
	if err := (&redis.Handler{Settings: *redis.NewSettings()}).Prepare(); err == nil || !strings.HasPrefix(err.Error(), "redis: url: is empty") {
		t.Error(err)
	}
}

// FuzzAnswer shows that whatever comes is either told or moved, and gone then.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"attempt_uid":"a","type":"success"}`, `{"attempt_uid":"a","type":"user_friendly_status","message":"x"}`, "", "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, item string) {
		for _, a := range redis.Answers(item) {
			if !json.Valid([]byte(item)) || a.UID == "" || strings.ContainsRune(a.Text, 0) {
				t.Errorf("%q: %+v", item, a)
			}
		}
	})
}
