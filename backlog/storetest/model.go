package storetest

import (
	"cmp"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// What a store is to do is worked out here the plain way: by a filter and a sort
// over all rows, and one row after the other.

// expected returns the rows that the query selects, in order.
func expected(table Table, rows []Row, q backlog.Query) []Row {
	var want []Row
	if table.Refresh {
		return expectedRefresh(rows, q)
	}
	place := make(map[string]time.Time) // by which a row stands in the lane
	for _, r := range rows {
		if lane, ok := table.lane(r); !ok || lane != q.Lane || !table.due(r, q) {
			continue
		}
		at := r.Inserted
		if at.IsZero() {
			switch {
			case table.NoDate == Newest:
				at = q.Now
			case table.NoDate == Oldest && q.Widest:
				at = q.Since.Add(-time.Nanosecond) // behind all others
			default:
				continue
			}
		} else if at.Before(q.Since) {
			continue
		}
		place[r.Key.String()] = at
		want = append(want, r)
	}
	slices.SortFunc(want, func(a, b Row) int {
		if table.Policy == nil || q.Lane == backlog.Fresh {
			return cmp.Or(place[b.Key.String()].Compare(place[a.Key.String()]), b.Key.Compare(a.Key))
		}
		if table.Policy.Planned {
			return cmp.Or(a.Failures.Next.Compare(b.Failures.Next), a.Key.Compare(b.Key))
		}
		return cmp.Or(a.Failures.Last.Compare(b.Failures.Last), a.Key.Compare(b.Key))
	})
	return want
}

// lane returns the lane that the row is in, and whether it is in one.
func (t Table) lane(r Row) (lane backlog.Lane, pending bool) {
	fresh := r.Status == Fresh || r.Status == AlsoFresh
	if r.Status == Failed || fresh && t.ErrorKeep && t.Policy != nil && r.Failures.Count > 0 {
		return backlog.Failed, !t.Policy.GivenUp(r.Failures.Count)
	}
	return backlog.Fresh, fresh
}

// due reports whether the row's failures and its own times let the query have
// it.
func (t Table) due(r Row, q backlog.Query) bool {
	if !r.Eligible.IsZero() && r.Eligible.After(q.Now) || !r.Expires.IsZero() && r.Expires.Before(q.Now) {
		return false
	}
	if q.Lane == backlog.Fresh {
		return true
	}
	at, ok := t.Policy.Due(r.Failures)
	return ok && !at.After(q.Now)
}

// left returns what the settlement leaves of the row.
func (t Table) left(r Row, s backlog.Settlement) Row {
	r.Attempts++
	r.InRetry = false
	if s.Target == backlog.RowSuccess {
		r.Status = Success // and the counters as they were
		return r
	}
	r.LastError = s.Error
	switch {
	case s.Target == backlog.RowDead && t.Dead:
		r.Status = Dead
	case !t.ErrorKeep:
		r.Status = Failed
	}
	if t.Policy == nil {
		return r
	}
	next := backlog.Failures{Count: max(r.Failures.Count, 0) + 1, Last: s.At}
	if t.Policy.Planned && r.Status != Dead && !t.Policy.GivenUp(next.Count) {
		next.Next, r.InRetry = s.Failures.Next, true
	}
	r.Failures = next
	return r
}

// dies reports whether the row is dead once all is that was inserted before a
// time.
func (t Table) dies(r Row, before time.Time) bool {
	lane, pending := t.lane(r)
	if !t.Dead || !pending && lane == backlog.Fresh {
		return false
	}
	aged := !r.Inserted.IsZero() && r.Inserted.Before(before)
	return aged || !pending || !r.Expires.IsZero() && r.Expires.Before(now)
}

// counts counts the rows at the suite's present, all but ByStatus.
func (t Table) counts(rows []Row, edges []time.Duration) inspect.Counts {
	c := inspect.Counts{Bands: make([]inspect.Band, len(edges))}
	for _, r := range rows {
		lane, pending := t.lane(r)
		if !pending {
			if lane == backlog.Failed {
				c.Exhausted++
			}
			continue
		}
		i := slices.IndexFunc(edges, func(e time.Duration) bool { return now.Sub(r.Inserted) <= e })
		if r.Inserted.IsZero() {
			switch t.NoDate {
			case Newest:
				i = 0
			case Oldest:
				i = len(edges) - 1
			default:
				c.Unreadable++
				continue
			}
		}
		b := &c.Beyond
		if i >= 0 {
			b = &c.Bands[i]
		}
		b.Add(lane, 1, r.Inserted)
	}
	return c
}
