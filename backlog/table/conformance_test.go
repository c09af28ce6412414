package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/storetest"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/doctor"
)

// TestStore runs the conformance suite on files, once for each way in which
// tables hold times.
func TestStore(t *testing.T) {
	t.Parallel()
	for i, f := range timeForms {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			suite(i)(t, shared(t, func(t *testing.T, want storetest.Table) *harness { return newHarness(t, onSQLite, f, want) }))
		})
	}
}

// suite returns what runs the suite on the i-th form of times: whole on the first.
func suite(i int) func(*testing.T, func(*testing.T, storetest.Table) storetest.Harness) {
	if i == 0 {
		return storetest.Run
	}
	return storetest.RunTimes
}

// A timeForm is how the tables of a harness hold times.
type timeForm struct {
	name, decl string
	precision  time.Duration
	write      func(time.Time) any
	read       func(any) (time.Time, error)
	zone       *time.Location
}

func layout(name, layout string, precision time.Duration, zone *time.Location) timeForm {
	return timeForm{
		name: name, decl: "DATETIME", precision: precision, zone: zone,
		write: func(t time.Time) any { return t.In(zone).Format(layout) },
		read:  func(v any) (time.Time, error) { return time.ParseInLocation(layout, v.(string), zone) },
	}
}

var kolkata = func() *time.Location {
	l, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		panic(err)
	}
	return l
}()

var timeForms = []timeForm{
	layout("seconds", "2006-01-02 15:04:05", time.Second, time.UTC),
	layout("Z with milliseconds", "2006-01-02T15:04:05.000Z", time.Millisecond, time.UTC),
	layout("sparse fraction", "2006-01-02 15:04:05.999999", time.Microsecond, time.UTC),
	layout("zone of its own", "2006-01-02 15:04:05.000", time.Millisecond, kolkata),
	{
		name: "unix milliseconds", decl: "INTEGER", precision: time.Millisecond, zone: time.UTC,
		write: func(t time.Time) any { return t.UnixMilli() },
		read:  func(v any) (time.Time, error) { return time.UnixMilli(v.(int64)), nil },
	},
	{
		name: "julian days", decl: "REAL", precision: time.Second, zone: time.UTC,
		write: func(t time.Time) any { return float64(t.UnixMilli())/86_400_000 + 2440587.5 },
		read: func(v any) (time.Time, error) {
			return time.UnixMilli(int64((v.(float64)-2440587.5)*86_400_000 + 0.5)).Round(time.Millisecond), nil
		},
	},
}

// A testDatabase is a kind of database as the harness speaks to it behind the
// store's back.
type testDatabase struct {
	// open makes a database, or a schema, of the test's own: a pool that does
	// not belong to the store, and the URL that the store opens.
	open func(t *testing.T) (plain *sql.DB, url string)

	// sql translates a statement of the harness, which is written for SQLite:
	// names in double quotes, arguments as question marks, a unary plus in
	// front of a column that is to be read as it is stored.
	sql func(text string) string

	// Types of the table's columns: of text that can be a key, of a BLOB that
	// can, of other BLOBs, and of a truth.
	textKey, blobKey, blob, boolean string

	// user, if not nil, makes a user who has no rights yet. In a suite the store
	// is then opened as him, with those that Grants names.
	user func(h *harness) (name, url string)
}

var onSQLite = testDatabase{
	open: func(t *testing.T) (*sql.DB, string) {
		path := filepath.Join(t.TempDir(), "a b#c.db")
		plain := openPlain(t, strings.ReplaceAll(path, "#", "%23"))
		if _, err := plain.Exec("PRAGMA journal_mode = WAL"); err != nil {
			t.Fatal(err)
		}
		return plain, "sqlite:" + path
	},
	sql:     func(text string) string { return text },
	textKey: "TEXT", blobKey: "BLOB", blob: "BLOB", boolean: "BOOLEAN",
}

// A harness is a storetest.Harness on a table of a database.
type harness struct {
	t     *testing.T
	d     testDatabase
	form  timeForm
	want  storetest.Table
	url   string
	plain *sql.DB
	keys  []string

	// The store works on the pool of a program, if that is not nil, else on
	// db, which is opened by the URL.
	pool    *sql.DB
	connect func(t *testing.T, url string) *sql.DB // makes pool anew for each case, if not nil
	dialect db.Server
	db      *db.DB
	store   *table.Table
}

