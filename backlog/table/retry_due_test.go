package table_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
)

// waiting returns a policy with these waits, the last of which is that of more
// failures.
func waiting(retries int, waits ...time.Duration) *backlog.Policy {
	return &backlog.Policy{Name: "waiting", Retries: retries, Wait: func(n int) (least, most time.Duration) {
		w := waits[min(n, len(waits))-1]
		return w, w
	}}
}

func planning(retries int, waits ...time.Duration) *backlog.Policy {
	p := waiting(retries, waits...)
	p.Planned = true
	return p
}

// fibonacci is one whose waits are told apart by 25 numbers of failures.
func fibonacci() *backlog.Policy {
	waits := []time.Duration{time.Minute, time.Minute}
	for len(waits) < 25 {
		waits = append(waits, waits[len(waits)-1]+waits[len(waits)-2])
	}
	return waiting(-1, waits...)
}

// retryColumns is the mapping of a policy to columns of these names: of the
// count, of the last failure and, if it is planned, of the next attempt and the
// flag.
func retryColumns(p *backlog.Policy, names ...string) *mapping.PolicyColumns {
	r := &mapping.PolicyColumns{Count: names[0], Last: names[1], Waits: p.Waits(), Retries: p.Retries}
	if p.Planned {
		r.Next, r.InRetry = names[2], names[3]
	}
	return r
}

var usualColumns = []string{"failures", "last_failure", "next_try", "in_retry"}

const usualTable = "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted %[1]s, failures INTEGER, last_failure %[1]s, next_try %[1]s, in_retry BOOLEAN)"

func retryMapping(p *backlog.Policy) mapping.Mapping {
	m := plainMapping()
	m.Policy = retryColumns(p, usualColumns...)
	return m
}

// A remembered is a failed row and what it holds.
type remembered struct {
	id int
	backlog.Memory
}

// TestDueAgreesWithThePolicy: what the database selects of 10,000 rows at
// random, many at the very edge, is what the policy says of each, in order.
func TestDueAgreesWithThePolicy(t *testing.T) {
	forms := []timeForm{timeForms[0], layout("milliseconds", "2006-01-02 15:04:05.000", time.Millisecond, time.UTC), timeForms[4]}
	for _, x := range []struct {
		name string
		p    *backlog.Policy
		keep bool
	}{
		{"fibonacci", fibonacci(), false},
		{"list", waiting(6, 0, time.Minute, 5*time.Minute, 15*time.Minute, 30*time.Minute, time.Hour), false},
		{"list of failed ones told by the count", waiting(3, time.Hour, 0, 48*time.Hour), true},
		{"constant", waiting(-1, 35*time.Second), true},
		{"no retries", waiting(0, time.Minute), false},
		{"planned", planning(3, time.Minute), false},
	} {
		for i, form := range forms {
			t.Run(x.name+", "+form.name, func(t *testing.T) {
				testAgreement(t, rand.New(rand.NewPCG(1, uint64(i))), x.p, form, x.keep)
			})
		}
	}
}

func testAgreement(t *testing.T, random *rand.Rand, p *backlog.Policy, form timeForm, keep bool) {
	f := newFile(t, fmt.Sprintf(usualTable, form.decl))
	m := retryMapping(p)
	status := "ERROR"
	if keep {
		m.Error, status = mapping.State{Keep: true}, "NEW"
	}
	rows := make([]remembered, 10_000)
	for i := range rows {
		rows[i] = remembered{i + 1, draw(random, p, form.precision)}
	}
	f.fill(status, form, rows)
	createIndexes(f, m)
	s := f.store(m)
	rule := p.Rule()
	for _, now := range []time.Time{noon.Add(-form.precision), noon, noon.Add(form.precision), noon.Add(form.precision / 3)} {
		var want []remembered
		for _, r := range rows {
			at, ok := rule.At(backlog.Failed, &r.Memory)
			if ok && !at.After(now) && !(keep && r.Failures <= 0) {
				want = append(want, r)
			}
		}
		slices.SortFunc(want, func(a, b remembered) int {
			if p.Planned {
				return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.id, b.id))
			}
			return cmp.Or(a.LastFailure.Compare(b.LastFailure), cmp.Compare(a.id, b.id))
		})
		got, unreadable := readAll(t, s, backlog.Query{Lane: backlog.Failed, Limit: 700, Now: now})
		if len(unreadable) > 0 {
			t.Fatalf("%d rows cannot be read: %v", len(unreadable), unreadable[0])
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i].Key.Part(0) != int64(want[i].id) {
				t.Fatalf("at %v: %d records, want %d; they differ from record %d on: got %v\nwant %+v",
					now, len(got), len(want), i, got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
			}
		}
	}
}

