package retry_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/retry"
)

// New returns the settings with their defaults.
func ExampleNew() {
	settings := retry.New("fibonacci").(*retry.Fibonacci)
	settings.Unit, settings.MaxDelay = 5*time.Minute, time.Hour
	policy, err := retry.Policy(settings)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	rule := policy.Rule()
	row := new(backlog.Memory) // what its columns hold: a new record has nothing there
	for range 8 {
		row, _ = policy.End(row, backlog.End{Outcome: backlog.Errored, At: now})
		due, _ := rule.At(backlog.Failed, row)
		fmt.Println("failure", row.Failures, "at", now.Format("15:04"), "due", due.Format("15:04"))
		now = due
	}

	settings.Unit = -time.Minute
	_, err = retry.Policy(settings)
	fmt.Println(err)
	// Output:
	// failure 1 at 08:00 due 08:05
	// failure 2 at 08:05 due 08:10
	// failure 3 at 08:10 due 08:20
	// failure 4 at 08:20 due 08:35
	// failure 5 at 08:35 due 09:00
	// failure 6 at 09:00 due 09:40
	// failure 7 at 09:40 due 10:40
	// failure 8 at 10:40 due 11:40
	// unit: must be more than 0
}

// A program that keeps its rows itself moves them from state to state.
func ExampleRefresher_Apply() {
	settings := retry.New("refresh").(*retry.Refresh)
	settings.Every, settings.Timeout = 2*time.Hour, time.Hour
	policy, err := retry.Policy(settings)
	if err != nil {
		log.Fatal(err)
	}
	p := policy.Refresher.(*retry.Refresher)
	now := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	row := backlog.Memory{Next: now} // what its columns hold
	row, _, err = p.Apply(row, retry.Start, now)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("attempt", row.AttemptNo, "until", row.Deadline.Format("15:04"))
	row, final, err := p.Apply(row, retry.Failure, now.Add(2*time.Minute))
	fmt.Println("again at", row.Next.Format("15:04"), final, err)
	row, final, err = p.Apply(row, retry.Success, now.Add(3*time.Minute))
	fmt.Println("next at", row.Next.Format("15:04"), final, err)
	// Output:
	// attempt 1 until 09:00
	// again at 08:02 false <nil>
	// next at 10:00 false <nil>
}

// Names are those of the policies. These keep something in the row.
func ExampleNames() {
	for _, name := range retry.Names() {
		var columns []string
		for _, c := range retry.New(name).Keeps().Columns {
			columns = append(columns, c[0])
		}
		if len(columns) > 0 {
			fmt.Println(name+":", strings.Join(columns, ", "))
		}
	}
	// Output:
	// fibonacci: failures, last_failure
	// arctan: attempts, updated_at
	// list: failures, last_failure
	// sneakers: failures, last_failure
	// linear: attempt_count, last_attempt_time, next_attempt_time, in_retry
	// exponential: attempt_count, last_attempt_time, next_attempt_time, in_retry
	// refresh: refresh_at, attempt_no, deadline_at, attempt_uid, started_at, disabled, disabled_reason, failing_since
}
