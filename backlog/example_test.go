package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A pass hands each pending record to the handler, newest first, and writes
// back what became of it.
func ExampleEngine_Pass() {
	table := memory.New(memory.Options{})
	for i, city := range []string{"Delft", "Ghent", "Atlantis"} {
		inserted := time.Now().Add(time.Duration(i-3) * time.Hour)
		table.Insert(memory.Row{Key: backlog.NewKey(city), Status: "NEW", Inserted: inserted})
	}
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