// TestDueAgreesWithTheRuleOfRefresh is the same for a policy that starts attempts: of fresh
// records, too.
func TestDueAgreesWithTheRuleOfRefresh(t *testing.T) {
	f := newFile(t, "")
	m := refreshMapping()
	createIndexes(f, m)
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...any) any { return list[random.IntN(len(list))] }
	rows := make([]remembered, 5_000)
	for i := range rows {
		r := remembered{id: i + 1}
		r.AttemptNo = random.IntN(4)
		r.Disabled = random.IntN(5) == 0
		if random.IntN(6) > 0 {
			r.Next = noon.Add(time.Duration(random.IntN(7)-3) * time.Second)
		}
		uid := pick(nil, "an attempt")
		deadline := pick(nil, nil, noon.Add(time.Hour))
		if at, ok := deadline.(time.Time); ok && uid != nil {
			r.Deadline = at // without one of the two no attempt runs
		}
		text := func(t any) any {
			if at, ok := t.(time.Time); ok && !at.IsZero() {
				return at.Format(time.DateTime)
			}
			return nil
		}
		f.exec("INSERT INTO banner (id, refresh_at, attempt_no, deadline_at, attempt_uid, disabled) VALUES (?, ?, ?, ?, ?, ?)",
			r.id, text(r.Next), r.AttemptNo, text(deadline), uid, r.Disabled)
		rows[i] = r
	}
	s := f.store(m)
	rule := &backlog.Rule{Retries: -1, Starts: true}
	for _, now := range []time.Time{noon.Add(-time.Second), noon, noon.Add(300 * time.Millisecond)} {
		for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
			var want []remembered
			for _, r := range rows {
				at, ok := rule.At(lane, &r.Memory)
				if ok && !at.After(now) && (r.AttemptNo > 0) == (lane == backlog.Failed) {
					want = append(want, r)
				}
			}
			slices.SortFunc(want, func(a, b remembered) int { return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.id, b.id)) })
			got, unreadable := readAll(t, s, backlog.Query{Lane: lane, Limit: 70, Now: now})
			if len(unreadable) > 0 || len(got) != len(want) || len(want) == 0 {
				t.Fatalf("%v lane at %v: %d records, %d unreadable, want %d", lane, now, len(got), len(unreadable), len(want))
			}
			for i := range want {
				if got[i].Key.Part(0) != int64(want[i].id) {
					t.Fatalf("%v lane at %v: record %d is %v, want %+v", lane, now, i, got[i].Key, want[i])
				}
			}
		}
	}
}

// draw returns what a row remembers: nothing, something, or what is due within
// two steps of noon.
func draw(random *rand.Rand, p *backlog.Policy, step time.Duration) (r backlog.Memory) {
	r.Failures = random.IntN(30) - 2
	if random.IntN(2) == 0 {
		r.Failures = random.IntN(5)
	}
	edge := func(wait time.Duration) time.Time {
		switch random.IntN(8) {
		case 0:
			return time.Time{}
		case 1:
			return noon.Add(-time.Duration(random.Int64N(int64(300 * time.Hour)))).Truncate(step)
		}
		return noon.Add(-wait + time.Duration(random.IntN(5)-2)*step)
	}
	r.LastFailure = edge(p.Draw(r.Failures, 0))
	if p.Planned {
		r.Next = edge(0)
	}
	return r
}

