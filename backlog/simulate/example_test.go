package simulate_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"backlog/backlog/simulate"
	"backlog/tiers"
)

// Two hours without the service, seen before they come: how often is it called,
// and how long after its return is all done?
func ExampleRun() {
	schedule, err := tiers.New(
		tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour},
	)
	if err != nil {
		log.Fatal(err)
	}
	from := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	outage := simulate.Outage{From: from.Add(6*time.Hour + 2*time.Minute), To: from.Add(8*time.Hour + 2*time.Minute)}
	w := &simulate.Workload{
		From: from, To: from.Add(24 * time.Hour),
		PerHour: 60, Regular: true, Success: 1,
		Outages: []simulate.Outage{outage},
	}
	r, err := simulate.Run(context.Background(), w, simulate.Options{Schedule: schedule, Bucket: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Records, "records,", r.Attempts, "calls,", r.Failed, "in vain")
	fmt.Println(r.Succeeded, "succeeded,", r.Pending, "pending")
	fmt.Println("at most", r.PeakPerMinute, "calls in a minute")
	fmt.Println("the last of the outage done", r.Recovery.Quantile(1), "after its end")
	// Output:
	// 1440 records, 2939 calls, 1500 in vain
	// 1439 succeeded, 1 pending
	// at most 125 calls in a minute
	// the last of the outage done 3m0s after its end
}

// A record that never succeeds, under a schedule of two tiers.
func ExampleLifeOf() {
	schedule, err := tiers.New(
		tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour},
	)
	if err != nil {
		log.Fatal(err)
	}
	inserted := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	life := simulate.LifeOf(context.Background(), schedule, nil, inserted, rand.Float64)
	for _, t := range life.ByTier {
		fmt.Println(t.Tier.Name, t.Attempts)
	}
	fmt.Println("in all", life.Total, "until", life.Expires.Format(time.DateOnly))
	// Output:
	// 1d 288
	// 7d 144
	// in all 432 until 2026-01-12
}