// shared returns what makes the harnesses of a suite: its cases share a table for
// each kind of key, which is emptied before each, and one that refuses rows.
func shared(t *testing.T, create func(t *testing.T, want storetest.Table) *harness) func(*testing.T, storetest.Table) storetest.Harness {
	type kind struct {
		keys                       storetest.Keys
		refuses, noUID, noDeadline bool
	}
	made := make(map[kind]*harness)
	return func(c *testing.T, want storetest.Table) storetest.Harness {
		c.Helper()
		kind := kind{want.Keys, want.Refuses, want.NoUID, want.NoDeadline}
		h := made[kind]
		if h == nil {
			h = create(t, want)
			made[kind] = h
			if h.pool == nil && h.connect == nil && h.d.user == nil {
				var err error
				if h.db, err = h.openURL(t); err != nil {
					c.Fatal(err)
				}
			}
		}
		own := *h
		own.t, own.want, own.store = c, want, nil
		own.exec(`DELETE FROM "my table"`)
		if own.d.user != nil {
			own.asUser()
		}
		if own.connect != nil {
			own.pool = own.connect(c, own.url)
		}
		return &own
	}
}

func newHarness(t *testing.T, d testDatabase, form timeForm, want storetest.Table) *harness {
	h := &harness{t: t, d: d, form: form, want: want}
	h.plain, h.url = d.open(t)
	t.Cleanup(func() { h.plain.Close() })
	key := map[storetest.Keys]string{
		storetest.IntKeys:       `"the key" INTEGER PRIMARY KEY`,
		storetest.TextKeys:      `"the key" ` + d.textKey + ` PRIMARY KEY`,
		storetest.BlobKeys:      `"the key" ` + d.blobKey + ` PRIMARY KEY`,
		storetest.CompositeKeys: `"the key" ` + d.textKey + `, part INT`,
	}[want.Keys]
	h.keys = []string{"the key"}
	end := ""
	if want.Keys == storetest.CompositeKeys {
		h.keys = append(h.keys, "part")
		end = `, PRIMARY KEY (part, "the key")`
	}
	if want.Refuses {
		end += fmt.Sprintf(", CHECK (note IS NULL OR note <> '%s' OR status NOT IN ('%s', '%s'))", storetest.Stuck, storetest.Success, storetest.Dead)
	}
	h.exec(`CREATE TABLE "my table" (` + key + `, status ` + d.textKey + `, inserted ` + form.decl + `, eligible ` + form.decl + `, expires ` + form.decl + `,
		amount INTEGER, note ` + d.textKey + `, payload ` + d.blob + `, attempts INTEGER, last_error VARCHAR(200),
		Failures INTEGER, "last failure" ` + form.decl + `, next_try ` + form.decl + `, in_retry ` + d.boolean + `,
		refresh_at ` + form.decl + `, attempt_no INTEGER, ` + h.refreshName(mapping.DeadlineAt) + ` ` + form.decl + `, ` + h.refreshName(mapping.AttemptUID) + ` VARCHAR(40),
		started_at ` + form.decl + `, disabled ` + d.boolean + `, disabled_reason VARCHAR(200), failing_since ` + form.decl + end + `)`)
	return h
}

// refreshName is the name of a column of the refresh policy: one that the store does not know
// where its table is to have none.
func (h *harness) refreshName(i int) string {
	if i == mapping.AttemptUID && h.want.NoUID || i == mapping.DeadlineAt && h.want.NoDeadline {
		return "unknown_" + mapping.RefreshColumns[i]
	}
	return mapping.RefreshColumns[i]
}

// refreshNames are those of all its columns.
func (h *harness) refreshNames() (list []string) {
	for i := range mapping.RefreshColumns {
		list = append(list, h.refreshName(i))
	}
	return list
}

// asUser makes a user who is granted what the table's passes take, as whom the
// store is opened.
func (h *harness) asUser() {
	h.t.Helper()
	ctx := context.Background()
	db, err := openDB(ctx, h.url, table.Options{ReadOnly: true})
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	s, err := table.New(ctx, db, h.mapping())
	if err != nil {
		h.t.Fatal(err)
	}
	grants := doctor.Grants(s)
	if len(grants) == 0 {
		h.t.Fatalf("%q", grants)
	}
	name, url := h.d.user(h)
	for _, text := range grants {
		text = text[:strings.LastIndex(text, " TO ")] + " TO " + name
		if _, err := h.plain.Exec(text); err != nil {
			h.t.Fatalf("%s: %v", text, err)
		}
	}
	h.url = url
}

func (h *harness) exec(text string, args ...any) {
	h.t.Helper()
	if _, err := h.plain.Exec(h.d.sql(text), args...); err != nil {
		h.t.Fatalf("%s: %v", text, err)
	}
}

