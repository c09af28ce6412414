package doctor

import (
	"context"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/timeform"
)

// Samples says how up to three pending rows are understood. It looks at some more
// of each lane: rows that cannot be read may come first.
func Samples(ctx context.Context, t *table.Table, now time.Time) ([]string, error) {
	const most = 3
	var list []string
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		p, err := t.Pending(ctx, backlog.Query{Lane: lane, Now: now, Since: timeform.First, Limit: 50})
		if err != nil {
			return nil, err
		}
		for _, r := range p.Records {
			if len(list) < most && !r.Inserted.IsZero() {
				age, side := now.Sub(r.Inserted), "old"
				if age < 0 {
					age, side = -age, "ahead of the clock"
				}
				list = append(list, fmt.Sprintf("row %v: %s, %s %s", r.Key, r.Inserted.UTC().Format("2006-01-02 15:04:05 MST"), timeform.Roughly(age), side))
			}
		}
	}
	return list, nil
}