// fill inserts rows an hour old.
func (f *file) fill(status string, form timeForm, rows []remembered) {
	f.Helper()
	tx, err := f.plain.Begin()
	if err != nil {
		f.Fatal(err)
	}
	defer tx.Rollback()
	insert, err := tx.Prepare("INSERT INTO BACKLOG VALUES (?, ?, ?, ?, ?, ?, 0)")
	if err != nil {
		f.Fatal(err)
	}
	at := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return form.write(t)
	}
	for _, r := range rows {
		count := sql.NullInt64{Int64: int64(r.Failures), Valid: r.Failures != 0 || r.id%2 == 0}
		if _, err := insert.Exec(r.id, status, form.write(noon.Add(-time.Hour)), count, at(r.LastFailure), at(r.Next)); err != nil {
			f.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		f.Fatal(err)
	}
}

// TestPlansOfRetries: with the indexes of init, what is due is found without a
// scan and without a sort, whatever the planner knows.
func TestPlansOfRetries(t *testing.T) {
	for _, x := range []struct {
		name string
		p    *backlog.Policy
		keep bool
	}{
		{"fibonacci", fibonacci(), false},
		{"list", waiting(3, 0, time.Minute, time.Hour), false},
		{"fibonacci, keep", fibonacci(), true},
		{"list, keep", waiting(3, 0, time.Minute, time.Hour), true},
		{"planned", planning(3, time.Minute), false},
		{"planned, keep", planning(-1, time.Minute), true},
	} {
		for _, failed := range []string{"1", "i % 500 = 0"} {
			t.Run(x.name+", failed "+failed, func(t *testing.T) {
				f := newFile(t, fmt.Sprintf(usualTable, "TEXT"))
				m := retryMapping(x.p)
				status := "CASE WHEN " + failed + " THEN 'ERROR' ELSE 'NEW' END"
				if x.keep {
					m.Error, status = mapping.State{Keep: true}, "'NEW'"
				}
				f.exec(fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2000)
					INSERT INTO BACKLOG SELECT i, %s, datetime('2026-02-09', '-' || i || ' seconds'), CASE WHEN %s THEN i %% 40 ELSE 0 END,
					datetime('2026-02-10', '-' || i || ' seconds'), datetime('2026-02-10', '-' || i || ' seconds'), 1 FROM s`, status, failed))
				createIndexes(f, m)
				for _, analyze := range []string{"", "ANALYZE"} {
					f.exec(analyze)
					s := f.store(m)
					wantGoodPlans(t, analyze, s)
					f.wantSeeks(analyze, s)
				}
				before := f.rows("SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY 1")
				createIndexes(f, m)
				f.wantRows("SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY 1", before...)
			})
		}
	}
}

// wantSeeks checks the statements of the failed lane: only negative numbers of
// failures, of which there should be none, may be sorted and be a range of
// their own.
func (f *file) wantSeeks(what string, s *table.Table) {
	f.Helper()
	db := openPlain(f, f.path) // f.plain may not have noticed the indexes
	defer db.Close()
	for _, text := range s.Statements() {
		if !strings.HasPrefix(text, "SELECT") || !strings.Contains(text, "last_failure") || !strings.Contains(text, "o0") {
			continue
		}
		odd := strings.Count(text, `"failures" < 0`)
		args := make([]any, strings.Count(text, "?"))
		for i := range args {
			args[i] = "2026-02-10 12:00:00"
		}
		args[len(args)-1] = 1000
		rows, err := db.Query("EXPLAIN QUERY PLAN "+text, args...)
		if err != nil {
			f.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				f.Fatal(err)
			}
			switch {
			case strings.Contains(step, "TEMP B-TREE"):
				odd--
			case strings.HasPrefix(step, "SCAN "), strings.Contains(step, "failures>"):
				f.Errorf("%s: %s\nof %s", what, step, text)
			}
		}
		rows.Close()
		if odd < 0 {
			f.Errorf("%s: it sorts: %s", what, text)
		}
	}
}
