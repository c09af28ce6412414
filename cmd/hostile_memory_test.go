package cmd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/backlog/retry"
)

// A hostileMemory is the engine on a table in memory, which must do what the program does on
// databases. What commands do without the engine is done by the test.
type hostileMemory struct {
	*rapid.T
	draw     *hostileDraw
	receiver *receiver
	store    *memory.Store

	mu  sync.Mutex
	log strings.Builder
}

func hostileInMemory(t *testing.T) {
	receiver := newReceiver()
	t.Cleanup(receiver.server.Close)
	kind := &hostileDatabase{
		name:      "memory",
		times:     []hostileTime{{name: "memory"}},
		obstacles: []string{"none", "check"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := drawHostile(rt, kind)
		m := &hostileMemory{T: rt, draw: d, receiver: receiver}
		w := &hostileWorld{T: rt, draw: d, receiver: receiver, side: m}
		w.run()
	})
}

// policy returns the draw's policy, as the program makes it.
func (m *hostileMemory) policy() *backlog.Policy {
	if m.draw.Policy == "progressive" {
		return nil
	}
	settings := retry.New(m.draw.Policy)
	switch x := settings.(type) {
	case *retry.List:
		x.Intervals = make([]time.Duration, m.draw.Retries)
	case *retry.Linear:
		x.Interval = time.Millisecond
		x.MaxRetries = m.draw.Retries
	case *retry.Fibonacci:
		x.Unit = time.Millisecond
	}
	p, err := retry.Policy(settings)
	if err != nil {
		m.Fatal(err)
	}
	return p
}

func (m *hostileMemory) setup(now time.Time) {
	m.Helper()
	o := memory.Options{ErrorKeep: m.draw.ErrorKeep, Policy: m.policy()}
	if m.draw.Dead {
		o.Dead = "DEAD"
	}
	o.Refuses = func(r memory.Row) error {
		if m.draw.refuses(&m.draw.Rows[rowOf(r.Key)], r.Status) {
			return errors.New("refused: a sick row")
		}
		return nil
	}
	m.store = memory.New(o)
	for row := range m.draw.Rows {
		m.add(row, now)
	}
}

func keyOf(row int) backlog.Key { return backlog.NewKey(int64(1000 + row)) }
func rowOf(k backlog.Key) int   { return int(k.Part(0).(int64)) - 1000 }

func (m *hostileMemory) add(row int, now time.Time) {
	m.Helper()
	r := &m.draw.Rows[row]
	if r.Sms {
		return // it would be in another table
	}
	x := memory.Row{Key: keyOf(row), Status: r.Status, Inserted: r.inserted(row, now)}
	if r.Late {
		x.Expires = now.Add(-time.Hour)
	}
	if err := m.store.Insert(x); err != nil {
		m.Fatal(err)
	}
}

func (m *hostileMemory) read() []hostileState {
	list := make([]hostileState, len(m.draw.Rows))
	for _, r := range m.store.Rows() {
		s := &list[rowOf(r.Key)]
		s.Status = r.Status
		s.Failures = r.Memory.Failures
		if m.draw.Notes {
			s.Tries = r.Attempts
			s.Problem = answerIn(r.LastError)
		}
	}
	return list
}

func (m *hostileMemory) hold(row int) error {
	m.store.Update(keyOf(row), func(r *memory.Row) { r.Status = "HOLD" })
	return nil
}

func (m *hostileMemory) fill(int) error { return nil }

func (m *hostileMemory) said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.String()
}

func (m *hostileMemory) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(&m.log, format+"\n", args...)
}

// engine returns what a process has.
func (m *hostileMemory) engine(now func() time.Time) *backlog.Engine {
	m.mu.Lock()
	m.log.Reset()
	m.mu.Unlock()
	call := func(path string) backlog.HandlerFunc {
		return func(ctx context.Context, r *backlog.Record) error {
			answer, ok := m.receiver.call(rowOf(r.Key), path)
			switch {
			case !ok: // the process is killed
				<-ctx.Done()
				return ctx.Err()
			case answer == "error":
				return errors.New("no such item")
			case answer == "reject":
				return backlog.Reject(errors.New("gone"))
			}
			return nil
		}
	}
	e := &backlog.Engine{
		Store:       m.store,
		Handler:     call("/handle"),
		Concurrency: m.draw.Workers,
		Policy:      m.policy(),
		Now:         now,
		Observe: func(ev backlog.Event) {
			if ev.Err != nil {
				m.say("%v: %v: %v", ev.Kind, ev.Record, ev.Err)
			}
			what := "outcome"
			if ev.Record != nil && ev.Record.Reason != "" {
				what = "dead status"
			}
			if ev.Kind == backlog.Refused {
				m.say("the table does not take the %s: %v", what, ev.Record.Key)
			}
		},
	}
	if m.draw.OnDead {
		e.OnDead = call("/dead")
	}
	return e
}

