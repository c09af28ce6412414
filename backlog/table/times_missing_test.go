package table_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/internal/testkit"
)

func TestTimesThatAreMissing(t *testing.T) {
	const zeros = "(2, 0), (3, ''), (4, '0000-00-00'), (5, '0000-00-00 00:00:00'), (6, '0001-01-01 00:00:00+00:00'), (7, '0001-01-01T00:00:00Z')"
	for _, x := range []struct {
		null, zero   string
		pass, widest string // the records of a pass, and of the widest
	}{
		{"", "", "9 8", "9 8"},
		{"skip", "skip", "9 8", "9 8"},
		{"newest", "", "1 9 8", "1 9 8"},
		{"oldest", "", "9 8", "9 8 1"},
		{"", "newest", "7 6 5 4 3 2 9 8", "7 6 5 4 3 2 9 8"},
		{"", "oldest", "9 8", "9 8 7 6 5 4 3 2"},
		{"newest", "newest", "7 6 5 4 3 2 1 9 8", "7 6 5 4 3 2 1 9 8"},
		{"oldest", "oldest", "9 8", "9 8 7 6 5 4 3 2 1"},
		{"newest", "oldest", "1 9 8", "1 9 8 7 6 5 4 3 2"},
		{"oldest", "newest", "7 6 5 4 3 2 9 8", "7 6 5 4 3 2 9 8 1"},
	} {
		f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, date_inserted DATETIME, status TEXT DEFAULT 'NEW');
			INSERT INTO BACKLOG (id, date_inserted) VALUES (1, NULL), `+zeros+`, (8, '2026-02-10 01:00:00'), (9, '2026-02-10 02:00:00')`)
		m := plainMapping()
		m.Inserted.Null, m.Inserted.Zero, m.Dead = x.null, x.zero, is(text("DEAD"))
		s := f.store(m)
		for _, size := range []int{1, 2, 7, 100} {
			what := fmt.Sprintf("NULL %q, zero dates %q, pages of %d", x.null, x.zero, size)
			records, unreadable := readAll(t, s, backlog.Query{Limit: size})
			wantKeys(t, what, records, x.pass)
			widest, more := readAll(t, s, backlog.Query{Limit: size, Widest: true})
			wantKeys(t, what+", the widest pass", widest, x.widest)
			if len(unreadable)+len(more) > 0 {
				t.Errorf("%s: unreadable: %v %v", what, unreadable, more)
			}
			for _, r := range widest {
				if dated := r.Key.Part(0).(int64) > 7; r.Inserted.IsZero() == dated {
					t.Errorf("%s: row %v was inserted at %v", what, r.Key, r.Inserted)
				}
			}
		}
		c, err := s.Count(context.Background(), noon, []time.Duration{day, 30 * day})
		if missing := 9 - len(strings.Fields(x.widest)); err != nil || c.Unreadable != missing || c.Pending() != 9 {
			t.Errorf("NULL %q, zero dates %q: Count: got %+v, %v, want %d in no band", x.null, x.zero, c, err, missing)
		}
		if n, err := expire(context.Background(), s, noon, noon); n != 2 || err != nil {
			t.Errorf("NULL %q, zero dates %q: Expire: got %d, %v; nobody dies of a missing date", x.null, x.zero, n, err)
		}
	}
}

// TestTimesOfEligibilityAndExpiryThatAreMissing: such a row is eligible at
// once and never expires, unless the mapping says to skip it.
func TestTimesOfEligibilityAndExpiryThatAreMissing(t *testing.T) {
	for _, column := range []string{"eligible", "expires"} {
		for _, x := range []struct{ null, zero, want string }{
			{"", "", "4 3 2 1"},
			{"oldest", "newest", "4 3 2 1"},
			{"skip", "", "4 3 2"},
			{"", "skip", "4 1"},
			{"skip", "skip", "4"},
		} {
			for _, known := range []bool{true, false} {
				f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', date_inserted TEXT DEFAULT '2026-02-10 01:00:00', at DATETIME);
					INSERT INTO BACKLOG (id, at) VALUES (1, NULL), (2, '0000-00-00 00:00:00'), (3, '0001-01-01 00:00:00+00:00'), (4, '2026-02-10 12:00:00')`)
				spec := mapping.Time{Column: "at", Null: x.null, Zero: x.zero}
				m := plainMapping()
				late := "2026-02-10 12:00:01"
				if column == "eligible" {
					m.Eligible = &spec
				} else {
					m.Expires, late = &spec, "2026-02-10 11:59:59"
				}
				if known {
					f.exec("INSERT INTO BACKLOG (id, at) VALUES (5, ?)", late)
				} else {
					f.exec("DELETE FROM BACKLOG WHERE id = 4")
				}
				s := f.store(m)
				if !known { // a page that shows the first such time is judged by it
					f.exec("INSERT INTO BACKLOG (id, at) VALUES (4, '2026-02-10 12:00:00'), (5, ?)", late)
				}
				wantKeys(t, fmt.Sprintf("%s, NULL %q, zero dates %q, form known at first: %v", column, x.null, x.zero, known), lane(t, s, backlog.Fresh), x.want)
			}
		}
	}
}

// TestTimeOfEligibilityAsInsertion: a table without a time of insertion has
// that of eligibility, which may well be in the future.
func TestTimeOfEligibilityAsInsertion(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', at DATETIME);
		INSERT INTO BACKLOG (id, at) VALUES (1, '2026-02-10 11:00:00'), (2, '2026-02-10 12:00:00'), (3, '2026-02-10 12:00:01'), (4, '2027-01-01 00:00:00'), (5, '2028-01-01 00:00:00'), (6, '0000-00-00 00:00:00')`)
	m := plainMapping()
	m.Inserted, m.Eligible = mapping.Time{Column: "at", Zero: "newest"}, &mapping.Time{Column: "at"}
	s := f.store(m)
	wantKeys(t, "fresh lane", lane(t, s, backlog.Fresh), "6 2 1")
	c, err := s.Count(context.Background(), noon, []time.Duration{day})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "counted as young", c.Bands[0].Fresh, 3)
	testkit.Equal(t, "counted as waiting", c.Waiting, 3)
	testkit.Equal(t, "counted as unreadable", c.Unreadable, 0)
}
