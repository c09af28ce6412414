package cmd_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	machineDates = regexp.MustCompile(`(datetime|value)="[^"]*"`)
	peoplesDates = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^<"),;]*`)
)

// retryColumns are the columns of the policy linear, and a moment that is no concern of passes.
var retryColumns = map[*siteKind][]string{
	onSQLite:   {"attempt_count int", "in_retry int", "last_attempt_time text", "next_attempt_time text", "eligible_at text", "expires_at text", "seen text"},
	onPostgres: {"attempt_count int", "in_retry boolean", "last_attempt_time timestamptz", "next_attempt_time timestamptz", "eligible_at timestamp", "expires_at timestamptz", "seen timestamptz"},
	onMySQL:    {"attempt_count int", "in_retry int", "last_attempt_time timestamp NULL", "next_attempt_time datetime NULL", "eligible_at datetime", "expires_at datetime", "seen timestamp NULL"},
}

// TestPagesAreInOneZone looks for dates on all pages that are not in the zone of the
// configuration: of records that wait, expire, have expired or are not eligible yet, their own
// columns, passes and a pause. Programs get what --json prints.
func TestPagesAreInOneZone(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Pacific/Kiritimati")
	if err != nil {
		t.Fatal(err)
	}
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, nil)
		s.write("schedule.yaml", "database: "+s.url(nil)+`
state: state.json
timezone: Pacific/Kiritimati
table: {eligible: eligible_at, expires: expires_at}
policy: {linear: {interval: 2h, max_retries: 3}}
handler: {exec: ['false']}
tiers: [{max_age: 1d, every: 5m}, {max_age: 7d, every: 96h}]
web: {listen: "127.0.0.1:0", actions: true, show: [date_inserted, seen, expires_at]}
`)
		if kind == onSQLite { // whose texts may be anything
			s.write("schedule.yaml", strings.Replace(s.read("schedule.yaml"), "seen, ", "", 1))
		}
		for _, column := range retryColumns[kind] {
			s.mustExec(`ALTER TABLE "BACKLOG" ADD COLUMN ` + column)
		}
		now := time.Now()
		at := func(d time.Duration) string { return now.Add(d).In(zone).Format(time.DateTime) }
		moment := func(d time.Duration) string { return now.Add(d).UTC().Format(time.DateTime) }
		if kind == onPostgres {
			at = func(d time.Duration) string { return moment(d) + "+00" }
		}
		insert := func(id int, status string, eligible, expires time.Duration) {
			s.mustExec(fmt.Sprintf(`INSERT INTO "BACKLOG" (id, status, date_inserted, attempt_count, eligible_at, expires_at, seen) VALUES (%d, '%s', '%s', 0, '%s', '%s', '%s')`,
				id, status, at(-time.Hour), now.Add(eligible).In(zone).Format(time.DateTime), at(expires), moment(-time.Hour)))
		}
		insert(1, "NEW", -time.Minute, 24*time.Hour)
		insert(2, "NEW", 3*time.Hour, 24*time.Hour)
		insert(3, "NEW", -time.Minute, -time.Minute)
		s.mustRun("once", "--max-age", "1d") // the first fails and waits
		d := s.start("run")
		d.says(`"msg":"leading"`)
		s.mustRun("pause", "--for", "1h")
		address := servedAt.FindStringSubmatch(d.log.String())[1]

		dates := 0
		for _, path := range []string{"/", "/records", "/record?id=1", "/record?id=2", "/record?id=3", "/passes", "/causes", "/schedule", "/records?state=unreadable"} {
			status, page := s.ask("GET", address, path, "")
			if status != 200 {
				t.Errorf("%s: %d %s", path, status, page)
			}
			for _, date := range peoplesDates.FindAllString(machineDates.ReplaceAllString(html.UnescapeString(page), ""), -1) {
				dates++
				if !strings.Contains(date, " +14") {
					t.Errorf("%s has the date %s", path, date)
				}
			}
			if i := strings.Index(page, "UTC"); i >= 0 {
				t.Errorf("%s: …%s", path, page[max(0, i-80):i+3])
			}
		}
		if dates < 60 {
			t.Errorf("only %d dates were found", dates)
		}
		_, page := s.ask("GET", address, "/record?id=1", "")
		if waits := "its next attempt is planned for " + time.Now().Add(2*time.Hour).In(zone).Format("2006-01-02"); kind != onMySQL && !strings.Contains(page, waits) {
			t.Errorf("want %q in the reason: %s", waits, page)
		}
		if seen := "<dd>" + now.Add(-time.Hour).In(zone).Format(time.DateTime) + " +14</dd>"; kind != onSQLite && !strings.Contains(html.UnescapeString(page), seen) {
			t.Errorf("want the moment %s: %s", seen, page)
		}
		_, answer := s.ask("GET", address, "/api/v1/explain?id=2", "")
		_, reason, _ := strings.Cut(s.mustRun("explain", "--json", "2"), `"reason":`)
		reason, _, _ = strings.Cut(reason, `,`)
		if !strings.Contains(reason, "UTC") || !strings.Contains(answer, reason) {
			t.Errorf("want the reason %s in %s", reason, answer)
		}
	})
}
