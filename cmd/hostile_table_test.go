package cmd_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// A hostileDatabase is a kind of database that draws are run on.
type hostileDatabase struct {
	name      string
	times     []hostileTime
	obstacles []string // names of hostileObstacles

	// connect returns a pool for statements of the test, several in a text, and the URL for
	// the program. The pool is empty of tables, or has the last draw's.
	connect func(t *testing.T, dir string) (*sql.DB, string)
}

// A hostileTime is a way in which a column holds times.
type hostileTime struct {
	name    string
	decl    string
	foreign string                             // a literal that is no time of this form; "" where the type takes none
	literal func(at time.Time, row int) string // in SQL
}

func layoutTime(name, decl, foreign, layout string) hostileTime {
	return hostileTime{name, decl, foreign, func(at time.Time, _ int) string { return "'" + at.UTC().Format(layout) + "'" }}
}

const spaceLayout = "2006-01-02 15:04:05"

var secondsTime = hostileTime{"seconds", "BIGINT", "-5", func(at time.Time, _ int) string { return fmt.Sprint(at.Unix()) }}
var millisTime = hostileTime{"milliseconds", "BIGINT", "-5", func(at time.Time, _ int) string { return fmt.Sprint(at.UnixMilli()) }}

// mixedTime is text that several clients have written, each in its own way. A comparison by
// prefix bridges the difference.
var mixedTime = hostileTime{"mixed", "VARCHAR(40)", "'yesterday'", func(at time.Time, row int) string {
	layouts := []string{spaceLayout, "2006-01-02T15:04:05Z", "2006-01-02 15:04:05.000"}
	return "'" + at.UTC().Format(layouts[row%len(layouts)]) + "'"
}}

var hostileDatabases = []hostileDatabase{
	{
		name: "sqlite",
		times: []hostileTime{
			layoutTime("text", "TEXT", "'yesterday'", spaceLayout),
			layoutTime("T", "TEXT", "1795000000000", "2006-01-02T15:04:05Z"),
			secondsTime, millisTime, mixedTime,
		},
		obstacles: []string{"none", "unique", "partial", "check", "filled", "generated", "single", "single", "raise", "rollback", "ignore"},
		connect: func(t *testing.T, dir string) (*sql.DB, string) {
			path := filepath.Join(dir, "shop.db")
			db, err := openDB(path)
			if err != nil {
				t.Fatal(err)
			}
			return db, "sqlite:" + path
		},
	},
	{
		name: "postgres",
		times: []hostileTime{
			layoutTime("timestamptz", "TIMESTAMPTZ", "", "2006-01-02 15:04:05.000Z07:00"),
			layoutTime("timestamp", "TIMESTAMP", "'infinity'", spaceLayout),
			layoutTime("text", "VARCHAR(40)", "'yesterday'", spaceLayout),
			secondsTime, millisTime, mixedTime,
		},
		obstacles: []string{"none", "unique", "partial", "check", "filled", "generated", "single", "single", "raise", "ignore", "foreign", "deferred", "exclusion"},
		connect: func(t *testing.T, _ string) (*sql.DB, string) {
			_, ours := testserver.Postgres(t, "backlog_hostile_")
			theirs := *ours
			theirs.RawQuery += "&default_query_exec_mode=simple_protocol&timezone=UTC"
			return testkit.OpenPool(t, "pgx", theirs.String()), ours.String()
		},
	},
	{
		name: "mariadb",
		times: []hostileTime{
			layoutTime("DATETIME", "DATETIME(3)", "", spaceLayout+".000"),
			layoutTime("text", "VARCHAR(40)", "'yesterday'", spaceLayout),
			secondsTime, millisTime, mixedTime,
		},
		obstacles: []string{"none", "unique", "check", "filled", "single", "single", "raise", "ignore", "foreign"},
		connect: func(t *testing.T, _ string) (*sql.DB, string) {
			_, ours := testserver.MySQL(t, "backlog_hostile_")
			return testkit.OpenPool(t, "mysql", testserver.DSN(ours, "multiStatements=true&time_zone=%27%2B00%3A00%27")), ours.String()
		},
	},
}

// A hostileDraw is a table with what is to happen to it.
type hostileDraw struct {
	Key       string // int, text or pair
	Time      string // the name of the form
	Where     bool   // it is one queue of the table's two
	Dead      bool   // there is a dead status
	OnDead    bool   // on_dead is called
	Expires   bool   // rows may have a time after which they are not tried
	ErrorKeep bool   // an error leaves the status
	Policy    string // progressive, list, linear or fibonacci
	Retries   int    // of the policies with a count
	Notes     bool   // attempts and errors are kept in columns
	Workers   int    // handler calls at a time
	Obstacle  string // what refuses sick rows
	Refuses   string // the status that it refuses them
	Rows      []hostileRow
	Steps     []hostileStep
}