func (m *hostileMemory) passOf(age string, now time.Time) backlog.Pass {
	p := backlog.Pass{Tier: age, MaxAge: 7 * 24 * time.Hour, Widest: true, Now: now}
	if age == "1d" {
		p.MaxAge = 24 * time.Hour
		p.Widest = false
	}
	return p
}

func (m *hostileMemory) pass(age string, now time.Time) (status int, counts map[string]int) {
	m.Helper()
	report, err := m.engine(func() time.Time { return now }).Pass(m.Context(), m.passOf(age, now))
	text, wrong := json.Marshal(&report)
	if wrong != nil {
		m.Fatal(wrong)
	}
	var all map[string]any
	if wrong := json.Unmarshal(text, &all); wrong != nil {
		m.Fatal(wrong)
	}
	counts = make(map[string]int)
	for name, v := range all {
		if n, ok := v.(float64); ok {
			counts[name] = int(n)
		}
	}
	if err != nil || report.Refused > 0 {
		status = 1
	}
	return status, counts
}

// change writes to the rows that are meant, but for those that the table refuses.
func (m *hostileMemory) change(done string, meant func(row int, r *memory.Row) bool, write func(r *memory.Row)) (status int, counts map[string]int) {
	counts = make(map[string]int)
	for _, r := range m.store.Rows() {
		row := rowOf(r.Key)
		if !meant(row, &r) {
			continue
		}
		counts["selected"]++
		write(&r)
		if m.draw.refuses(&m.draw.Rows[row], r.Status) {
			m.say("refused: %v", r.Key)
			status = 1
			continue
		}
		if r.Status == "DEAD" && m.draw.OnDead {
			m.receiver.call(row, "/dead")
		}
		m.store.Update(r.Key, write)
		counts[done]++
	}
	return status, counts
}

func (m *hostileMemory) retry(time.Time) (status int, counts map[string]int) {
	meant := func(_ int, r *memory.Row) bool { return r.Status == "ERROR" || r.Status == "DEAD" }
	return m.change("reset", meant, func(r *memory.Row) {
		r.Status = "NEW"
		r.Memory = backlog.Memory{}
		r.InRetry = false
	})
}

func (m *hostileMemory) discard(state string, _ time.Time) (status int, counts map[string]int) {
	from := "ERROR"
	if state == "fresh" {
		from = "NEW"
	}
	meant := func(_ int, r *memory.Row) bool {
		return r.Status == from && !m.policy().GivenUp(r.Memory.Failures)
	}
	return m.change("discarded", meant, func(r *memory.Row) { r.Status = "DEAD" })
}

// kills returns an engine whose handlers end at the n-th call, as in a process that is
// killed, and what ends with it.
func (m *hostileMemory) kills(n int, now func() time.Time) (*backlog.Engine, context.Context) {
	e := m.engine(now)
	hard := make(chan struct{})
	e.Hard = hard
	ctx, cancel := context.WithCancel(m.Context())
	m.receiver.next(n, func(int) bool {
		close(hard)
		cancel()
		return false
	})
	return e, ctx
}

func (m *hostileMemory) killed(now time.Time, n int) {
	e, ctx := m.kills(n, func() time.Time { return now })
	e.Pass(ctx, m.passOf("7d", now))
}

func (m *hostileMemory) two(now time.Time) {
	var both sync.WaitGroup
	for range 2 {
		e := m.engine(func() time.Time { return now })
		both.Go(func() {
			lock, err := backlog.WaitLock(m.Context(), m.store, backlog.RunLock, nil)
			if err != nil {
				m.say("%v", err)
				return
			}
			defer lock.Unlock()
			e.Pass(m.Context(), m.passOf("7d", now))
		})
	}
	both.Wait()
}

func (m *hostileMemory) daemon(now time.Time) time.Time {
	clock := func() time.Time { return now }
	e := m.engine(clock)
	return m.passes(m.Context(), e, &now, 3)
}

// passes makes n passes of the engine, whose clock is now, a second after each other.
func (m *hostileMemory) passes(ctx context.Context, e *backlog.Engine, now *time.Time, n int) time.Time {
	for range n {
		e.Pass(ctx, m.passOf("7d", *now))
		*now = now.Add(time.Second)
	}
	return *now
}

func (m *hostileMemory) takeOver(now time.Time, n int) time.Time {
	clock := func() time.Time { return now }
	first, ctx := m.kills(n, clock)
	m.passes(ctx, first, &now, 3)
	m.receiver.disarm()
	second := m.engine(clock)
	return m.passes(m.Context(), second, &now, 2)
}
