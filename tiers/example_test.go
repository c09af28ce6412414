package tiers_test

import (
	"fmt"
	"log"
	"time"

	"backlog/tiers"
)

func ExampleSchedule_Due() {
	s, err := tiers.New(
		tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour},
		tiers.Tier{MaxAge: 30 * 24 * time.Hour, Cron: "30 3 * * *"},
	)
	if err != nil {
		log.Fatal(err)
	}
	lastWake := time.Date(2026, time.January, 5, 0, 58, 0, 0, time.UTC)
	now := lastWake.Add(70 * time.Minute) // after a suspend
	for _, due := range s.Due(lastWake, now) {
		fmt.Printf("%s ticked %d times, last at %s\n", due.Tier.Name, due.Ticks, due.Last.Format(time.TimeOnly))
	}
	fmt.Println("next:", s.Next(now).Format(time.TimeOnly))
	// Output:
	// 1d ticked 14 times, last at 02:05:00
	// 7d ticked 2 times, last at 02:00:00
	// next: 02:10:00
}

func ExampleCoalesce() {
	s, err := tiers.New(
		tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour},
		tiers.Tier{MaxAge: 30 * 24 * time.Hour, Every: 24 * time.Hour},
	)
	if err != nil {
		log.Fatal(err)
	}
	midnight := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	due := s.Due(midnight.Add(-time.Minute), midnight)

	stillRuns := "30d"
	pick := tiers.Coalesce(due, func(t tiers.Tier) bool { return t.Name != stillRuns })
	fmt.Println("start", pick.Start.Tier.Name)
	for _, d := range pick.Covered {
		fmt.Println("covered", d.Tier.Name)
	}
	for _, d := range pick.Skipped {
		fmt.Println("skipped", d.Tier.Name)
	}
	// Output:
	// start 7d
	// covered 1d
	// skipped 30d
}

func ExampleParseDuration() {
	for _, s := range []string{"1.5d", "2 weeks", "every 90 minutes", "daily", "1 month"} {
		d, err := tiers.ParseDuration(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(tiers.FormatDuration(d))
	}
	// Output:
	// 1d12h
	// 14d
	// 1h30m
	// 1d
	// invalid duration "1 month": a month has no fixed length, write 30d
}
