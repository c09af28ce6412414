package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mikestefanello/backlite"
)

// It reads all tasks that wait to find the next ones for the workers that are idle, so that it reads less
// often with many workers. With 10 workers it drains 100 tasks of 20,000 per second, with 100 2,000. Of
// 300,000 tasks it drains more per second with 2,000 workers than with 5,000 or 10,000. More connections
// make no difference.
const (
	backliteWorkers     = 2000
	backliteConnections = 1
	backliteBatch       = 5000 // tasks that are added together
)

type backliteTask struct {
	Number int
}

func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "peers", MaxAttempts: 1}
}

func drainBacklite(ctx context.Context, n int) (run, error) {
	path, drop, err := createSQLite()
	if err != nil {
		return run{}, err
	}
	defer drop()
	pool, err := openSQLite(path, backliteConnections)
	if err != nil {
		return run{}, err
	}
	defer pool.Close()
	var r run
	if err := r.readSQLite(ctx, pool); err != nil {
		return run{}, err
	}
	client, err := backlite.NewClient(backlite.ClientConfig{
		DB:           pool,
		NumWorkers:   backliteWorkers,
		ReleaseAfter: time.Hour, // no task is taken for lost
		Logger:       errorLogger{},
	})
	if err != nil {
		return run{}, err
	}
	if err := client.Install(); err != nil {
		return run{}, err
	}
	handled := newTally(n)
	client.Register(backlite.NewQueue(func(_ context.Context, task backliteTask) error {
		handled.handle(task.Number)
		return nil
	}))
	if err := fillBacklite(ctx, client, n); err != nil {
		return run{}, err
	}
	if err := settleSQLite(ctx, pool); err != nil {
		return run{}, err
	}
	start := time.Now()
	client.Start(ctx)
	if err := handled.wait(ctx); err != nil {
		return run{}, err
	}
	if !client.Stop(ctx) { // it waits until the workers have written all outcomes
		return run{}, errors.New("it does not stop")
	}
	r.took = time.Since(start)
	var remaining int
	if err := pool.QueryRowContext(ctx, "SELECT count(*) FROM backlite_tasks").Scan(&remaining); err != nil {
		return run{}, err
	}
	return r, handled.check(n - remaining)
}

func fillBacklite(ctx context.Context, client *backlite.Client, n int) error {
	for from := 1; from <= n; from += backliteBatch {
		var tasks []backlite.Task
		for i := from; i < from+backliteBatch && i <= n; i++ {
			tasks = append(tasks, backliteTask{Number: i})
		}
		if _, err := client.Add(tasks...).Ctx(ctx).Save(); err != nil {
			return err
		}
	}
	return nil
}

// An errorLogger logs errors alone.
type errorLogger struct{}

func (errorLogger) Info(string, ...any) {}

func (errorLogger) Error(message string, params ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"backlite:", message}, params...)...)
}
