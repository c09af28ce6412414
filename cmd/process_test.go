package cmd_test

import (
	"bytes"
	"cmp"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"backlog/internal/testkit"
)

// A shop is a folder with a configuration and a database.
type shop struct {
	t       *testing.T
	dir     string
	program string   // what to run, if not ours
	env     []string // beside what every process gets
	sys     *syscall.SysProcAttr
	unread  bool // nobody reads what daemons log
}

// newShop returns a shop in a folder of its own. The files are a configuration
// schedule.yaml and whatever else is wanted, such as handlers *.sh.
func newShop(t *testing.T, files map[string]string) *shop {
	t.Helper()
	s := &shop{t: t, dir: t.TempDir()}
	for name, text := range files {
		s.write(name, text)
	}
	return s
}

func (s *shop) path(name string) string { return filepath.Join(s.dir, name) }

func (s *shop) write(name, text string) {
	s.t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasSuffix(name, ".sh") {
		mode = 0o755
	}
	if err := os.WriteFile(s.path(name), []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

// read returns a file's text, empty if there is none.
func (s *shop) read(name string) string {
	text, err := os.ReadFile(s.path(name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *shop) command(args ...string) *exec.Cmd {
	c := exec.Command(cmp.Or(s.program, beside), args...)
	c.Dir = s.dir
	c.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
		"HOME=" + s.path("home"), "XDG_STATE_HOME=" + s.path("state"), "TZ=UTC",
	}, s.env...)
	c.SysProcAttr = s.sys
	return c
}

// run runs the program to its end.
func (s *shop) run(args ...string) (status int, out, log string) {
	s.t.Helper()
	var o, l bytes.Buffer
	c := s.command(args...)
	if s.program == "" {
		c.Path = released
	}
	c.Stdout, c.Stderr = &o, &l
	if err := c.Run(); c.ProcessState == nil {
		s.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), o.String(), l.String()
}

// mustRun runs the program to its end, which is to be a good one.
func (s *shop) mustRun(args ...string) (out string) {
	s.t.Helper()
	status, out, log := s.run(args...)
	if status != 0 {
		s.t.Fatalf("backlog %s: exit status %d\n%s%s", strings.Join(args, " "), status, out, log)
	}
	return out
}

// sql runs statements.
func (s *shop) sql(statements ...string) {
	s.t.Helper()
	db := s.open()
	defer db.Close()
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
	}
}

func (s *shop) open() *sql.DB {
	s.t.Helper()
	db, err := openDB(s.path("backlog.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

// rows returns a query's rows.
func (s *shop) rows(text string) string {
	s.t.Helper()
	db := s.open()
	defer db.Close()
	rows, err := query(db, text)
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	return rows
}

// A daemon is a program that runs beside the test.
type daemon struct {
	t   *testing.T
	cmd *exec.Cmd
	log *testkit.Buffer
	end chan struct{}
}

// start starts the program; the test's end is its own.
func (s *shop) start(args ...string) *daemon {
	s.t.Helper()
	d := &daemon{s.t, s.command(args...), new(testkit.Buffer), make(chan struct{})}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if s.unread {
		_, d.cmd.Stderr = fullPipe(s.t)
	}
	if err := d.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		d.cmd.Wait()
		close(d.end)
	}()
	s.t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.end
	})
	return d
}

func (d *daemon) signal(sig os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
}

// says waits until the program's output holds the text.
func (d *daemon) says(text string) {
	d.t.Helper()
	if !eventually(func() bool { return strings.Contains(d.log.String(), text) }) {
		d.t.Fatalf("it does not say %q:\n%s", text, d.log)
	}
}

// ends waits until the program has ended well.
func (d *daemon) ends() {
	d.t.Helper()
	if !eventually(d.hasEnded) {
		d.t.Fatalf("it does not end:\n%s", d.log)
	}
	if status := d.cmd.ProcessState.ExitCode(); status != 0 {
		d.t.Fatalf("exit status %d:\n%s", status, d.log)
	}
}

func (d *daemon) hasEnded() bool {
	select {
	case <-d.end:
		return true
	default:
		return false
	}
}