func (h *harness) mapping() mapping.Mapping {
	state := func(list ...string) (s mapping.State) {
		for _, text := range list {
			s.Values = append(s.Values, mapping.Value{Text: text})
		}
		return s
	}
	m := mapping.Mapping{
		Name: "my table", ID: h.keys, Status: "status",
		Inserted: mapping.Time{Column: "inserted", Null: h.want.NoDate},
		Columns:  []string{"amount", "note", "payload"},
		New:      state(storetest.Fresh), Error: state(storetest.Failed), Success: state(storetest.Success),
		Zone: h.form.zone,
	}
	if h.want.TwoFresh {
		m.New = state(storetest.Fresh, storetest.AlsoFresh)
	}
	if h.want.Dead {
		m.Dead = state(storetest.Dead)
	}
	if h.want.ErrorKeep {
		m.Error = mapping.State{Keep: true}
	}
	if h.want.Times {
		m.Eligible, m.Expires = &mapping.Time{Column: "eligible"}, &mapping.Time{Column: "expires"}
	}
	if h.want.Notes {
		m.Attempts, m.LastError = "attempts", "last_error"
	}
	if p := h.want.Policy; p != nil {
		m.Policy = &mapping.PolicyColumns{Count: "failures", Last: "last failure", Waits: p.Waits(), Retries: p.Retries}
		if p.Planned {
			m.Policy.Next, m.Policy.InRetry = "next_try", "in_retry"
		}
	}
	if h.want.Refresh {
		m.Policy = &mapping.PolicyColumns{Refresh: make(mapping.Names, len(mapping.RefreshColumns))}
		for _, s := range m.States() {
			s.Explicit = len(s.Values) > 0
		}
	}
	return m
}

func (h *harness) Store() backlog.Store {
	if h.store == nil {
		s, err := h.open(h.db)
		if err != nil {
			h.t.Fatal(err)
		}
		h.store = s
	}
	return h.store
}

