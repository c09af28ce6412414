package cmd_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	tabledb "backlog/backlog/table/db"
	"backlog/backlog/table/postgres"
)

// pooler starts a PgBouncer in front of the server that gives each transaction
// the session that was free for longest, so that never two come to the same one
// by luck. Its user is that of the site; more is what the configuration has
// besides. It returns the URL of the database by way of it.
func (s *site) pooler(more string) string {
	s.t.Helper()
	return s.poolerOf(net.JoinHostPort(s.server.Hostname(), cmp.Or(s.server.Port(), "5432")), more)
}

// poolerOf is pooler for a server at another address.
func (s *site) poolerOf(server, more string) string {
	s.t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		s.t.Skip("there is no PgBouncer")
	}
	dir, err := os.MkdirTemp("", "pooler") // unlike the test's own folders one that another user can enter
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { os.RemoveAll(dir) })
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		s.t.Fatal(err)
	}
	addr := freeAddress(s.t)
	_, listen, _ := net.SplitHostPort(addr)
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s/users
pool_mode = transaction
server_round_robin = 1
min_pool_size = 3
default_pool_size = 10
%s
`, host, port, listen, dir, more)
	password, _ := s.server.User.Password()
	for name, text := range map[string]string{"ini": config, "users": fmt.Sprintf("%q %q\n", s.server.User.Username(), password)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	args := []string{"-q", filepath.Join(dir, "ini")}
	if os.Geteuid() == 0 { // it refuses to be root
		args = append([]string{"-u", "nobody"}, args...)
		if err := os.Chmod(dir, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	p := &shop{t: s.t, dir: dir, program: program}
	d := p.start(args...)
	if !eventually(func() bool { return d.hasEnded() || listens(addr) }) || d.hasEnded() {
		s.t.Fatalf("PgBouncer does not listen:\n%s", d.log)
	}
	u := *s.server
	u.Host, u.RawQuery = addr, url.Values{"sslmode": {"disable"}}.Encode()
	return u.String()
}

// lastPort is the port that freeAddress gave out last. The system gives ports from 32768 on to connections, which
// could take one between two tests of it.
var lastPort atomic.Int32

// freeAddress returns an address at which nothing listens. No other call in this process returns it.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, count = 20_000, 12_000
	start := int32(os.Getpid() * 101 % count) // for tests of other packages at the same time
	for range count {
		port := first + (start+lastPort.Add(1))%count
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no address is free")
	return ""
}

func listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// poolerCure is what is said wherever the lock is asked for.
const poolerCure = "name the PostgreSQL server itself in the database URL, or let the pooler have pool_mode = session for this user, with a pool_size of at least 5 for each process"

// newPooled returns a site with 60 fresh records and 20 failed ones, on which
// the program has no more rights than it needs.
func newPooled(t *testing.T) *site {
	t.Helper()
	s := newSite(t, onPostgres, map[string]string{"handler.sh": slowHandler})
	onPostgres.user(s)
	s.fill(80, func(i int) string {
		if i%4 == 0 {
			return "ERROR"
		}
		return "NEW"
	}, func(i int) time.Duration { return time.Duration(i) * time.Second })
	return s
}

func (s *site) behind(name, url string) {
	s.t.Helper()
	s.write(name+".yaml", fmt.Sprintf("database: %s\nstate: %s\ntable: {schema: %s}\nlog: {format: json}\n%s\n", url, s.path(name+".json"), s.own, handling))
}

// TestPostgresPooler: behind a PgBouncer that gives each transaction another
// session everything works but the lock, which is refused with a cure that
// cures it.
func TestPostgresPooler(t *testing.T) {
	t.Parallel()
	s := newPooled(t)
	at := s.pooler("")
	s.behind("a", at)

	wantFindings(t, s, 1, "lock", "database lock")
	if out := s.mustRun("status", "--config", "a.yaml", "--json"); !strings.Contains(out, `"counts":{"ERROR":20,"NEW":60}`) {
		t.Errorf("status: %s", out)
	}
	if out := s.mustRun("explain", "4", "--config", "a.yaml"); !strings.Contains(out, "ERROR (error)") {
		t.Errorf("explain: %s", out)
	}
	if out := s.mustRun("simulate", "--live", "--config", "a.yaml"); !strings.HasPrefix(out, "80 pending records in the table") {
		t.Errorf("simulate --live: %s", out)
	}
	if out := s.mustRun("once", "--max-age", "1d", "--dry-run", "--config", "a.yaml"); strings.Count(out, "fresh") != 60 {
		t.Errorf("once --dry-run: %s", out)
	}
	s.mustRun("retry", "4", "8", "--yes", "--config", "a.yaml")
	if n := s.count("NEW"); n != 62 {
		t.Errorf("retry: %d records are new", n)
	}
	for _, command := range [][]string{{"once", "--max-age", "1d"}, {"run"}, {"check", "--sample", "1"}} {
		status, out, log := s.run(append(command, "--config", "a.yaml")...)
		if status != 1 || out != "" || !strings.HasSuffix(log, "; "+poolerCure+"\n") {
			t.Errorf("%s: exit status %d\n%s%s", command[0], status, out, log)
		}
	}
	if deeds := s.deeds("handled.log"); len(deeds) > 0 {
		t.Errorf("records were handed out without a lock: %v", deeds)
	}
	s.passes(at)

	// A CHECK notes how long each write may wait for a lock.
	s.mustExec("CREATE TABLE limits (lock_timeout text)")
	s.mustExec(`CREATE FUNCTION note_limit() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN
		INSERT INTO limits VALUES (current_setting('lock_timeout'));
		RETURN true;
	END $$`)
	s.mustExec(`ALTER TABLE "BACKLOG" ADD CHECK (status <> 'SUCCESS' OR note_limit()) NOT VALID`)
	s.mustExec(`UPDATE "BACKLOG" SET status = 'NEW'`) // of one state, which one statement could write
	s.passes(at)
	if got := strings.TrimSpace(s.rows("SELECT DISTINCT lock_timeout FROM limits")); got != "2s" {
		t.Errorf("writes wait for locks for %q, want 2s", got)
	}
}

// wantFindings asserts what check says is wrong, and of what it speaks at all
// that is not good.
func wantFindings(t *testing.T, s *site, exit int, wrong, told string) {
	t.Helper()
	status, out, log := s.run("check", "--json", "--config", "a.yaml")
	var found struct {
		Checks []struct {
			Name, Detail, Cure string
			OK, Warning        bool
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || status != exit {
		t.Fatalf("check: exit status %d\n%s%s", status, out, log)
	}
	var bad, all []string
	for _, f := range found.Checks {
		if !f.OK {
			bad = append(bad, f.Name)
		}
		if !f.OK || f.Warning {
			all = append(all, f.Name)
			if f.Cure == "" {
				t.Errorf("check: no cure for %s: %s", f.Name, f.Detail)
			}
		}
	}
	if strings.Join(bad, " ") != wrong || strings.Join(all, " ") != told {
		t.Errorf("check: got %v wrong of %v, want %s of %s\n%s", bad, all, wrong, told, out)
	}
}

// passes works the table off without a lock.
func (s *site) passes(url string) {
	s.t.Helper()
	ctx := s.t.Context()
	db, err := tabledb.Open(ctx, postgres.Dialect, url, tabledb.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	status := func(text string) mapping.State { return mapping.State{Values: []mapping.Value{{Text: text}}} }
	store, err := table.New(ctx, db, mapping.Mapping{
		Schema: s.own, Name: "BACKLOG", ID: []string{"id"}, Status: "status", Inserted: mapping.Time{Column: "date_inserted"},
		New: status("NEW"), Error: status("ERROR"), Success: status("SUCCESS"),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now()
	if err := store.Prove(ctx, now); err != nil {
		s.t.Fatal(err)
	}
	e := &backlog.Engine{
		Store: store, Concurrency: 8, Now: time.Now,
		Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil }),
	}
	if r, err := e.Pass(ctx, backlog.Pass{MaxAge: 24 * time.Hour, Widest: true, Now: now}); err != nil || r.Succeeded != 80 || r.Conflicts > 0 {
		s.t.Errorf("a pass: %+v, %v", r, err)
	}
	if n := s.count("SUCCESS"); n != 80 {
		s.t.Errorf("%d of 80 records are SUCCESS", n)
	}
}

// sessions makes the two settings by which a pooler serves the program: those of the role, and the pooler's,
// which it returns.
func (s *site) sessions() string {
	s.t.Helper()
	for _, set := range []string{"statement_timeout = '60s'", "lock_timeout = '2s'", "row_security = off"} {
		s.mustExec("ALTER ROLE " + s.own + " SET " + set)
	}
	return "[users]\n" + s.own + " = pool_mode=session"
}

// A daemon waits while the server behind its pooler is away, whatever the pooler says of it.
func TestPostgresAwayBehindPooler(t *testing.T) {
	t.Parallel()
	s := newPooled(t)
	p := newProxy(t, net.JoinHostPort(s.server.Hostname(), cmp.Or(s.server.Port(), "5432")))
	s.behind("a", s.poolerOf(p.addr(), "server_login_retry = 1\nquery_wait_timeout = 1\n"+s.sessions()))
	d := s.start("run", "--config", "a.yaml")
	d.says(`"msg":"leading"`)
	p.stall(true) // so that the pooler's login hangs: if it were refused, chance would choose between two errors
	p.cut()
	for _, words := range []string{"server conn crashed?", "query_wait_timeout"} {
		d.says("the pooler in front of the PostgreSQL server ended the connection: " + words)
	}
	p.stall(false)
	if !eventually(func() bool { return s.count("SUCCESS") == 80 }) {
		t.Fatalf("not all is done:\n%s", d.log)
	}
	d.signal(syscall.SIGTERM)
	d.ends()
	s.judge(80)
}

// TestPostgresPoolerOfSessions: the cures that are named do cure.
func TestPostgresPoolerOfSessions(t *testing.T) {
	t.Parallel()
	s := newPooled(t)
	s.behind("a", s.pooler(s.sessions()))
	wantFindings(t, s, 0, "", "")
	d := s.start("run", "--config", "a.yaml")
	d.says(`"msg":"leading"`)
	if !eventually(func() bool { return s.count("SUCCESS") > 0 }) {
		t.Fatalf("it does nothing:\n%s", d.log)
	}
	if status, out, log := s.run("once", "--config", "a.yaml", "--max-age", "1d"); status != 75 || out != "" {
		t.Errorf("a pass beside the daemon's: exit status %d\n%s%s", status, out, log)
	}
	if !eventually(func() bool { return s.count("SUCCESS") == 80 }) {
		t.Fatalf("not all is done:\n%s", d.log)
	}
	d.signal(syscall.SIGTERM)
	d.ends()
	s.judge(80)
}

// TestPostgresPoolerRefuses: what the URL asks for and the pooler does not pass
// on is named.
func TestPostgresPoolerRefuses(t *testing.T) {
	t.Parallel()
	s := newPooled(t)
	s.behind("a", s.pooler("")+"&search_path="+s.own)
	status, out, log := s.run("status", "--config", "a.yaml")
	const why = " is a pooler that refuses a parameter of the URL: unsupported startup parameter: search_path; remove it from the URL (a schema can be named by table.schema), or let the pooler pass it on\n"
	if status != 1 || out != "" || !strings.HasSuffix(log, why) {
		t.Errorf("exit status %d\n%s%s", status, out, log)
	}
}
