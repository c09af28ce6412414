package cmd_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"backlog/internal/testserver"
)

// Of a row's life are these; every other is a row that nobody would ever touch again.
const lives = `
	attempt_uid IS NULL AND deadline_at IS NULL AND disabled = 0 AND refresh_at IS NOT NULL OR                     -- waiting
	attempt_uid IS NOT NULL AND deadline_at IS NOT NULL AND disabled = 0 AND refresh_at IS NOT NULL OR             -- running
	attempt_uid IS NULL AND deadline_at IS NULL AND disabled = 1 AND refresh_at IS NULL AND disabled_reason <> '' OR
	attempt_uid IS NULL AND deadline_at IS NULL AND disabled = 0 AND refresh_at IS NULL AND attempt_no = 0         -- finished`

const (
	refreshRows  = 20
	refreshSlots = 4
)

// A refreshCrasher is a table whose rows are handed over to a worker by lists in a Redis,
// with a proxy in front of that. Each change of an attempt is noted in the table audit.
type refreshCrasher struct {
	*shop
	redis         *redis.Pool
	proxy         *proxy
	input, output string
	said          map[string]string // what the worker has said of each attempt
	daemon        chan *daemon      // the one that is to be killed
}

func newRefreshCrasher(t *testing.T) *refreshCrasher {
	t.Helper()
	u, err := url.Parse(testserver.RedisURL(t))
	if err != nil {
		t.Fatal(err)
	}
	direct := u.String()
	c := &refreshCrasher{
		redis: &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(direct) }}, proxy: newProxy(t, u.Host), input: testserver.Name("in-"), output: testserver.Name("out-"),
		said: make(map[string]string), daemon: make(chan *daemon, 1),
	}
	t.Cleanup(func() {
		_, _ = c.do("DEL", c.input, c.output, c.output+"-bad")
		c.redis.Close()
	})
	u.Host = c.proxy.addr()
	c.shop = newShop(t, map[string]string{"schedule.yaml": fmt.Sprintf(`database: sqlite:backlog.db
table: {name: sites}
policy: {refresh: {schedule: none, timeout: 1h, intervals: [0, 0, 0]}}
handler: {redis: {url: "%s", input: %s, output: %s}, concurrency: %d}
tiers: [{every: 1s}]
state: none
log: {level: error}
`, u.String(), c.input, c.output, refreshSlots)})
	c.sql("PRAGMA journal_mode = WAL", "CREATE TABLE sites (id INTEGER PRIMARY KEY)")
	c.mustRun("init", "--create-table")
	c.sql("CREATE TABLE audit (no INTEGER PRIMARY KEY, id INTEGER, was TEXT, is_now TEXT, succeeded INTEGER)",
		`CREATE TRIGGER audits AFTER UPDATE ON sites WHEN old.attempt_uid IS NOT new.attempt_uid BEGIN
			INSERT INTO audit (id, was, is_now, succeeded) VALUES (new.id, old.attempt_uid, new.attempt_uid, new.attempt_no = 0);
		END`,
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO sites (id, refresh_at) SELECT i, '2026-01-05 10:00:00' FROM n`, refreshRows))
	return c
}

// outcomes returns how the attempts on a row end that are not lost: rows succeed, every
// fifth at the second attempt, every tenth never.
func outcomes(id int) []string {
	switch {
	case id%10 == 0:
		return []string{"failure", "failure", "failure", "failure"}
	case id%5 == 0:
		return []string{"failure", "success"}
	}
	return []string{"success"}
}

// do sends a command to the Redis itself.
func (c *refreshCrasher) do(command string, args ...any) (any, error) {
	conn := c.redis.Get()
	defer conn.Close()
	return conn.Do(command, args...)
}

// answer answers all requests, each once more with a UID that no row has.
func (c *refreshCrasher) answer() {
	c.t.Helper()
	for {
		item, err := redis.String(c.do("LPOP", c.input))
		if err == redis.ErrNil {
			return
		}
		var r struct {
			ID  int    `json:"id"`
			UID string `json:"attempt_uid"`
			No  int    `json:"attempt_no"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(item), &r)
		}
		if err != nil {
			c.t.Fatalf("%s: %v", item, err)
		}
		ends := outcomes(r.ID)
		said := ends[min(r.No, len(ends))-1]
		c.said[r.UID] = said
		items := []any{c.output}
		for _, uid := range []string{"not-" + r.UID, r.UID} {
			items = append(items, fmt.Sprintf(`{"id":%d,"attempt_uid":%q,"type":%q}`, r.ID, uid, said))
		}
		if _, err := c.do("RPUSH", items...); err != nil { // in one: the program could read the first alone
			c.t.Fatal(err)
		}
	}
}

// kill kills the daemon, and returns when it is gone.
func (c *refreshCrasher) kill() {
	d := <-c.daemon
	d.cmd.Process.Kill()
	<-d.end
	c.daemon <- d
}

// killAt returns a trap that kills the daemon when it sends the command: before the Redis
// has it, or after.
func (c *refreshCrasher) killAt(command string, after bool) func(*link, []byte) fate {
	return func(_ *link, text []byte) fate {
		switch {
		case !sends(text, command):
			return goesOn
		case after:
			return isHeard // before it hears of that, it is killed
		}
		c.kill()
		return isLost
	}
}

