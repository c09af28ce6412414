package table

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
)

// A lender makes connections of those that a pool of the program's has: one is
// borrowed for each use and given back as it was, so that between two uses, such
// as while handlers run, the program has them all.
type lender struct {
	pool *sql.DB

	// enter sets the session up. It says by the connection's leave how that is
	// undone; without one the connection is kept for as long as it is used, and
	// closed then.
	enter func(ctx context.Context, c *lentConn) error

	begin []string      // statements that begin a transaction; none if enter does
	arg   func(any) any // what is bound for an argument; nil: the argument
}

// Driver implements driver.Connector.
func (l *lender) Driver() driver.Driver { return l.pool.Driver() }

// Connect implements driver.Connector.
func (l *lender) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := l.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &lentConn{from: l, conn: conn}
	if err := l.enter(ctx, c); err != nil {
		discard(conn)
		return nil, err
	}
	return c, nil
}

// open returns the pool of what is borrowed. It has no more connections than
// the other may.
func (l *lender) open() *sql.DB {
	db := sql.OpenDB(l)
	db.SetMaxOpenConns(lentConns)
	if most := l.pool.Stats().MaxOpenConnections; most > 0 {
		db.SetMaxOpenConns(min(lentConns, most))
	}
	return db
}

// lentConns is how many connections are borrowed at a time, other than those of
// locks.
const lentConns = 4

// locksFrom are locks in a session of the pool, which is not given back.
func locksFrom(pool *sql.DB) *serverLocks {
	return &serverLocks{connector: &lender{pool: pool, enter: func(context.Context, *lentConn) error { return nil }}}
}

// roomForLocks is a *Problem where locks, which keep a connection of the pool,
// would leave none for the work.
func roomForLocks(pool *sql.DB) error {
	if pool.Stats().MaxOpenConnections == 1 {
		return problem("allow more by its SetMaxOpenConns", "the pool has 1 connection at most, but it takes 2: locks keep one as long as they are held, and the work another")
	}
	return nil
}

// discard closes the connection, which is not for others any more.
func discard(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
	conn.Close()
}

// A lentConn is a connection that is borrowed.
type lentConn struct {
	from  *lender
	conn  *sql.Conn
	leave func(ctx context.Context) error // makes the session what it was
	inTx  bool
	spent bool // nobody knows what state it is in
}

// IsValid implements driver.Validator: what has been used is given back.
func (c *lentConn) IsValid() bool { return c.leave == nil }

func (c *lentConn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	if c.inTx {
		c.end(ctx, "ROLLBACK")
	}
	if c.leave == nil || c.spent || c.leave(ctx) != nil {
		discard(c.conn)
		return nil
	}
	return c.conn.Close()
}

// end ends the transaction.
func (c *lentConn) end(ctx context.Context, how string) error {
	_, err := c.conn.ExecContext(ctx, how)
	c.inTx, c.spent = false, c.spent || err != nil
	return err
}

func (c *lentConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	for _, text := range c.from.begin {
		if _, err := c.conn.ExecContext(ctx, text); err != nil {
			c.spent = true
			return nil, err
		}
	}
	c.inTx = true
	return lentTx{c, ctx}, nil
}

// A lentTx is its transaction. Reads that came before it may belong to it.
type lentTx struct {
	c   *lentConn
	ctx context.Context
}

func (t lentTx) Commit() error { return t.c.end(t.ctx, "COMMIT") }

func (t lentTx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), lockTimeout)
	defer cancel()
	return t.c.end(ctx, "ROLLBACK")
}

// CheckNamedValue leaves it to the driver to judge arguments.
func (*lentConn) CheckNamedValue(*driver.NamedValue) error { return nil }

func (c *lentConn) args(list []driver.NamedValue) []any {
	args := make([]any, len(list))
	for i, a := range list {
		args[i] = a.Value
		if c.from.arg != nil {
			args[i] = c.from.arg(a.Value)
		}
	}
	return args
}

func (c *lentConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.conn.ExecContext(ctx, text, c.args(args)...)
	switch { // a transaction that is not ended here would be the program's
	case strings.HasPrefix(text, "START TRANSACTION"):
		c.inTx = true
	case text == "ROLLBACK" && err == nil:
		c.inTx = false
	}
	return res, err
}

func (c *lentConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.conn.QueryContext(ctx, text, c.args(args)...)
	if err != nil {
		return nil, err
	}
	r := &lentRows{rows: rows}
	if r.columns, err = rows.Columns(); err != nil {
		rows.Close()
		return nil, err
	}
	return r, nil
}

// lentRows are those of a query.
type lentRows struct {
	rows    *sql.Rows
	columns []string
	to      []any
}

func (r *lentRows) Columns() []string { return r.columns }
func (r *lentRows) Close() error      { return r.rows.Close() }

func (r *lentRows) Next(dest []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	r.to = r.to[:0]
	for i := range dest {
		dest[i] = nil
		r.to = append(r.to, (*any)(&dest[i]))
	}
	return r.rows.Scan(r.to...)
}

// PrepareContext asks whether a statement can be prepared, no more.
func (c *lentConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	stmt, err := c.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return lentStmt{stmt}, nil
}

type lentStmt struct{ stmt *sql.Stmt }

var errNotLent = errors.New("not on a connection that is borrowed")

func (s lentStmt) Close() error                               { return s.stmt.Close() }
func (s lentStmt) NumInput() int                              { return -1 }
func (s lentStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errNotLent }
func (s lentStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errNotLent }

func (c *lentConn) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

func (c *lentConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}
