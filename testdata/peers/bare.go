package main

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// barePage is how many records a bare loop reads, handles and writes together: as many as backlog writes
// in a group.
const barePage = 500

// The loops write only to records that are still new. IS TRUE keeps the databases from looking for them by
// the index on new records.

// A bareLoop is what somebody would write by hand for one table: a page of keys is read on one connection
// while the page before it is handled and written on another.
type bareLoop struct {
	page       string
	update     string
	parameters func(ids []int64) []any // of the update
}

func drainBarePostgres(ctx context.Context, n int) (run, error) {
	t, err := newPostgresTable(ctx, n)
	if err != nil {
		return run{}, err
	}
	defer t.drop()
	var r run
	if err := r.readPostgres(t.pool.QueryRowContext(ctx, postgresSettings)); err != nil {
		return run{}, err
	}
	loop := bareLoop{
		// Without the name the rows would be sorted by the text, and no index would do.
		page: `SELECT id, date_inserted::text AS at FROM records WHERE status = 'NEW' AND (date_inserted, id) < ($1, $2)
			ORDER BY date_inserted DESC, id DESC LIMIT ` + strconv.Itoa(barePage),
		update: "UPDATE records SET status = 'SUCCESS' WHERE id = ANY ($1) AND (status = 'NEW') IS TRUE",
		parameters: func(ids []int64) []any {
			return []any{ids}
		},
	}
	r.took, err = loop.drain(ctx, t, n)
	return r, err
}

func drainBareSQLite(ctx context.Context, n int) (run, error) {
	t, err := newSQLiteTable(ctx, n)
	if err != nil {
		return run{}, err
	}
	defer t.drop()
	var r run
	if err := r.readSQLite(ctx, t.pool); err != nil {
		return run{}, err
	}
	loop := bareLoop{
		// With the plus the driver returns the text that is stored.
		page: `SELECT id, +date_inserted FROM records WHERE status = 'NEW' AND (date_inserted, id) < (?, ?)
			ORDER BY date_inserted DESC, id DESC LIMIT ` + strconv.Itoa(barePage),
		update: "UPDATE records SET status = 'SUCCESS' WHERE id IN (?" + strings.Repeat(", ?", barePage-1) + ") AND (status = 'NEW') IS TRUE",
		parameters: func(ids []int64) []any {
			list := make([]any, barePage)
			for i := range list {
				list[i] = ids[min(i, len(ids)-1)] // the last page repeats its last id
			}
			return list
		},
	}
	r.took, err = loop.drain(ctx, t, n)
	return r, err
}

func (l bareLoop) drain(ctx context.Context, t *recordTable, n int) (time.Duration, error) {
	handled := newTally(n)
	start := time.Now()
	if err := l.work(ctx, t.pool, handled); err != nil {
		return 0, err
	}
	took := time.Since(start)
	done, err := t.done(ctx)
	if err != nil {
		return 0, err
	}
	return took, handled.check(done)
}

// work handles and writes the pages that read sends.
func (l bareLoop) work(ctx context.Context, pool *sql.DB, handled *tally) error {
	update, err := pool.PrepareContext(ctx, l.update)
	if err != nil {
		return err
	}
	defer update.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends read after an error
	pages := make(chan []int64, 1)
	readError := make(chan error, 1)
	go func() {
		readError <- l.read(ctx, pool, pages)
		close(pages)
	}()
	for ids := range pages {
		for _, id := range ids {
			handled.handle(int(id))
		}
		if _, err := update.ExecContext(ctx, l.parameters(ids)...); err != nil {
			return err
		}
	}
	return <-readError
}

// read sends the ids of all pages, the newest records first.
func (l bareLoop) read(ctx context.Context, pool *sql.DB, pages chan<- []int64) error {
	page, err := pool.PrepareContext(ctx, l.page)
	if err != nil {
		return err
	}
	defer page.Close()
	at := "9999-12-31"
	id := int64(0)
	for {
		rows, err := page.QueryContext(ctx, at, id)
		if err != nil {
			return err
		}
		var ids []int64
		for rows.Next() {
			if err := rows.Scan(&id, &at); err != nil {
				rows.Close()
				return err
			}
			ids = append(ids, id)
		}
		if err := rows.Close(); err != nil {
			return err
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if len(ids) == 0 {
			return nil
		}
		select {
		case pages <- ids:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The lists of the bare loop on Redis.
const (
	waitingList = "waiting"
	activeList  = "active"
)

// drainBareRedis moves each record from a list of those that wait to a list of those that are worked on,
// and removes it from there when it is done, so that a crash loses none. It sends the commands for a page
// together.
func drainBareRedis(ctx context.Context, n int) (run, error) {
	client, drop, err := openRedis(ctx)
	if err != nil {
		return run{}, err
	}
	defer drop()
	var r run
	if err := r.readRedis(ctx, client); err != nil {
		return run{}, err
	}
	for from := 1; from <= n; from += barePage {
		var numbers []any
		for i := from; i < from+barePage && i <= n; i++ {
			numbers = append(numbers, i)
		}
		if err := client.LPush(ctx, waitingList, numbers...).Err(); err != nil {
			return run{}, err
		}
	}
	handled := newTally(n)
	start := time.Now()
	for {
		taken, err := takePage(ctx, client)
		if err != nil {
			return run{}, err
		}
		if len(taken) == 0 {
			break
		}
		for _, number := range taken {
			if err := handled.handleText(number); err != nil {
				return run{}, err
			}
		}
		_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, number := range taken {
				p.LRem(ctx, activeList, -1, number)
			}
			return nil
		})
		if err != nil {
			return run{}, err
		}
	}
	r.took = time.Since(start)
	unfinished, err := client.Exists(ctx, waitingList, activeList).Result()
	if err != nil {
		return run{}, err
	}
	if unfinished > 0 {
		n = 0
	}
	return r, handled.check(n)
}

// takePage moves the records of a page, and returns none when no more wait.
func takePage(ctx context.Context, client *redis.Client) ([]string, error) {
	commands, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range barePage {
			p.LMove(ctx, waitingList, activeList, "RIGHT", "LEFT")
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return nil, err
	}
	var taken []string
	for _, c := range commands {
		number, err := c.(*redis.StringCmd).Result()
		if err == redis.Nil {
			break
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, number)
	}
	return taken, nil
}
