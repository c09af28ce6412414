package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// Count counts the rows at a time, as [inspect.Counts] says. A row without a status counts under
// NULL. It looks at every row.
func (s *Store) Count(ctx context.Context, now time.Time, edges []time.Duration) (inspect.Counts, error) {
	if err := ctx.Err(); err != nil {
		return inspect.Counts{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	counts := inspect.Counts{ByStatus: make(map[string]int), Bands: make([]inspect.Band, len(edges))}
	for _, e := range s.rows {
		counts.ByStatus[cmp.Or(e.Status, "NULL")]++
		lane, pending := s.lane(e)
		if !pending {
			if lane == backlog.Failed {
				counts.Exhausted++
			}
			continue
		}
		i, _ := slices.BinarySearch(edges, now.Sub(e.Inserted))
		if e.Inserted.IsZero() {
			switch {
			case len(edges) == 0 || s.o.NullDate == "skip":
				counts.Unreadable++
				continue
			case s.o.NullDate == "newest":
				i = 0
			default:
				i = len(edges) - 1
			}
		}
		band := &counts.Beyond
		if i < len(edges) {
			band = &counts.Bands[i]
		}
		band.Add(lane, 1, e.Inserted)
	}
	return counts, nil
}