// refreshPlaces are moments of an attempt: the end of some is written there, or of none.
var refreshPlaces = []struct {
	name string
	ends bool
	trap func(c *refreshCrasher) func(*link, []byte) fate
}{
	{"before Begin's commit", false, func(c *refreshCrasher) func(*link, []byte) fate {
		// From the first push on the database is locked: nobody's Begin ends any more.
		db := c.open()
		c.t.Cleanup(func() { db.Close() })
		locked := false
		return func(_ *link, text []byte) fate {
			if !locked && sends(text, "RPUSH") {
				locked = true
				if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
					c.t.Error(err)
				}
				time.AfterFunc(50*time.Millisecond, func() {
					c.kill()
					db.Close()
				})
			}
			return goesOn
		}
	}},
	{"after Begin's commit", false, func(c *refreshCrasher) func(*link, []byte) fate { return c.killAt("RPUSH", false) }},
	{"after the push", false, func(c *refreshCrasher) func(*link, []byte) fate { return c.killAt("RPUSH", true) }},
	{"after the worker's answer", false, func(c *refreshCrasher) func(*link, []byte) fate {
		trap := c.killAt("LRANGE", false)
		return func(l *link, text []byte) fate {
			if n, err := redis.Int(c.do("LLEN", c.output)); err != nil || n == 0 {
				return goesOn
			}
			return trap(l, text)
		}
	}},
	{"after Resolve", true, func(c *refreshCrasher) func(*link, []byte) fate { return c.killAt("LREM", false) }},
	{"after LREM", true, func(c *refreshCrasher) func(*link, []byte) fate { return c.killAt("LREM", true) }},
}

// TestRefreshCrash kills the daemon at each place of an attempt, goes on, and looks at
// what has become of the rows.
func TestRefreshCrash(t *testing.T) {
	t.Parallel()
	testserver.RedisURL(t)
	for _, place := range refreshPlaces {
		t.Run(place.name, func(t *testing.T) {
			t.Parallel()
			c := newRefreshCrasher(t)
			c.proxy.before = c.kill
			c.proxy.set(place.trap(c))
			d := c.start("run")
			c.daemon <- d
			if !eventually(func() bool { c.answer(); return d.hasEnded() }) {
				t.Fatalf("it was not killed:\n%s", d.log)
			}
			c.proxy.set(nil)
			c.judge("when it was killed")
			if n := c.rows("SELECT count(*) FROM audit WHERE is_now IS NULL"); (n != "0\n") != place.ends {
				t.Errorf("when it was killed, %s attempts had ended", n)
			}
			// What was lost fails an hour later, and is tried again.
			now := time.Now().UTC().Truncate(time.Second)
			for step := range 8 {
				c.answer()
				c.mustRun("once", "--now", now.Add(time.Duration(step)*61*time.Minute).Format(time.RFC3339))
				c.judge(fmt.Sprint("after step ", step))
			}
			c.answer()
			c.mustRun("once", "--now", now.Add(24*time.Hour).Format(time.RFC3339))
			c.judgeEnd()
		})
	}
}

// judge asserts what is so at any moment.
func (c *refreshCrasher) judge(when string) {
	c.t.Helper()
	if odd := c.rows("SELECT * FROM sites WHERE NOT (" + lives + "\n)"); odd != "" {
		c.t.Errorf("%s: these rows are in no state:\n%s", when, odd)
	}
}

// judgeEnd asserts what the attempts have come to.
func (c *refreshCrasher) judgeEnd() {
	t := c.t
	starts, uids := make(map[string]int), make(map[string]bool)
	for line := range strings.Lines(c.rows("SELECT id, was, is_now, succeeded FROM audit ORDER BY no")) {
		f := strings.Fields(line)
		id, was, now := f[0], f[1], f[2]
		switch {
		case was != "NULL" && now != "NULL":
			t.Errorf("row %s went from the attempt %s to %s", id, was, now)
		case was == "NULL":
			if starts[id]++; uids[now] {
				t.Errorf("row %s was started by the attempt %s, which was there before", id, now)
			}
			uids[now] = true
		case f[3] == "1" && c.said[was] != "success":
			t.Errorf("row %s succeeded by the attempt %s, of which %q was said", id, was, c.said[was])
		}
	}
	repeated := 0
	for id := 1; id <= refreshRows; id++ {
		ends := outcomes(id)
		extra := starts[fmt.Sprint(id)] - len(ends)
		if repeated += extra; extra < 0 && ends[len(ends)-1] == "success" || extra > 1 {
			t.Errorf("row %d was started %d times, want %d", id, extra+len(ends), len(ends))
		}
		state, want := c.rows(fmt.Sprint("SELECT disabled, refresh_at IS NULL, attempt_uid IS NULL FROM sites WHERE id = ", id)), "0\t1\t1\n"
		if id%10 == 0 {
			want = "1\t1\t1\n"
		}
		if state != want {
			t.Errorf("row %d ends as %q, want %q", id, state, want)
		}
	}
	t.Logf("%d attempts were repeated", repeated)
	if repeated > refreshSlots {
		t.Errorf("%d attempts were repeated", repeated)
	}
	for _, list := range []string{c.input, c.output, c.output + "-bad"} {
		if n, err := redis.Int(c.do("LLEN", list)); n != 0 || err != nil {
			t.Errorf("%d are left in %s (%v)", n, list, err)
		}
	}
}
