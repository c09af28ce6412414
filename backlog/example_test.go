package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/tiers"
)

// letters returns a table with a new record for each of the names, the last of
// which came last, an hour ago.
func letters(o memory.Options, names ...string) *memory.Store {
	table := memory.New(o)
	for i, name := range names {
		inserted := time.Now().Add(time.Duration(i-len(names)) * time.Hour)
		if err := table.Insert(memory.Row{Key: backlog.NewKey(name), Status: "NEW", Inserted: inserted}); err != nil {
			log.Fatal(err)
		}
	}
	return table
}

// A pass hands each pending record to the handler, newest first, and writes
// back what became of it.
func ExampleEngine_Pass() {
	table := letters(memory.Options{}, "Delft", "Ghent", "Atlantis")
	ship := func(_ context.Context, r *backlog.Record) error {
		fmt.Println("ship to", r.Key)
		if r.Key.String() == "Atlantis" {
			return errors.New("no such port")
		}
		return nil
	}
	engine := &backlog.Engine{Store: table, Handler: backlog.HandlerFunc(ship)}
	report, err := engine.Pass(context.Background(), backlog.Pass{MaxAge: 24 * time.Hour})
	fmt.Println(report.Succeeded, "succeeded,", report.Failed, "failed,", err)
	for _, row := range table.Rows() {
		fmt.Println(row.Key, row.Status)
	}
	// Output:
	// ship to Atlantis
	// ship to Ghent
	// ship to Delft
	// 2 succeeded, 1 failed, <nil>
	// Atlantis ERROR
	// Delft SUCCESS
	// Ghent SUCCESS
}

// What a handler returns says what becomes of the record.
func ExampleHandlerFunc() {
	send := func(_ context.Context, r *backlog.Record) error {
		switch r.Key.String() {
		case "Delft": // will be there again
			return fmt.Errorf("%v: no answer", r.Key)
		case "Atlantis": // will never be
			return backlog.Reject(errors.New("sunk"))
		case "Ghent": // not today: no attempt
			return backlog.Skip
		case "Ostend": // not before three hours from now: no attempt
			return backlog.Snooze(3*time.Hour, errors.New("low tide"))
		case "Bruges": // no call for a while
			return backlog.RetryAfter(time.Minute, errors.New("too many letters"))
		}
		return nil
	}
	table := letters(memory.Options{Dead: "DEAD"}, "Bruges", "Ostend", "Delft", "Atlantis", "Ghent", "Utrecht")
	engine := &backlog.Engine{
		Store: table, Handler: backlog.HandlerFunc(send),
		Observe: func(ev backlog.Event) {
			switch ev.Kind {
			case backlog.AttemptEnded:
				fmt.Printf("%v: %v\n", ev.Record.Key, ev.Outcome)
			case backlog.Paused:
				fmt.Println("a pause:", ev.Err)
			}
		},
	}
	if _, err := engine.Pass(context.Background(), backlog.Pass{MaxAge: 24 * time.Hour}); err != nil {
		log.Fatal(err)
	}
	for _, row := range table.Rows() {
		fmt.Println(row.Key, row.Status)
	}
	// Output:
	// Utrecht: success
	// Ghent: skip
	// Atlantis: reject
	// Delft: error
	// Ostend: snooze
	// a pause: too many letters
	// Bruges: error
	// Atlantis DEAD
	// Bruges ERROR
	// Delft ERROR
	// Ghent NEW
	// Ostend NEW
	// Utrecht SUCCESS
}

// A loop runs a pass at each tick of its schedule, until its context is done.
// This one has missed the ticks of two hours, which one pass makes up for.
func ExampleLoop() {
	schedule, err := tiers.New(
		tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour},
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // such as signal.NotifyContext
	defer stop()
	orders := letters(memory.Options{}, "Delft", "Ghent")
	loop := &backlog.Loop{
		Schedule: schedule,
		Locker:   orders, // no other process works on the table during a pass
		Since:    time.Now().Add(-2 * time.Hour),
		Engine: &backlog.Engine{
			Store: orders,
			Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
				fmt.Println("ship to", r.Key)
				return nil
			}),
			Observe: func(ev backlog.Event) {
				if ev.Kind == backlog.PassEnded {
					fmt.Println("a pass of", ev.Tier, "ended:", ev.Report.Succeeded, "succeeded")
					stop()
				}
			},
		},
	}
	err = loop.Run(ctx) // returns when all passes have ended
	fmt.Println("stopped:", err)
	// Output:
	// ship to Ghent
	// ship to Delft
	// a pass of 7d ended: 2 succeeded
	// stopped: <nil>
}

// A policy of one's own is a function from the number of failures to a wait.
// The store keeps what it needs: here a minute more each time, and then no more.
func ExamplePolicy() {
	policy := &backlog.Policy{
		Name:    "a minute more each time",
		Retries: 3,
		Wait: func(n int) (least, most time.Duration) {
			d := min(time.Duration(n)*time.Minute, time.Hour)
			return d, d
		},
	}
	now := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	table := memory.New(memory.Options{Policy: policy, Dead: "DEAD"})
	if err := table.Insert(memory.Row{Key: backlog.NewKey("Atlantis"), Status: "NEW", Inserted: now}); err != nil {
		log.Fatal(err)
	}
	engine := &backlog.Engine{
		Store:  table,
		Policy: policy, // the same as the store's
		Now:    func() time.Time { return now },
		Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error {
			fmt.Println("tried at", now.Format(time.TimeOnly))
			return errors.New("no such port")
		}),
	}
	for range 10 { // ten ticks, a minute apart
		if _, err := engine.Pass(context.Background(), backlog.Pass{MaxAge: 24 * time.Hour}); err != nil {
			log.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	for _, row := range table.Rows() {
		fmt.Println(row.Status, "after", row.Memory.Failures, "failures")
	}
	// Output:
	// tried at 08:00:00
	// tried at 08:01:00
	// tried at 08:03:00
	// tried at 08:06:00
	// DEAD after 4 failures
}

// Who calls Pass himself, rather than a Loop, takes the lock that keeps other
// processes away.
func ExampleWaitLock() {
	orders := letters(memory.Options{}, "Delft")
	engine := &backlog.Engine{
		Store:   orders,
		Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil }),
	}
	ctx := context.Background()

	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	claim := &backlog.Claim{Locker: orders}
	lock, err := backlog.WaitLock(wait, claim, backlog.RunLock, nil)
	if err != nil {
		log.Fatal(err) // another process had it all the time
	}
	if err := claim.AwaitSafe(ctx, lock); err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()
	held := backlog.WhileHeld(ctx, lock, time.Now, func(err error) { log.Print("the lock is lost: ", err) })
	defer held.Release()
	report, err := engine.Pass(held.Context(), backlog.Pass{Lock: held, MaxAge: 24 * time.Hour})
	engine.Flush(ctx) // what the pass could not write
	if err != nil {
		log.Print(err)
	}
	fmt.Println(report.Succeeded, "succeeded")
	_, err = orders.TryLock(ctx, backlog.RunLock)
	fmt.Println("for somebody else:", err)
	// Output:
	// 1 succeeded
	// for somebody else: another process is working on this table
}
