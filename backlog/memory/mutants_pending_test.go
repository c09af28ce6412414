package memory_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A reader spoils the queries that reach the table or the pages that leave
// it.
type reader struct {
	*memory.Store
	query func(*backlog.Query)
	page  func(backlog.Query, *backlog.Page)
}

func (s reader) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	asked := q
	if s.query != nil {
		s.query(&q)
	}
	page, err := s.Store.Pending(ctx, q)
	if s.page != nil {
		s.page(asked, &page)
	}
	return page, err
}

func onQuery(f func(*backlog.Query)) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return reader{Store: s, query: f} }
}

func onPage(f func(backlog.Query, *backlog.Page)) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return reader{Store: s, page: f} }
}

func onRecord(f func(*backlog.Record)) func(*memory.Store) backlog.Store {
	return onPage(func(_ backlog.Query, p *backlog.Page) {
		for i := range p.Records {
			f(&p.Records[i])
		}
	})
}

// onValues changes the columns' values.
func onValues(f func(any) any) func(*memory.Store) backlog.Store {
	return onRecord(func(r *backlog.Record) {
		for i, v := range r.Values {
			r.Values[i] = f(v)
		}
	})
}

// onCursors changes the places on a page, wherever they stand.
func onCursors(f func(*backlog.Cursor)) func(*memory.Store) backlog.Store {
	return onPage(func(_ backlog.Query, p *backlog.Page) {
		if !p.Next.IsZero() {
			f(&p.Next)
		}
		for i := range p.Records {
			f(&p.Records[i].Cursor)
		}
	})
}

var pendingMutants = []mutant{
	{"cutoff-exclusive", "Walkskip", onQuery(func(q *backlog.Query) { q.Since = q.Since.Add(1) })},
	{"cutoff-a-step-too-old", "Walkskip", onQuery(func(q *backlog.Query) { q.Since = q.Since.Add(-time.Microsecond) })},
	{"cutoff-rounded-down", "Walkskip", onQuery(func(q *backlog.Query) { q.Since = q.Since.Truncate(time.Microsecond) })},
	{"cutoff-on-the-wall", "Walkskip", onQuery(func(q *backlog.Query) {
		_, offset := q.Since.Zone()
		q.Since = q.Since.Add(time.Duration(offset) * time.Second)
	})},
	{"after-ignored", "Cursor", onQuery(func(q *backlog.Query) { q.After = backlog.Cursor{} })},
	{"until-ignored", "Cursor", onQuery(func(q *backlog.Query) { q.Until = backlog.Cursor{} })},
	{"until-ignored-in-walks", "Randomskip", onQuery(func(q *backlog.Query) { q.Until = backlog.Cursor{} })},
	{"until-exclusive", "Cursor", onPage(func(q backlog.Query, p *backlog.Page) {
		p.Records = slices.DeleteFunc(p.Records, func(r backlog.Record) bool {
			return !q.Until.IsZero() && r.Key.Hash() == q.Until.Key.Hash()
		})
	})},
	{"limit-ignored", "Walkskip", onQuery(func(q *backlog.Query) { q.Limit *= 2 })},
	{"more-never", "Walkskip", onPage(func(_ backlog.Query, p *backlog.Page) { p.More = false })},
	{"more-always", "Walkskip", onPage(func(_ backlog.Query, p *backlog.Page) { p.More = true })},
	{"more-without-next", "Walkskip", onPage(func(_ backlog.Query, p *backlog.Page) { p.Next = backlog.Cursor{} })},
	{"ends-at-an-empty-page", "Walkskip", onPage(func(_ backlog.Query, p *backlog.Page) { p.More = p.More && len(p.Records) > 0 })},
	{"next-stands-still", "Walkskip", onPage(func(q backlog.Query, p *backlog.Page) {
		if len(p.Records) == 0 {
			p.Next = q.After
		}
	})},
	{"oldest-first", "Walkskip", onPage(func(_ backlog.Query, p *backlog.Page) { slices.Reverse(p.Records) })},
	{"ties-by-ascending-key", "Walkskip", onPage(func(_ backlog.Query, p *backlog.Page) {
		slices.SortFunc(p.Records, func(a, b backlog.Record) int { return int(a.Key.Part(0).(int64) - b.Key.Part(0).(int64)) })
	})},
	{"statuses-not-merged", "Walkskip", onPage(func(_ backlog.Query, p *backlog.Page) {
		slices.SortStableFunc(p.Records, func(a, b backlog.Record) int { return len(a.Status) - len(b.Status) })
	})},
	{"one-lane", "Walkskip", onQuery(func(q *backlog.Query) { q.Lane = backlog.Fresh })},
	{"cursor-without-fraction", "Cursor", onCursors(func(c *backlog.Cursor) {
		at := c.Order.(int64)
		c.Order = at - at%int64(time.Second)
	})},
	{"cursor-without-key", "Walkskip", onCursors(func(c *backlog.Cursor) { c.Key = key(0) })},
	{"cursor-of-a-row-number", "Randomskip", func(s *memory.Store) backlog.Store { return byNumber{s} }},
	{"widest-always", "Walkoldest", onQuery(func(q *backlog.Query) { q.Widest = true })},
	{"widest-never", "Walkoldest", onQuery(func(q *backlog.Query) { q.Widest = false })},
	{"widest-never-in-walks", "Randomoldest", onQuery(func(q *backlog.Query) { q.Widest = false })},
	{"no-date-is-a-date", "Walknewest", onRecord(func(r *backlog.Record) {
		if r.Inserted.IsZero() {
			r.Inserted = time.Unix(0, 0)
		}
	})},
	{"early", "Walkskip", onQuery(func(q *backlog.Query) { q.Now = q.Now.Add(time.Hour) })},
	{"a-step-late", "Walkskip", onQuery(func(q *backlog.Query) { q.Now = q.Now.Add(-1) })},
	{"after-expiry", "Walkskip", onQuery(func(q *backlog.Query) { q.Now = q.Now.Add(-time.Hour) })},
	{"dead-at-expiry", "Walkskip", onQuery(func(q *backlog.Query) { q.Now = q.Now.Add(1) })},
	{"key-as-text", "Walkskip", onRecord(func(r *backlog.Record) { r.Key = backlog.NewKey(r.Key.String()) })},
	{"status-of-a-kind", "Walkskip", onRecord(func(r *backlog.Record) { r.Status = r.Lane.String() })},
	{"lane-missing", "Walkskip", onRecord(func(r *backlog.Record) { r.Lane = backlog.Fresh })},
	{"inserted-shifted", "Walkskip", onRecord(func(r *backlog.Record) { r.Inserted = r.Inserted.Add(time.Hour) })},
	{"inserted-in-seconds", "Walkskip", onRecord(func(r *backlog.Record) { r.Inserted = r.Inserted.Truncate(time.Second) })},
	{"integers-as-floats", "Walkskip", onValues(func(v any) any {
		if n, ok := v.(int64); ok {
			return float64(n)
		}
		return v
	})},
	{"bytes-as-text", "Walkskip", onValues(func(v any) any {
		if b, ok := v.([]byte); ok {
			return string(b)
		}
		return v
	})},
	{"empty-as-null", "Walkskip", onValues(func(v any) any {
		if v == "" {
			return nil
		}
		return v
	})},
	{"claims-by-reading", "Walkskip", func(s *memory.Store) backlog.Store {
		return reader{Store: s, page: func(_ backlog.Query, p *backlog.Page) {
			for _, r := range p.Records {
				s.Update(r.Key, func(row *memory.Row) { row.Status = "CLAIMED" })
			}
		}}
	}},
	{"reads-when-cancelled", "Cancelled", func(s *memory.Store) backlog.Store { return deaf{s} }},
	{"cancelled-is-away", "Cancelled", func(s *memory.Store) backlog.Store { return away{s} }},
}

