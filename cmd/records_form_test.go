package cmd_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var (
	formSelects = regexp.MustCompile(`(?s)<select id="(\w+)".*?</select>`)
	formOptions = regexp.MustCompile(`<option[^>]*>([^<]*)</option>`)
)

// TestRecordsForm looks at what the form of the records offers, and asks for each of it. A
// table has no dead records without a dead status, none out of retries where these have
// no end, no lanes where failed records are not told from fresh ones, and other states under refresh.
func TestRecordsForm(t *testing.T) {
	t.Parallel()
	linear := []string{"attempt_count int", "in_retry int", "last_attempt_time text", "next_attempt_time text"}
	refresh := []string{"refresh_at text", "attempt_no int", "deadline_at text", "attempt_uid text", "started_at text", "disabled int DEFAULT 0", "disabled_reason text", "failing_since text"}
	const ages = "tiers: [{max_age: 1d, every: 5m}]\n"
	const bands = "band: every age, 1d, beyond; "
	for _, x := range []struct {
		name, yaml string
		columns    []string
		want       string
	}{
		{"plain", ages, nil, bands + "lane: both, fresh, failed; state: pending, unreadable"},
		{"dead", ages + "statuses: {dead: DEAD}\n", nil, bands + "lane: both, fresh, failed; state: pending, dead, unreadable"},
		{"one lane", ages + "statuses: {error: keep}\n", nil, bands + "state: pending, unreadable"},
		{"endless", ages + "policy: fibonacci\n", []string{"failures int", "last_failure text"}, bands + "lane: both, fresh, failed; state: pending, unreadable"},
		{"retries", ages + "policy: {linear: {interval: 1m, max_retries: 3}}\n", linear, bands + "lane: both, fresh, failed; state: pending, exhausted, unreadable"},
		{"never again", ages + "policy: none\n", nil, bands + "state: pending, exhausted, unreadable"},
		{"refresh", "tiers: [{every: 1m}]\npolicy: {refresh: {every: 2h, timeout: 1h}}\n", refresh, "state: waiting or running, waiting, running, disabled, finished"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite, nil)
			s.write("schedule.yaml", "database: sqlite:backlog.db\nstate: state.json\nhandler: {exec: ['false']}\nweb: {listen: \"127.0.0.1:0\"}\n"+x.yaml)
			for _, column := range x.columns {
				s.mustExec("ALTER TABLE BACKLOG ADD COLUMN " + column)
			}
			s.fillNew(1)
			d := s.start("web")
			d.says("pages are served")
			at := servedAt.FindStringSubmatch(d.log.String())[1]
			_, page := s.ask("GET", at, "/records", "")
			var got []string
			for _, field := range formSelects.FindAllStringSubmatch(page, -1) {
				var words []string
				for i, option := range formOptions.FindAllStringSubmatch(field[0], -1) {
					words = append(words, option[1])
					query := url.Values{field[1]: {option[1]}}.Encode()
					if status, answer := s.ask("GET", at, "/records?"+query, ""); i > 0 && status != 200 {
						t.Errorf("%s: %d %s", query, status, answer)
					}
				}
				got = append(got, field[1]+": "+strings.Join(words, ", "))
			}
			if form := strings.Join(got, "; "); form != x.want {
				t.Errorf("the form offers %s\nwant %s\n%s", form, x.want, page)
			}
			if strings.Contains(page, `name="cause"`) {
				t.Error("the form asks for a cause, and no column has errors")
			}
		})
	}
}
