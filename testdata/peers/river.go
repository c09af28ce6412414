package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// These are the settings of River's own command `river bench`. From 500 to 5,000 workers, a cooldown of
// 1 to 10 ms and more connections make no difference on two processors; 100 workers drain half as much
// per second, and 100 workers with the default cooldown of 100 ms drain 1,000 jobs.
const (
	riverWorkers  = 2000
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverBatch    = 5000 // jobs that are inserted together
)

type riverArgs struct {
	Number int `json:"number"`
}

func (riverArgs) Kind() string { return "peers" }

func drainRiver(ctx context.Context, n int) (run, error) {
	drop, err := createSchema(ctx)
	if err != nil {
		return run{}, err
	}
	defer drop()
	url, err := inSchema()
	if err != nil {
		return run{}, err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return run{}, err
	}
	defer pool.Close()
	var r run
	if err := r.readPostgres(pool.QueryRow(ctx, postgresSettings)); err != nil {
		return run{}, err
	}
	handled := newTally(n)
	client, err := newRiver(ctx, pool, handled)
	if err != nil {
		return run{}, err
	}
	if err := fillRiver(ctx, client, n); err != nil {
		return run{}, err
	}
	if err := settlePostgres(ctx, "river_job"); err != nil {
		return run{}, err
	}
	// An event says that the outcome is written, which the worker does not know.
	completed, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: n,
		Kinds:    []river.EventKind{river.EventKindJobCompleted},
	})
	defer unsubscribe()
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return run{}, err
	}
	for i := range n {
		select {
		case <-completed:
		case <-ctx.Done():
			return run{}, fmt.Errorf("%d of %d jobs are completed: %w", i, n, ctx.Err())
		}
	}
	r.took = time.Since(start)
	if err := client.Stop(ctx); err != nil {
		return run{}, err
	}
	var done int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&done); err != nil {
		return run{}, err
	}
	return r, handled.check(done)
}

// newRiver creates River's tables and returns a client that is not started.
func newRiver(ctx context.Context, pool *pgxpool.Pool, handled *tally) (*river.Client[pgx.Tx], error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema, Logger: logger})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[riverArgs]) error {
		handled.handle(job.Args.Number)
		return nil
	}))
	return river.NewClient(driver, &river.Config{
		Schema:            schema,
		Workers:           workers,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		FetchCooldown:     riverCooldown,
		FetchPollInterval: riverPoll,
		JobTimeout:        -1, // no timer for each job
		Logger:            logger,
	})
}

func fillRiver(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	for from := 1; from <= n; from += riverBatch {
		var jobs []river.InsertManyParams
		for i := from; i < from+riverBatch && i <= n; i++ {
			jobs = append(jobs, river.InsertManyParams{Args: riverArgs{Number: i}})
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}
