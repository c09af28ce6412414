package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

// A server takes one task at a time from Redis, so that its concurrency matters little for handlers that
// do nothing: 10, 50, 200 and 1,000 are within 5 % of each other. Retention is off by default.
const (
	asynqConcurrency = 200
	asynqQueue       = "default"
	asynqEnqueuers   = 16 // goroutines that fill the queue
)

func drainAsynq(ctx context.Context, n int) (run, error) {
	connection, drop, err := openRedis(ctx)
	if err != nil {
		return run{}, err
	}
	defer drop()
	var r run
	if err := r.readRedis(ctx, connection); err != nil {
		return run{}, err
	}
	if err := fillAsynq(ctx, asynq.NewClientFromRedisClient(connection), n); err != nil {
		return run{}, err
	}
	handled := newTally(n)
	server := asynq.NewServerFromRedisClient(connection, asynq.Config{
		Concurrency: asynqConcurrency,
		LogLevel:    asynq.ErrorLevel,
	})
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		return handled.handleText(string(task.Payload()))
	})
	inspector := asynq.NewInspectorFromRedisClient(connection)
	start := time.Now()
	if err := server.Start(handler); err != nil {
		return run{}, err
	}
	defer server.Shutdown()
	if err := handled.wait(ctx); err != nil {
		return run{}, err
	}
	// The last outcomes are written after their handlers have returned.
	info, err := inspector.GetQueueInfo(asynqQueue)
	for err == nil && info.Size > 0 && ctx.Err() == nil {
		info, err = inspector.GetQueueInfo(asynqQueue)
	}
	if err != nil {
		return run{}, err
	}
	if info.Size > 0 {
		return run{}, fmt.Errorf("%d tasks are not done: %w", info.Size, ctx.Err())
	}
	r.took = time.Since(start)
	return r, handled.check(info.ProcessedTotal - info.FailedTotal)
}

// fillAsynq enqueues the tasks one by one, since asynq has no call for many.
func fillAsynq(ctx context.Context, client *asynq.Client, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	for first := range asynqEnqueuers {
		group.Go(func() error {
			for i := first + 1; i <= n; i += asynqEnqueuers {
				task := asynq.NewTask("peers", []byte(strconv.Itoa(i)))
				if _, err := client.EnqueueContext(ctx, task, asynq.Queue(asynqQueue)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
