package cmd_test

import "testing"

// TestRunWaitsForARight: a daemon that may not write says so, handles nothing, and goes on
// when the right is granted.
func TestRunWaitsForARight(t *testing.T) {
	t.Parallel()
	onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
		right := meddlings[0]
		s := newSite(t, kind, map[string]string{"handler.sh": slowHandler})
		kind.user(s)
		s.meddle(right.before)
		s.meddle(right.harm)
		s.configure("a", nil, handling)
		s.fillNew(3)
		d := s.start("run", "--config", "a.yaml")
		d.says(right.error)
		if deeds := s.deeds("handled.log"); len(deeds) > 0 {
			t.Errorf("it has handled %v", deeds)
		}
		s.meddle(right.cure)
		if !eventually(func() bool { return s.count("SUCCESS") == 3 }) {
			t.Fatalf("it does not go on:\n%s", d.log)
		}
	})
}

// TestLeaderWaitsForTheRightToConnect: a leader whose user may no longer connect does not
// end, and leads again when the user may.
func TestLeaderWaitsForTheRightToConnect(t *testing.T) {
	t.Parallel()
	s := newSite(t, onMySQL, map[string]string{"handler.sh": slowHandler}) // PostgreSQL would take it from all databases' tests
	onMySQL.user(s)
	s.configure("a", nil, handling)
	d := s.start("run", "--config", "a.yaml")
	d.says(`"msg":"leading"`)
	s.mustExec("REVOKE SELECT, UPDATE ON " + s.own + ".* FROM " + s.own)
	s.endSessions()
	d.says(`"msg":"the leader lock cannot be requested, waiting","error":"Access denied`)
	s.mustExec("GRANT SELECT, UPDATE ON " + s.own + ".* TO " + s.own)
	s.fillNew(3)
	if !eventually(func() bool { return s.count("SUCCESS") == 3 }) {
		t.Fatalf("it does not go on:\n%s", d.log)
	}
}

// TestPostgresRightsThatAreMissing: who lacks them is told which, though nothing
// can be read yet, and with just those passes work.
func TestPostgresRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	s := newSite(t, onPostgres, map[string]string{"handler.sh": slowHandler})
	onPostgres.user(s)
	s.mustExec(`REVOKE ALL ON "BACKLOG" FROM ` + s.own)
	s.mustExec(`GRANT SELECT (id) ON "BACKLOG" TO ` + s.own)
	s.configure("a", nil, handling)
	s.fillNew(3)
	if status, out, log := s.run("once", "--max-age", "1d", "--config", "a.yaml"); status != 1 || s.count("NEW") != 3 {
		t.Errorf("without rights: exit status %d\n%s%s", status, out, log)
	}
	status, grants, log := s.run("check", "--sql", "--config", "a.yaml")
	if want := `GRANT SELECT, UPDATE ("status") ON "` + s.own + `"."BACKLOG" TO "` + s.own + "\";\n"; status != 1 || grants != want {
		t.Fatalf("check --sql: exit status %d\n%s%s\nwant %s", status, grants, log, want)
	}
	s.mustExec(grants)
	s.mustRun("once", "--max-age", "1d", "--config", "a.yaml")
	s.judge(3)
}
