package main

import (
	"context"
	"database/sql"
	_ "embed"
	"strconv"
	"sync"
	"time"

	"maragu.dev/goqite"
)

// A receiver is a goroutine with a connection of its own that receives, handles and deletes. With a
// transaction for each message, two receivers drain more per second than one or four, and no more if they
// share a connection. With groups one drains more than two. Groups of 20, 30 and 500, and a cache of 64 MiB
// make no clear difference. The runner of goqite's package jobs makes the same two transactions for each
// message, and is not measured.
const (
	goqiteReceivers      = 2
	goqiteGroupReceivers = 1
	goqiteGroup          = 100 // messages that share a transaction
)

// goqiteSchema is goqite's schema_sqlite.sql, which programs copy.
//
//go:embed goqite.sql
var goqiteSchema string

// A goqiteWorker takes messages until there are none.
type goqiteWorker func(ctx context.Context, pool *sql.DB, queue *goqite.Queue, handled *tally) error

// drainGoqite receives and deletes each message in transactions of its own, as goqite's documentation does.
func drainGoqite(ctx context.Context, n int) (run, error) {
	return drainGoqiteBy(ctx, n, goqiteReceivers, workGoqite)
}

// drainGoqiteGroups receives the messages of a group in one transaction and deletes them in another.
func drainGoqiteGroups(ctx context.Context, n int) (run, error) {
	return drainGoqiteBy(ctx, n, goqiteGroupReceivers, workGoqiteGroups)
}

func drainGoqiteBy(ctx context.Context, n, receivers int, work goqiteWorker) (run, error) {
	path, drop, err := createSQLite()
	if err != nil {
		return run{}, err
	}
	defer drop()
	pool, err := openSQLite(path, receivers)
	if err != nil {
		return run{}, err
	}
	defer pool.Close()
	if _, err := pool.ExecContext(ctx, goqiteSchema); err != nil {
		return run{}, err
	}
	queue := goqite.New(goqite.NewOpts{
		DB:      pool,
		Name:    "peers",
		Timeout: time.Minute, // a message that is handled is not received again
	})
	if err := fillGoqite(ctx, pool, queue, n); err != nil {
		return run{}, err
	}
	if err := settleSQLite(ctx, pool); err != nil {
		return run{}, err
	}
	var r run
	if err := r.readSQLite(ctx, pool); err != nil {
		return run{}, err
	}
	handled := newTally(n)
	failed := make(chan error, receivers)
	var workers sync.WaitGroup
	start := time.Now()
	for range receivers {
		workers.Go(func() {
			failed <- work(ctx, pool, queue, handled)
		})
	}
	workers.Wait()
	r.took = time.Since(start)
	close(failed)
	for err := range failed {
		if err != nil {
			return run{}, err
		}
	}
	var remaining int
	if err := pool.QueryRowContext(ctx, "SELECT count(*) FROM goqite").Scan(&remaining); err != nil {
		return run{}, err
	}
	return r, handled.check(n - remaining)
}

// fillGoqite sends all messages in one transaction.
func fillGoqite(ctx context.Context, pool *sql.DB, queue *goqite.Queue, n int) error {
	return inTransaction(ctx, pool, func(tx *sql.Tx) error {
		for i := range n {
			message := goqite.Message{Body: []byte(strconv.Itoa(i + 1))}
			if err := queue.SendTx(ctx, tx, message); err != nil {
				return err
			}
		}
		return nil
	})
}

func workGoqite(ctx context.Context, _ *sql.DB, queue *goqite.Queue, handled *tally) error {
	for {
		message, err := queue.Receive(ctx)
		if err != nil {
			return err
		}
		if message == nil {
			return nil
		}
		if err := handled.handleText(string(message.Body)); err != nil {
			return err
		}
		if err := queue.Delete(ctx, message.ID); err != nil {
			return err
		}
	}
}

func workGoqiteGroups(ctx context.Context, pool *sql.DB, queue *goqite.Queue, handled *tally) error {
	for {
		group, err := receiveGroup(ctx, pool, queue)
		if err != nil {
			return err
		}
		if len(group) == 0 {
			return nil
		}
		for _, message := range group {
			if err := handled.handleText(string(message.Body)); err != nil {
				return err
			}
		}
		err = inTransaction(ctx, pool, func(tx *sql.Tx) error {
			for _, message := range group {
				if err := queue.DeleteTx(ctx, tx, message.ID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

func receiveGroup(ctx context.Context, pool *sql.DB, queue *goqite.Queue) (group []*goqite.Message, err error) {
	err = inTransaction(ctx, pool, func(tx *sql.Tx) error {
		for len(group) < goqiteGroup {
			message, err := queue.ReceiveTx(ctx, tx)
			if err != nil {
				return err
			}
			if message == nil {
				return nil
			}
			group = append(group, message)
		}
		return nil
	})
	return group, err
}

func inTransaction(ctx context.Context, pool *sql.DB, do func(*sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // changes nothing after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
