package cmd_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A database that another program keeps to itself when we start is waited for.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"DELETE", "WAL"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, map[string]string{
				"schedule.yaml": "handler: {exec: ['true']}\nstate: none\nlog: {format: json}\ntiers: [{max_age: 1d, every: 1h}]\n",
			})
			s.mustRun("init", "--create-table")
			s.sql("INSERT INTO BACKLOG (id) VALUES (1)")
			db := s.open()
			defer db.Close()
			for _, text := range []string{"PRAGMA journal_mode = " + mode, "BEGIN EXCLUSIVE"} {
				if _, err := db.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			run, stoppedRun := s.start("run"), s.start("run")
			all := []*daemon{run, stoppedRun}
			var once, stoppedOnce, textOnce *daemon
			if mode == "DELETE" { // with WAL a pass needs nothing but to read at its start
				once, stoppedOnce = s.start("once", "--max-age", "1d", "--json"), s.start("once", "--max-age", "1d", "--json")
				textOnce = s.start("once", "--max-age", "1d")
				all = append(all, once, stoppedOnce, textOnce)
			}
			for _, d := range all {
				d.says(`"level":"ERROR","msg":"waiting for the database"`)
			}

			// Who is stopped meanwhile ends well.
			stoppedRun.signal(syscall.SIGTERM)
			stoppedRun.ends()
			stoppedRun.says(`"msg":"stopped"`)
			if stoppedOnce != nil {
				stoppedOnce.signal(os.Interrupt)
				stoppedOnce.ends()
				stoppedOnce.says(`"selected":0,"succeeded":0,`)
				stoppedOnce.says(`"stopped":"signal",`)
				textOnce.signal(os.Interrupt)
				textOnce.ends()
				textOnce.says("1d: 0 records selected in 0s; stopped by signal")
			}

			run.signal(syscall.SIGHUP) // to reload is no reason to end, nor to wait no more
			if _, err := db.Exec("COMMIT"); err != nil {
				t.Fatal(err)
			}
			if once != nil {
				once.ends()
				once.says(`"selected":1,"succeeded":1,`)
			}
			run.says(`"level":"WARN","msg":"the database is back"`)
			run.says(`"msg":"leading"`)
			run.says(`"msg":"configuration reloaded"`)
			run.signal(syscall.SIGTERM)
			run.ends()
			for _, d := range all {
				if n := strings.Count(d.log.String(), "waiting for the database"); n != 1 {
					t.Errorf("it says %d times that it waits:\n%s", n, d.log)
				}
			}
		})
	}
}

// Whoever reads what the program says may end: the records are worked off all
// the same. Handlers do not inherit that: yes ends silently when head does.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"once --max-age 1d", "run"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, map[string]string{
				"schedule.yaml": "handler: {exec: [./handler.sh], concurrency: 1}\nstate: none\ntiers: [{max_age: 1d, every: 1s}]\n",
				"handler.sh":    "#!/bin/sh\nyes 2>>yes.log | head -n 1 >/dev/null\nexit 1\n",
			})
			s.mustRun("init", "--create-table")
			s.sql("INSERT INTO BACKLOG (id) VALUES (1), (2), (3)")
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			c := s.command(strings.Fields(args)...)
			c.Stderr, c.Stdout = writer, writer
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			reader.Close()
			writer.Close()
			settled := func() bool { return s.rows("SELECT count(*) FROM BACKLOG WHERE status = 'ERROR'") == "3\n" }
			if args == "run" {
				eventually(settled)
				c.Process.Signal(syscall.SIGTERM)
			}
			c.Wait()
			if !settled() {
				t.Errorf("not all is settled; it ended with %v", c.ProcessState)
			}
			// The report could not be written, but that is all.
			if want := map[bool]int{true: 0, false: 1}[args == "run"]; c.ProcessState.ExitCode() != want {
				t.Errorf("it ended with %v, want exit status %d", c.ProcessState, want)
			}
			if said := s.read("yes.log"); said != "" {
				t.Errorf("handlers inherit it: %s", said)
			}
		})
	}
}
