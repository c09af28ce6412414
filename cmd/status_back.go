package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
)

// lookBack reads the state folder, which may tell nothing, and asks who leads.
func (a *app) lookBack(ctx context.Context, now time.Time) checkpoint.LookBack {
	state := stateOf(a.cfg, a.log)
	return state.LookBack(now, a.log, func(kept checkpoint.State) (string, error) { return a.leader(ctx, state, kept) })
}

// fail returns the error that the fail-if flags ask for.
func (o *StatusOptions) fail(s statusJSON, now time.Time) error {
	var why []string
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	var last, oldest time.Time
	failed := s.Beyond.Failed + s.Counts["disabled"] // the latter under the policy refresh
	for i := range s.Last {
		if t := s.Last[i].Ended(); t.After(last) {
			last = t
		}
	}
	for _, b := range s.Bands {
		failed += b.Failed
		if t := time.Time(b.OldestFresh); !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	switch {
	case o.Idle > 0 && last.IsZero():
		add("no pass is known to have ended")
	case o.Idle > 0 && now.Sub(last) > o.Idle:
		add("no pass has ended since %s, %s", when(last), inspect.FromNow(last, now))
	}
	if o.Oldest > 0 && !oldest.IsZero() && now.Sub(oldest) > o.Oldest {
		add("the oldest record that was never tried is %s old", inspect.Shortly(now.Sub(oldest)))
	}
	if o.Pending > 0 && s.Pending >= o.Pending {
		add("%s pending", plural(s.Pending, "record"))
	}
	if o.Failed > 0 && failed >= o.Failed {
		add("%s failed", plural(failed, "record"))
	}
	if len(why) == 0 {
		return nil
	}
	return failedError(strings.Join(why, "; "))
}
