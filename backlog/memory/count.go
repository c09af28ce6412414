package memory

import (
	"context"
	"slices"
	"time"

	"backlog/backlog"
)

// Count implements [backlog.Counter]. A row without a status counts under the
// empty one. It looks at every row.
func (s *Store) Count(ctx context.Context, now time.Time, edges []time.Duration) (backlog.Counts, error) {
	if err := ctx.Err(); err != nil {
		return backlog.Counts{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	counts := backlog.Counts{
		ByStatus: make(map[string]int),
		Bands:    make([]backlog.Band, len(edges)),
	}
	for _, e := range s.rows {
		counts.ByStatus[e.Status]++
		lane, pending := s.lane(e)
		if s.exhausted(e) {
			counts.Exhausted++
		}
		if !pending {
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
		addToBand(band, lane, e.Inserted)
	}
	return counts, nil
}

func addToBand(b *backlog.Band, lane backlog.Lane, inserted time.Time) {
	if lane == backlog.Fresh {
		b.Fresh++
	} else {
		b.Failed++
	}
	if !inserted.IsZero() && (b.Oldest.IsZero() || inserted.Before(b.Oldest)) {
		b.Oldest = inserted
	}
}