// A hostileRow is a row of the table as it is at first.
type hostileRow struct {
	Status  string   // NEW, ERROR, SUCCESS or HOLD
	Age     string   // young: both tiers take it; week: the wide one; old: none
	Sms     bool     // it is of the other queue
	Sick    bool     // the table refuses it a status
	Late    bool     // it is past its time
	Foreign bool     // its date is in no form that can be read
	Answers []string // success, error or reject: of the first call, the second, …; the last goes on
}

// A hostileStep is something that happens to the table. N is a number of calls after which
// something happens, or of a row.
type hostileStep struct {
	Do string
	N  int
}

// refuses reports whether the table refuses the row the status. Where isSingle says so, it
// refuses it only after another sick row has it.
func (d *hostileDraw) refuses(r *hostileRow, status string) bool {
	return r.Sick && d.Obstacle != "none" && status == d.Refuses
}

// isSingle reports whether only one sick row may be dead: the first one is, and the table
// refuses it to the others.
func (d *hostileDraw) isSingle() bool { return d.Obstacle == "single" }

// isLimited reports whether the policy gives a row up after some retries.
func (d *hostileDraw) isLimited() bool { return d.Policy == "list" || d.Policy == "linear" }

// deaths is how often on_dead is called for a row that dies.
func (d *hostileDraw) deaths() int {
	if d.OnDead {
		return 1
	}
	return 0
}

// hostileSteps are what steps do, each as often as it is drawn.
var hostileSteps = []string{
	"once", "once", "once", "once", "narrow", "narrow", "retry", "retry", "discard", "discard",
	"kill", "kill", "two", "hold", "insert", "rival", "rival", "daemon", "takeover",
}

// drawHostile draws a table for the database.
func drawHostile(rt *rapid.T, kind *hostileDatabase) *hostileDraw {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(rt, name) }
	yes := func(name string) bool { return rapid.Bool().Draw(rt, name) }
	d := &hostileDraw{
		Key:       pick("key", "int", "text", "pair"),
		Time:      rapid.SampledFrom(kind.times).Draw(rt, "time").name,
		Where:     yes("where"),
		Dead:      rapid.IntRange(0, 2).Draw(rt, "dead") > 0,
		OnDead:    rapid.IntRange(0, 2).Draw(rt, "on_dead") > 0,
		Expires:   yes("expires"),
		ErrorKeep: rapid.IntRange(0, 4).Draw(rt, "keep") == 0,
		Policy:    pick("policy", "progressive", "list", "linear", "fibonacci"),
		Retries:   rapid.IntRange(1, 2).Draw(rt, "retries"),
		Notes:     yes("notes"),
		Workers:   rapid.IntRange(1, 4).Draw(rt, "workers"),
		Obstacle:  pick("obstacle", kind.obstacles...),
	}
	d.Dead = d.Dead || d.isSingle()
	statuses := []string{"SUCCESS", "NEW"}
	if d.Dead {
		statuses = append(statuses, "DEAD", "DEAD") // by an attempt, by age, and by discard
	}
	d.OnDead = d.OnDead && d.Dead
	if d.ErrorKeep {
		d.Policy = "progressive"
	} else {
		statuses = append(statuses, "ERROR")
	}
	d.Refuses = pick("refuses", statuses...)
	switch d.Obstacle {
	case "unique", "exclusion":
		d.Where = true // what is in their way is a row of the other queue
	case "partial":
		d.Where = true
	case "ignore":
		if kind.name == "mariadb" && d.Refuses == "ERROR" {
			d.Refuses = "SUCCESS" // its trigger undoes the status alone, and a failure is counted
		}
	case "filled":
		d.Refuses = "SUCCESS" // only a handler fills
	case "single":
		d.Refuses = "DEAD" // of which on_dead is told before it is written
	}
	foreign := kind.timeOf(d).foreign != ""
	n := rapid.IntRange(1, 20).Draw(rt, "rows")
	for range n {
		d.Rows = append(d.Rows, drawHostileRow(rt, d, foreign))
	}
	if rapid.IntRange(0, 7).Draw(rt, "crowd") == 7 {
		d.addCrowd()
	}
	d.fewForeign()
	for range rapid.IntRange(1, 5).Draw(rt, "steps") {
		step := hostileStep{pick("step", hostileSteps...), rapid.IntRange(1, 6).Draw(rt, "n")}
		if step.Do == "discard" && !d.Dead {
			step.Do = "once"
		}
		d.Steps = append(d.Steps, step)
	}
	return d
}

