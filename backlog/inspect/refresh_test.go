package inspect_test

import (
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/retry"
)

// FailureNow tells the failure of the running attempt or, if the row is waiting, of the next one.
func TestFailureNow(t *testing.T) {
	settings := retry.New("refresh").(*retry.Refresh)
	settings.Schedule, settings.Timeout, settings.Intervals = "none", time.Hour, []time.Duration{5 * time.Minute, time.Hour}
	policy, err := retry.Policy(settings)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		state backlog.Memory
		want  string
	}{
		{backlog.Memory{Next: now}, "refresh_at 2026-01-05 08:05:00 UTC, attempt_no 1"},
		{backlog.Memory{Next: now, AttemptNo: 1}, "refresh_at 2026-01-05 09:00:00 UTC, attempt_no 2"},
		{backlog.Memory{Next: now, AttemptNo: 2}, "disabled: Cannot refresh after 3 attempts"},
		{backlog.Memory{Next: now.Add(time.Hour), AttemptNo: 1, Deadline: now.Add(time.Hour), UID: "u"}, "refresh_at 2026-01-05 08:05:00 UTC, attempt_no 1"},
		{backlog.Memory{Next: now.Add(time.Hour), AttemptNo: 1, UID: "u"}, "refresh_at 2026-01-05 08:05:00 UTC, attempt_no 1"}, // without deadlines
	} {
		if got := inspect.FailureNow(policy.Refresher, &test.state, now, nil); got != test.want {
			t.Errorf("%+v: %s; want %s", test.state, got, test.want)
		}
	}
}