// byNumber numbers the rows of a lane anew for every page, as OFFSET does.
type byNumber struct{ *memory.Store }

func (s byNumber) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	whole := q
	whole.After, whole.Until, whole.Limit = backlog.Cursor{}, backlog.Cursor{}, 1000
	page, err := s.Store.Pending(ctx, whole)
	for i := range page.Records {
		page.Records[i].Cursor.Segment = i + 1
	}
	if !q.Until.IsZero() {
		page.Records = page.Records[:min(q.Until.Segment, len(page.Records))]
	}
	page.Records = page.Records[min(q.After.Segment, len(page.Records)):]
	if page.More = len(page.Records) > q.Limit; page.More {
		page.Records = page.Records[:q.Limit]
		page.Next = page.Records[q.Limit-1].Cursor
	}
	return page, err
}

// deaf does not hear that it is to stop.
type deaf struct{ *memory.Store }

func (s deaf) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	return s.Store.Pending(context.WithoutCancel(ctx), q)
}

func (s deaf) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	unsettled, err := s.Store.Settle(context.WithoutCancel(ctx), group)
	return unsettled, errors.Join(err, ctx.Err())
}

func (s deaf) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	n, err := s.Store.Expire(context.WithoutCancel(ctx), x)
	return n, errors.Join(err, ctx.Err())
}

// away mistakes a cancelled context for a database that is away.
type away struct{ *memory.Store }

func (s away) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	page, err := s.Store.Pending(ctx, q)
	if err != nil {
		err = errors.Join(backlog.ErrUnavailable, err)
	}
	return page, err
}