// addCrowd adds more sick rows than may be handled in vain one after the other.
func (d *hostileDraw) addCrowd() {
	for range 15 {
		r := hostileRow{Status: "NEW", Age: "young", Sick: true, Answers: []string{"success"}}
		r.Sick = !d.refuses(&r, r.Status)
		d.Rows = append(d.Rows, r)
	}
}

// fewForeign sees to it that the column has a form: that of three quarters of the rows.
func (d *hostileDraw) fewForeign() {
	most := 0
	for i := range d.Rows {
		if !d.Rows[i].Sms && !d.Rows[i].Foreign {
			most++
		}
	}
	most /= 4
	for i := range d.Rows {
		if d.Rows[i].Foreign && most == 0 {
			d.Rows[i].Foreign = false
		} else if d.Rows[i].Foreign {
			most--
		}
	}
}

func drawHostileRow(rt *rapid.T, d *hostileDraw, foreign bool) hostileRow {
	in := func(name string, of int) bool { return rapid.IntRange(1, of).Draw(rt, name) == of }
	answers := []string{"success", "error"}
	if d.Dead {
		answers = append(answers, "reject")
	}
	healthy := 2 // for each sick one
	if d.isSingle() {
		healthy = 1 // several are to compete
	}
	r := hostileRow{
		Status:  rapid.SampledFrom([]string{"NEW", "NEW", "NEW", "ERROR", "ERROR", "SUCCESS", "HOLD"}).Draw(rt, "status"),
		Age:     rapid.SampledFrom([]string{"young", "young", "week", "old"}).Draw(rt, "age"),
		Sms:     d.Where && in("sms", 4),
		Sick:    in("sick", healthy+1),
		Late:    d.Expires && in("late", 4),
		Foreign: foreign && in("foreign", 8),
		Answers: rapid.SliceOfN(rapid.SampledFrom(answers), 1, 3).Draw(rt, "answers"),
	}
	if d.ErrorKeep && r.Status == "ERROR" {
		r.Status = "NEW"
	}
	if r.Foreign {
		r.Status = "NEW"
	}
	if d.refuses(&r, r.Status) {
		r.Sick = false // the table would not have taken it
	}
	return r
}

func (kind *hostileDatabase) timeOf(d *hostileDraw) hostileTime {
	i := slices.IndexFunc(kind.times, func(x hostileTime) bool { return x.name == d.Time })
	return kind.times[i]
}

// String shows the draw in a failure.
func (d *hostileDraw) String() string {
	var b strings.Builder
	table := *d
	table.Rows = nil
	text, err := json.Marshal(&table)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(&b, "%s\n", text)
	for i, r := range d.Rows {
		fmt.Fprintf(&b, "row %d: %+v\n", i, r)
	}
	return b.String()
}

// id returns the row's key as texts of columns.
func (d *hostileDraw) id(row int) []string {
	switch d.Key {
	case "int":
		return []string{fmt.Sprint(1000 + row)}
	case "text":
		return []string{fmt.Sprintf("row-%d", 1000+row)}
	}
	return []string{"7", fmt.Sprintf("row-%d", 1000+row)}
}

// ddl returns the statements that make the table, with what refuses sick rows.
func (kind *hostileDatabase) ddl(d *hostileDraw) []string {
	key := map[string]string{
		"int":  "id BIGINT NOT NULL PRIMARY KEY",
		"text": "id VARCHAR(40) NOT NULL PRIMARY KEY",
		"pair": "tenant BIGINT NOT NULL, id VARCHAR(40) NOT NULL, PRIMARY KEY (tenant, id)",
	}[d.Key]
	x := hostileObstacles[d.Obstacle]
	declare := func(parts []string) (list []string) {
		for _, part := range parts {
			list = append(list, strings.ReplaceAll(part, "REFUSED", "'"+d.Refuses+"'"))
		}
		return list
	}
	columns := []string{
		"row_no INT NOT NULL", "queue VARCHAR(20) NOT NULL", "status VARCHAR(20) NOT NULL",
		"inserted " + kind.timeOf(d).decl, "account INT NOT NULL", "sick INT NOT NULL",
		"expires " + kind.timeOf(d).decl, "filled VARCHAR(20)", "payload VARCHAR(40)", "tries INT NOT NULL DEFAULT 0", "problem VARCHAR(200)",
	}
	columns = append(columns, declare(x.columns)...)
	// A key of two columns is a constraint, which comes last.
	columns = append(columns, key)
	columns = append(columns, declare(x.constraints)...)
	var list []string
	list = append(list, declare(x.before[kind.name])...)
	list = append(list, "CREATE TABLE job ("+strings.Join(columns, ", ")+")")
	return append(list, declare(x.after[kind.name])...)
}

