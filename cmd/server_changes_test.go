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
		error: "statuses.success: ",
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

// After a pass that ended for what only a person can mend nothing is handed out
// before that is mended, however often a tier ticks; it is said once, and so is
// that it is over.
func TestNothingIsHandedOutBeforeItIsMended(t *testing.T) {
	t.Parallel()
	for _, m := range meddlings {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
				const records, early = 1000, `"msg":"pass ended early"`
				s := newSite(t, kind, nil)
				kind.user(s)
				s.meddle(m.before)
				d := s.startPatient(records)
				s.meddle(m.harm)
				s.write("go", "")
				d.says(early)
				n := len(s.deeds("handled.log"))
				if !eventually(func() bool { return strings.Count(d.log.String(), early) >= 4 }) {
					t.Fatalf("no pass is tried again:\n%s", d.log)
				}
				if more := len(s.deeds("handled.log")) - n; more > 0 || n >= 2*records {
					t.Errorf("%d deeds, and %d more before it was mended", n, more)
				}
				said := regexp.MustCompile(`"level":"ERROR","msg":"pass ended early".*"error":"[^"\\]*`).FindAllString(d.log.String(), -1)
				slices.Sort(said)
				if n := len(slices.Compact(slices.Clone(said))); n != len(said) || !strings.Contains(d.log.String(), m.error) {
					t.Errorf("want each reason said once and one with %s:\n%s", m.error, d.log)
				}
				s.meddle(m.cure)
				if !eventually(func() bool { return s.count("SUCCESS") == records }) {
					t.Fatalf("it does not go on:\n%s", d.log)
				}
				d.says(`"msg":"passes can be finished again"`)
			})
		})
	}
}