func (h *harness) Open() (backlog.Store, error) {
	s, err := h.open(nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// open opens the table on the database, nil for a new pool of connections.
func (h *harness) open(db *db.DB) (s *table.Table, err error) {
	ctx := context.Background()
	if h.pool != nil {
		return table.OpenDB(ctx, h.pool, h.dialect, h.mapping(), noon)
	}
	if db == nil {
		if db, err = h.openURL(h.t); err != nil {
			return nil, err
		}
	}
	if s, err = table.New(ctx, db, h.mapping()); err != nil {
		return nil, err
	}
	err = s.Prove(ctx, time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC))
	return s, err
}

func (h *harness) openURL(t *testing.T) (*db.DB, error) {
	db, err := openDB(context.Background(), h.url, table.Options{})
	if err == nil {
		t.Cleanup(func() { db.Close() })
	}
	return db, err
}

func (h *harness) Precision() time.Duration { return h.form.precision }

func (h *harness) Insert(rows ...storetest.Row) error {
	tx, err := h.plain.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	key := `"the key"`
	if len(h.keys) > 1 {
		key += ", part"
	}
	for batch := range slices.Chunk(rows, 100) { // few round trips
		var args []any
		for _, r := range batch {
			args = append(args, orNil(r.Status), h.time(r.Inserted), h.time(r.Eligible), h.time(r.Expires), r.Columns["amount"], r.Columns["note"], r.Columns["payload"],
				orNil(r.Attempts), orNil(r.LastError), orNil(r.Memory.Failures), h.time(r.Memory.LastFailure), h.nextTry(r.Memory), r.InRetry)
			args = append(args, h.refreshArgs(r.Memory)...)
			for i := range r.Key.Len() {
				args = append(args, r.Key.Part(i))
			}
		}
		values := strings.Repeat(", (?"+strings.Repeat(",?", len(args)/len(batch)-1)+")", len(batch))[2:]
		_, err := tx.Exec(h.d.sql(fmt.Sprintf(`INSERT INTO "my table" (status, inserted, eligible, expires, amount, note, payload, attempts, last_error, failures, "last failure", next_try, in_retry, %s, %s) VALUES %s`,
			strings.Join(h.refreshNames(), ", "), key, values)), args...)
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

// nextTry is the value of the column of a policy that plans.
func (h *harness) nextTry(m backlog.Memory) any {
	if h.want.Refresh {
		return nil
	}
	return h.time(m.Next)
}

// refreshArgs are the values of the columns of the refresh policy.
func (h *harness) refreshArgs(s backlog.Memory) []any {
	var next any
	if h.want.Refresh {
		next = h.time(s.Next)
	}
	return []any{next, orNil(s.AttemptNo), h.time(s.Deadline), orNil(s.UID), h.time(s.Started), s.Disabled, orNil(s.Reason), h.time(s.FailingSince)}
}

func (h *harness) Update(r storetest.Row) error {
	where, args := h.where(r.Key)
	set := append(h.refreshArgs(r.Memory), orNil(r.Status), r.Columns["amount"], r.Columns["note"], r.Columns["payload"], orNil(r.Memory.Failures))
	_, err := h.plain.Exec(h.d.sql(`UPDATE "my table" SET `+strings.Join(h.refreshNames(), " = ?, ")+
		` = ?, status = ?, amount = ?, note = ?, payload = ?, failures = ? WHERE `+where), append(set, args...)...)
	return err
}

// Retry implements [storetest.Operator].
func (h *harness) Retry(k backlog.Key, now time.Time) error {
	n, err := h.store.Requeue(h.t.Context(), table.Filter{Keys: []backlog.Key{k}}, now, unrefused(h.t))
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows were put back to new", n)
	}
	return err
}

// Discard implements [storetest.Operator].
func (h *harness) Discard(k backlog.Key, now time.Time) error {
	n, err := h.store.Discard(h.t.Context(), table.Filter{Keys: []backlog.Key{k}}, now, table.Discarding{Refused: unrefused(h.t)})
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows were given up", n)
	}
	return err
}

func (h *harness) time(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return h.form.write(t)
}

func orNil[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// where returns the condition for a key.
func (h *harness) where(k backlog.Key) (string, []any) {
	if k.Len() == 2 {
		return `"the key" = ? AND part = ?`, []any{k.Part(0), k.Part(1)}
	}
	return `"the key" = ?`, []any{k.Part(0)}
}

func (h *harness) Row(k backlog.Key) (storetest.Row, bool, error) {
	where, args := h.where(k)
	rows, err := h.rows(" WHERE "+where, args...)
	if err != nil || len(rows) == 0 {
		return storetest.Row{Key: k}, false, err
	}
	return rows[0], true, nil
}

func (h *harness) Rows() ([]storetest.Row, error) { return h.rows("") }

func (h *harness) rows(where string, args ...any) (list []storetest.Row, err error) {
	rows, err := h.plain.Query(h.d.sql(`SELECT +status, +inserted, +eligible, +expires, +amount, +note, +payload, +attempts, +last_error, +failures, +"last failure", +next_try, in_retry, +refresh_at,
		+attempt_no, +`+h.refreshName(mapping.DeadlineAt)+`, +`+h.refreshName(mapping.AttemptUID)+`, +started_at, disabled, +disabled_reason, +failing_since, +"`+strings.Join(h.keys, `", +"`)+`" FROM "my table"`+where), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := h.row(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

func (h *harness) row(rows *sql.Rows) (row storetest.Row, err error) {
	var status, inserted, eligible, expires, amount, note, payload, attempts, lastError, failures, last, next any
	var refreshAt, attempt, deadline, uid, started, reason, failing any
	var inRetry, disabled sql.NullBool
	key := make([]any, len(h.keys))
	to := []any{&status, &inserted, &eligible, &expires, &amount, &note, &payload, &attempts, &lastError, &failures, &last, &next, &inRetry,
		&refreshAt, &attempt, &deadline, &uid, &started, &disabled, &reason, &failing}
	for i := range key {
		to = append(to, &key[i])
	}
	if err := rows.Scan(to...); err != nil {
		return row, err
	}
	if h.want.Keys != storetest.BlobKeys {
		key[0] = asString(key[0])
	}
	row.Key = backlog.NewKey(key...)
	row.InRetry, row.Memory.Disabled = inRetry.Bool, disabled.Bool
	uid, reason = asString(uid), asString(reason)
	row.Memory.UID, _ = uid.(string)
	row.Memory.Reason, _ = reason.(string)
	row.Columns = map[string]any{"amount": amount, "note": asString(note), "payload": payload}
	status, lastError = asString(status), asString(lastError)
	row.Status, _ = status.(string)
	for _, x := range []struct {
		raw any
		to  *time.Time
	}{{inserted, &row.Inserted}, {eligible, &row.Eligible}, {expires, &row.Expires}, {last, &row.Memory.LastFailure}, {next, &row.Memory.Next},
		{refreshAt, &row.Memory.Next}, {deadline, &row.Memory.Deadline}, {started, &row.Memory.Started}, {failing, &row.Memory.FailingSince}} {
		if x.raw == nil {
			continue
		}
		if *x.to, err = h.form.read(x.raw); err != nil {
			return row, err
		}
		*x.to = x.to.UTC()
	}
	for _, x := range []struct {
		raw any
		to  *int
	}{{attempts, &row.Attempts}, {failures, &row.Memory.Failures}, {attempt, &row.Memory.AttemptNo}} {
		if n, ok := x.raw.(int64); ok {
			*x.to = int(n)
		}
	}
	row.LastError, _ = lastError.(string)
	return row, nil
}

// asString makes a string of the bytes by which some drivers give one.
func asString(v any) any {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return v
}

func (h *harness) Delete(keys ...backlog.Key) error {
	tx, err := h.plain.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for batch := range slices.Chunk(keys, 100) { // few round trips
		var list []string
		var args []any
		for _, k := range batch {
			where, parts := h.where(k)
			list, args = append(list, where), append(args, parts...)
		}
		if _, err := tx.Exec(h.d.sql(`DELETE FROM "my table" WHERE `+strings.Join(list, " OR ")), args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}
