package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"backlog/backlog"
)

// A mailbox is a store: letters in the order in which they came.
type mailbox struct {
	mu      sync.Mutex
	letters []letter
}

type letter struct {
	to    string
	came  time.Time
	state string // waiting, failed or sent
}

// Pending implements backlog.Store. Letters are known by their number.
func (m *mailbox) Pending(_ context.Context, q backlog.Query) (page backlog.Page, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := map[backlog.Lane]string{backlog.Fresh: "waiting", backlog.Failed: "failed"}[q.Lane]
	for i := place(q.After, len(m.letters)) - 1; i >= place(q.Until, 0); i-- {
		l := m.letters[i]
		if l.state != state || l.came.Before(q.Since) {
			continue
		}
		if len(page.Records) == q.Limit {
			page.More = true
			break
		}
		key := backlog.NewKey(int64(i))
		page.Next = backlog.Cursor{Key: key}
		page.Records = append(page.Records, backlog.Record{
			Key: key, Status: l.state, Inserted: l.came, Lane: q.Lane, Cursor: page.Next,
			Names: []string{"to"}, Values: []any{l.to},
		})
	}
	return page, nil
}

// place returns the number of the letter that is the last before the place, or
// none where it is no place.
func place(c backlog.Cursor, none int) int {
	if c.IsZero() {
		return none
	}
	i := int(c.Key.Part(0).(int64))
	if c.Before {
		i++
	}
	return i
}

// Settle implements backlog.Store.
func (m *mailbox) Settle(_ context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range group {
		l := &m.letters[s.Record.Key.Part(0).(int64)]
		switch {
		case l.state != s.Record.Status:
			left = append(left, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
		case s.Target == backlog.RowSuccess:
			l.state = "sent"
		default:
			l.state = "failed"
		}
	}
	return left, nil
}

// A store of one's own is two methods. What it cannot do besides, such as count
// its records, is left out.
func ExampleStore() {
	box := &mailbox{}
	for i, to := range []string{"Delft", "Atlantis", "Ghent"} {
		box.letters = append(box.letters, letter{to, time.Now().Add(time.Duration(i-3) * time.Hour), "waiting"})
	}
	send := func(_ context.Context, r *backlog.Record) error {
		if to, _ := r.Column("to"); to == "Atlantis" {
			return errors.New("no such port")
		}
		return nil
	}
	engine := &backlog.Engine{Store: box, Handler: backlog.HandlerFunc(send)}
	for range 2 {
		report, err := engine.Pass(context.Background(), backlog.Pass{MaxAge: 24 * time.Hour})
		fmt.Println(report.Selected, "tried,", report.Succeeded, "sent,", err)
	}
	for _, l := range box.letters {
		fmt.Println(l.to, l.state)
	}
	// Output:
	// 3 tried, 2 sent, <nil>
	// 1 tried, 0 sent, <nil>
	// Delft sent
	// Atlantis failed
	// Ghent sent
}