// A hostileObstacle is what refuses sick rows a status. REFUSED stands for that.
type hostileObstacle struct {
	columns     []string
	constraints []string
	before      map[string][]string // by database: statements before that which makes the table
	after       map[string][]string
	blocks      bool // by a row of the other queue with the same account and that status
}

var hostileObstacles = map[string]hostileObstacle{
	"none":   {},
	"unique": {constraints: []string{"UNIQUE (account, status)"}, blocks: true},
	"partial": {blocks: true, after: map[string][]string{
		"sqlite":   {"CREATE UNIQUE INDEX one_each ON job (account) WHERE status = REFUSED"},
		"postgres": {"CREATE UNIQUE INDEX one_each ON job (account) WHERE status = REFUSED"},
	}},
	"exclusion": {blocks: true, after: map[string][]string{
		"postgres": {"ALTER TABLE job ADD CONSTRAINT one_each EXCLUDE (account WITH =) WHERE (status = REFUSED)"},
	}},
	"check":     {constraints: []string{"CONSTRAINT healthy CHECK (NOT (sick = 1 AND status = REFUSED))"}},
	"filled":    {constraints: []string{"CONSTRAINT complete CHECK (status <> REFUSED OR queue = 'sms' OR account = 0 OR filled IS NOT NULL)"}},
	"generated": {columns: []string{"must INT GENERATED ALWAYS AS (CASE WHEN sick = 1 AND status = REFUSED THEN NULL ELSE 1 END) STORED NOT NULL"}},
	"single": {
		columns:     []string{"holder INT GENERATED ALWAYS AS (CASE WHEN sick = 1 AND status = REFUSED THEN 1 END) STORED"},
		constraints: []string{"UNIQUE (holder)"},
	},
	"foreign": {
		constraints: []string{"FOREIGN KEY (sick, status) REFERENCES allowed (sick, status)"},
		before:      map[string][]string{"postgres": {allowedTable}, "mariadb": {allowedTable}},
	},
	"deferred": {
		constraints: []string{"FOREIGN KEY (sick, status) REFERENCES allowed (sick, status) DEFERRABLE INITIALLY DEFERRED"},
		before:      map[string][]string{"postgres": {allowedTable}},
	},
	"raise": {after: map[string][]string{
		"sqlite":   {sqliteTrigger("RAISE(ABORT, 'a sick row')")},
		"postgres": postgresTrigger("RAISE EXCEPTION 'a sick row'"),
		"mariadb":  {mariadbTrigger("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a sick row'")},
	}},
	"rollback": {after: map[string][]string{
		"sqlite": {sqliteTrigger("RAISE(ROLLBACK, 'a sick row')")},
	}},
	"ignore": {after: map[string][]string{
		"sqlite":   {sqliteTrigger("RAISE(IGNORE)")},
		"postgres": postgresTrigger("RETURN NULL"),
		"mariadb":  {mariadbTrigger("SET NEW.status = OLD.status")},
	}},
}

const allowedTable = `CREATE TABLE allowed (sick INT NOT NULL, status VARCHAR(20) NOT NULL, PRIMARY KEY (sick, status));
	INSERT INTO allowed SELECT sick, status FROM (SELECT 0 AS sick UNION SELECT 1) AS s,
		(SELECT 'NEW' AS status UNION SELECT 'ERROR' UNION SELECT 'SUCCESS' UNION SELECT 'DEAD' UNION SELECT 'HOLD') AS w
		WHERE NOT (sick = 1 AND status = REFUSED)`

func sqliteTrigger(then string) string {
	return "CREATE TRIGGER guard BEFORE UPDATE ON job WHEN NEW.sick = 1 AND NEW.status = REFUSED BEGIN SELECT " + then + "; END"
}

func postgresTrigger(then string) []string {
	return []string{
		"CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.sick = 1 AND NEW.status = REFUSED THEN " + then + "; END IF; RETURN NEW; END $$",
		"CREATE TRIGGER guard BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION guard()",
	}
}

