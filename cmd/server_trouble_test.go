package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lockTable are the statements that keep every other session from the table, on a connection
// of their own, and release what ends that.
var lockTable = map[*siteKind]struct{ lock, release string }{
	onSQLite:   {"BEGIN EXCLUSIVE", "ROLLBACK"},
	onPostgres: {`BEGIN; LOCK TABLE "BACKLOG" IN ACCESS EXCLUSIVE MODE`, "ROLLBACK"},
	onMySQL:    {`LOCK TABLES "BACKLOG" WRITE`, "UNLOCK TABLES"},
}

// A verdict is what pages, probes and metrics say of database and passes.
type verdict struct {
	front, readyz, api string
	ready              int
	storeUp            string
}

func (a verdict) String() string {
	return fmt.Sprintf("front %q, readyz %d %s, store_up %s, status %s", a.front, a.ready, a.readyz, a.storeUp, a.api)
}

// agree reports whether all of them say the same: that all is well, or that it is not.
func (a verdict) agree(well bool) bool {
	working := strings.HasPrefix(a.front, "Working.")
	quiet := strings.Contains(a.api, `"trouble":null`)
	return working == well && quiet == well && (a.ready == 200) == well && (a.storeUp == "1") == well
}

// TestTroubleIsTheSameEverywhere locks a table, takes it or a column away and makes it refuse all outcomes, under
// a daemon that has no pass for days, but in the last case. Front page, /readyz,
// backlog_store_up, the API and the log say so within 30 s, and when it is over.
func TestTroubleIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, nil)
		s.write("schedule.yaml", "database: "+s.url(nil)+`
state: state.json
handler: {exec: ['true']}
tiers: [{max_age: 7d, every: 192h}]
web: {listen: "127.0.0.1:0"}
`)
		d := s.start("run")
		d.says(`"msg":"leading"`)
		at := servedAt.FindStringSubmatch(d.log.String())[1]
		token := strings.TrimSpace(s.mustRun("token"))
		get := func(path string) (int, string) {
			t.Helper()
			r, err := http.NewRequest(http.MethodGet, at+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			return answer.StatusCode, string(text)
		}
		look := func() (a verdict) {
			t.Helper()
			a.ready, a.readyz = get("/readyz")
			_, a.front = get("/")
			_, after, _ := strings.Cut(a.front, `data-said="`)
			a.front, _, _ = strings.Cut(after, `"`)
			_, a.api = get("/api/v1/status")
			_, metrics := get("/metrics")
			_, after, _ = strings.Cut(metrics, "\nbacklog_store_up ")
			a.storeUp, _, _ = strings.Cut(after, "\n")
			return a
		}
		within := func(what string, well bool) verdict {
			t.Helper()
			began, last := time.Now(), verdict{}
			const pace = 500 * time.Millisecond // a look is four pages
			agrees := func() bool {
				last = look()
				return last.agree(well)
			}
			if !eventuallyEvery(pace, patience, agrees) || time.Since(began) > 40*time.Second { // 30 s, and what a busy machine takes
				t.Fatalf("%s: after %v they say %v\n%s", what, time.Since(began).Round(time.Second), last, d.log)
			}
			return last
		}
		within("at the start", true)

		conn, err := s.db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		exec := func(text string) {
			t.Helper()
			for one := range strings.SplitSeq(text, "; ") {
				if _, err := conn.ExecContext(context.Background(), one); err != nil {
					t.Fatalf("%s: %v", one, err)
				}
			}
		}
		exec(lockTable[kind].lock)
		within("locked", false)
		d.says(`"level":"ERROR","msg":"no record is dispatched until the database answers again"`)
		exec(lockTable[kind].release)
		within("let go of", true)
		d.says(`"level":"WARN","msg":"the database answers again"`)

		exec(`ALTER TABLE "BACKLOG" RENAME TO elsewhere`)
		if a := within("gone", false); !strings.HasPrefix(a.front, "The table cannot be used since ") {
			t.Errorf("want the page to say what is wrong, got %s", a)
		}
		d.says(`"level":"ERROR","msg":"no record is dispatched until the table can be used again"`)
		exec(`ALTER TABLE elsewhere RENAME TO "BACKLOG"`)
		within("there again", true)

		if kind != onSQLite || sqliteDriver() == "sqlite" { // the other takes the name of a column that is gone for a text
			exec(`ALTER TABLE "BACKLOG" RENAME COLUMN status TO elsewhere`)
			if a := within("without its column", false); !strings.HasPrefix(a.front, "The table cannot be used since ") {
				t.Errorf("want the page to say what is wrong, got %s", a)
			}
			exec(`ALTER TABLE "BACKLOG" RENAME COLUMN elsewhere TO status`)
			within("with its column again", true)
		}
		conn.Close()
		d.signal(syscall.SIGTERM)
		d.ends()

		// A status that no row takes ends each pass with an error.
		s.fillNew(3)
		s.write("state.json", `{"last_wake": "2025-01-01T00:00:00Z"}`)
		s.write("schedule.yaml", strings.Replace(s.read("schedule.yaml"), "handler:", "statuses: {success: "+strings.Repeat("X", 30)+"}\nhandler:", 1))
		if kind == onSQLite {
			s.mustExec("CREATE TRIGGER no BEFORE UPDATE ON BACKLOG BEGIN SELECT raise(ABORT, 'not today'); END")
		}
		if kind != onSQLite {
			s.mustExec(`ALTER TABLE "BACKLOG" ADD CHECK (length(status) < 20)`)
		}
		d = s.start("run")
		d.says(`"msg":"pass ended early"`)
		at = servedAt.FindStringSubmatch(d.log.String())[1]
		if a := within("refused", false); !strings.HasPrefix(a.front, "Passes end with an error since ") {
			t.Errorf("want the page to say what is wrong, got %s", a)
		}
		var passes struct {
			Passes []struct {
				N     int64
				Error string
			}
		}
		_, text := get("/api/v1/passes")
		if err := json.Unmarshal([]byte(text), &passes); err != nil || len(passes.Passes) != 1 || passes.Passes[0].Error == "" {
			t.Fatalf("want the error of the pass, got %s", text)
		}
		if _, page := get(fmt.Sprintf("/passes/%d", passes.Passes[0].N)); !strings.Contains(page, "<dt>error</dt>") {
			t.Errorf("want the error on the page of the pass, got\n%s", page)
		}
		if out := s.mustRun("status"); !strings.Contains(out, "stopped by error") || !strings.Contains(out, passes.Passes[0].Error[:20]) {
			t.Errorf("want the error of the pass in status, got\n%s", out)
		}
		d.signal(syscall.SIGTERM)
		d.ends()
	})
}
