package cmd_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What somebody does to the table of a running daemon, and takes back. USER is
// the program's.
type meddling struct {
	name               string
	before, harm, cure map[*siteKind]string
	error              string // a part of what is said
	tick               string // what is said of each tick
	ofRows             bool   // each row refuses for itself, so that its handler is called again
}

var meddlings = []meddling{
	{
		name: "the right to write is revoked",
		before: map[*siteKind]string{
			onMySQL: "REVOKE UPDATE ON USER.* FROM USER; GRANT UPDATE ON USER.BACKLOG TO USER", // which sessions that are there notice
		},
		harm:  map[*siteKind]string{onPostgres: `REVOKE UPDATE ON "BACKLOG" FROM USER`, onMySQL: "REVOKE UPDATE ON USER.BACKLOG FROM USER"},
		cure:  map[*siteKind]string{onPostgres: `GRANT UPDATE ON "BACKLOG" TO USER`, onMySQL: "GRANT UPDATE ON USER.BACKLOG TO USER"},
		error: "let its owner grant ",
		tick:  "tick skipped",
	},
	{
		name: "a status is no longer taken",
		harm: map[*siteKind]string{
			onPostgres: `ALTER TABLE "BACKLOG" ADD CONSTRAINT never CHECK (status <> 'SUCCESS') NOT VALID`,
			onMySQL:    `ALTER TABLE "BACKLOG" MODIFY status ENUM('NEW', 'ERROR') NOT NULL`,
		},
		cure: map[*siteKind]string{
			onPostgres: `ALTER TABLE "BACKLOG" DROP CONSTRAINT never`,
			onMySQL:    `ALTER TABLE "BACKLOG" MODIFY status varchar(191) NOT NULL`,
		},
		error:  "statuses.success: ",
		tick:   "pass ended early",
		ofRows: true,
	},
	{
		name: "the table is renamed",
		harm: map[*siteKind]string{
			onPostgres: `ALTER TABLE "BACKLOG" RENAME TO away`,
			onMySQL:    "RENAME TABLE BACKLOG TO away",
		},
		cure: map[*siteKind]string{
			onPostgres: `ALTER TABLE away RENAME TO "BACKLOG"`,
			onMySQL:    "RENAME TABLE away TO BACKLOG",
		},
		error: "the table is not as it was",
		tick:  "tick skipped",
	},
	{
		name: "the table that a trigger writes to is renamed",
		before: map[*siteKind]string{
			onPostgres: `CREATE TABLE audit (id bigint); GRANT INSERT ON audit TO USER; ` +
				`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN INSERT INTO audit VALUES (NEW.id);RETURN NEW;END$$; ` +
				`CREATE TRIGGER noted AFTER UPDATE ON "BACKLOG" FOR EACH ROW EXECUTE FUNCTION note()`,
			onMySQL: "CREATE TABLE audit (id bigint); CREATE TRIGGER noted AFTER UPDATE ON BACKLOG FOR EACH ROW INSERT INTO audit VALUES (NEW.id)",
		},
		harm: map[*siteKind]string{
			onPostgres: "ALTER TABLE audit RENAME TO away",
			onMySQL:    "RENAME TABLE audit TO away",
		},
		cure: map[*siteKind]string{
			onPostgres: "ALTER TABLE away RENAME TO audit",
			onMySQL:    "RENAME TABLE away TO audit",
		},
		error:  "audit",
		tick:   "pass ended early",
		ofRows: true,
	},
}

func (s *site) meddle(texts map[*siteKind]string) {
	s.t.Helper()
	for text := range strings.SplitSeq(texts[s.kind], "; ") {
		if text != "" {
			s.mustExec(strings.ReplaceAll(text, "USER", s.own))
		}
	}
}

// startPatient starts a daemon on records whose handlers wait for the file go.
func (s *site) startPatient(records int) *daemon {
	s.t.Helper()
	s.write("handler.sh", patientHandler)
	s.write("a.yaml", fmt.Sprintf("database: %s\nstate: none\nlog: {format: json, level: debug}\n%s\n", s.url(nil), handling))
	s.fillNew(records)
	d := s.start("run", "--config", "a.yaml")
	if !eventually(func() bool { return len(s.deeds("handled.log")) == 4 }) {
		s.t.Fatalf("it hands out %d records:\n%s", len(s.deeds("handled.log")), d.log)
	}
	return d
}

// While what only a person can mend keeps outcomes from being written, nothing is handed out, and it is said once.
// When it is mended they are written, and no handler is called twice, unless single rows were refused.
func TestNothingIsHandedOutBeforeItIsMended(t *testing.T) {
	t.Parallel()
	for _, m := range meddlings {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
				const records, deeds = 1000, 2000 // each call begins and ends
				s := newSite(t, kind, nil)
				kind.user(s)
				s.meddle(m.before)
				d := s.startPatient(records)
				s.meddle(m.harm)
				s.write("go", "")
				d.says(m.error)
				most := 40 // deeds of handlers that run
				if m.ofRows {
					d.says(m.tick)
					most = 0 // the pass has ended
				}
				n := len(s.deeds("handled.log"))
				if !eventually(func() bool { return strings.Count(d.log.String(), m.tick) >= 4 }) {
					t.Fatalf("no tick comes:\n%s", d.log)
				}
				if more := len(s.deeds("handled.log")) - n; more > most || n >= deeds {
					t.Errorf("%d deeds, and %d more before it was mended", n, more)
				}
				said := regexp.MustCompile(`"level":"ERROR","msg":"(pass ended early|no record is dispatched).*"error":"[^"\\]*`).FindAllString(d.log.String(), -1)
				slices.Sort(said)
				if n := len(slices.Compact(slices.Clone(said))); n != len(said) {
					t.Errorf("want each reason said once:\n%s", d.log)
				}
				s.meddle(m.cure)
				if !eventually(func() bool { return s.count("SUCCESS") == records }) {
					t.Fatalf("it does not go on:\n%s", d.log)
				}
				if m.ofRows {
					d.says(`"msg":"passes can be finished again"`)
				}
				if n := len(s.deeds("handled.log")); n < deeds || n > deeds && !m.ofRows {
					t.Errorf("%d deeds for %d records:\n%s", n, records, d.log)
				}
			})
		})
	}
}