func mariadbTrigger(then string) string {
	return "CREATE TRIGGER guard BEFORE UPDATE ON job FOR EACH ROW BEGIN IF NEW.sick = 1 AND NEW.status = REFUSED THEN " + then + "; END IF; END"
}

// clear drops what the last draw has made.
func (kind *hostileDatabase) clear(db *sql.DB) error {
	texts := []string{"DROP TABLE IF EXISTS job", "DROP TABLE IF EXISTS allowed"}
	if kind.name == "postgres" {
		texts = append(texts, "DROP FUNCTION IF EXISTS guard")
	}
	for _, text := range texts {
		if _, err := db.Exec(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// inserted returns when the row is inserted.
func (r *hostileRow) inserted(row int, base time.Time) time.Time {
	ages := map[string]time.Duration{"young": time.Minute, "week": 2 * 24 * time.Hour, "old": 8 * 24 * time.Hour}
	return base.Add(-ages[r.Age] - time.Duration(row)*7*time.Second)
}

// insert returns the statement that adds the row, and before it what is in its way.
func (kind *hostileDatabase) insert(d *hostileDraw, row int, base time.Time) []string {
	r := &d.Rows[row]
	at := r.inserted(row, base)
	inserted := kind.timeOf(d).literal(at, row)
	if r.Foreign {
		inserted = kind.timeOf(d).foreign
	}
	expires := "NULL"
	if r.Late {
		expires = kind.timeOf(d).literal(base.Add(-time.Hour), row)
	}
	queue := "mail"
	if r.Sms {
		queue = "sms"
	}
	sick := 0
	if r.Sick {
		sick = 1
	}
	filled := "NULL"
	if r.Status == "SUCCESS" {
		filled = "'yes'"
	}
	values := func(id []string, no, account, sick int, queue, status, inserted string) string {
		names := "id"
		quoted := "'" + id[len(id)-1] + "'"
		if len(id) > 1 {
			names = "tenant, id"
			quoted = id[0] + ", " + quoted
		}
		return fmt.Sprintf("INSERT INTO job (%s, row_no, account, sick, queue, status, inserted, payload, filled, expires) VALUES (%s, %d, %d, %d, '%s', '%s', %s, 'p%d', %s, %s)",
			names, quoted, no, account, sick, queue, status, inserted, no, filled, expires)
	}
	var list []string
	if r.Sick && hostileObstacles[d.Obstacle].blocks {
		blocker := 500 + row
		list = append(list, values(d.id(blocker), blocker, row+1, 0, "sms", d.Refuses, kind.timeOf(d).literal(at, 0)))
	}
	return append(list, values(d.id(row), row, row+1, sick, queue, r.Status, inserted))
}

// config returns the configuration of the program for the draw.
func (d *hostileDraw) config(url, handler string, ticks string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("database: %q", url)
	line("table:")
	line("  name: job")
	line("  id: %s", map[string]string{"int": "id", "text": "id", "pair": "[tenant, id]"}[d.Key])
	line("  status: status")
	line("  inserted: inserted")
	if d.Expires {
		line("  expires: expires")
	}
	if d.Where {
		line("  where: {queue: mail}")
	}
	if d.Notes {
		line("  attempts: tries")
		line("  last_error: problem")
	}
	failed := "ERROR"
	if d.ErrorKeep {
		failed = "keep"
	}
	dead := ""
	if d.Dead {
		dead = ", dead: DEAD"
	}
	if d.OnDead {
		line("on_dead: {http: {url: %q}}", handler+"/dead")
	}
	line("statuses: {new: NEW, error: %s, success: SUCCESS%s}", failed, dead)
	line("handler:")
	line("  http: {url: %q}", handler+"/handle")
	line("  concurrency: %d", d.Workers)
	switch d.Policy {
	case "list":
		line("policy: {list: {intervals: [%s]}}", strings.Join(slices.Repeat([]string{"0s"}, d.Retries), ", "))
	case "linear":
		line("policy: {linear: {interval: 1ms, max_retries: %d}}", d.Retries)
	case "fibonacci":
		line("policy: {fibonacci: {unit: 1ms}}")
	}
	line("timezone: UTC")
	line("state: state.json")
	line("log: {format: json, level: info}")
	line("tiers: [{max_age: 1d, every: %s}, {max_age: 7d, every: %s}]", ticks, ticks)
	return b.String()
}

// answerIn returns the answer that a handler's error is of.
func answerIn(text string) string {
	switch {
	case strings.Contains(text, "gone") || strings.Contains(text, "410"):
		return "reject"
	case text != "":
		return "error"
	}
	return ""
}
