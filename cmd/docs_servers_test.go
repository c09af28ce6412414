package cmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// docBlock matches what is done on a page: SQL that the owner of the table
	// runs, or a command with what it prints.
	docBlock = regexp.MustCompile("(?ms)^```(sql|console)\n(.*?)^```$")
	// docName is the name of the page's database and of its user.
	docName = regexp.MustCompile(`\bshop\b`)
	docURL  = regexp.MustCompile(`\b[a-z]+://\S+`)
)

// TestDocsOfServers follows the examples of the page about servers, each on a
// real one: as the owner of the table, and as the user whom the owner makes.
func TestDocsOfServers(t *testing.T) {
	page, err := os.ReadFile("../docs/servers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## PostgreSQL\n")
	postgres, rest, _ := strings.Cut(rest, "\n## MySQL and MariaDB\n")
	mysql, _, found := strings.Cut(rest, "\n## ")
	if !found {
		t.Fatal("the sections are not there")
	}
	for _, x := range []struct {
		kind         *siteKind
		files, steps string
		end          string
	}{
		{onPostgres, postgres, postgres, "DROP OWNED BY shop; DROP ROLE shop"},
		{onMySQL, postgres + mysql, mysql, "DROP USER shop@'%'"},
	} {
		t.Run(x.kind.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, x.kind, nil)
			own := func(text string) string {
				return strings.ReplaceAll(docName.ReplaceAllString(text, s.own), `"public".`, `"`+s.own+`".`)
			}
			writeDocFiles(t, s.dir, []byte(x.files))
			s.useOwnURL()
			for _, m := range docBlock.FindAllStringSubmatch(x.steps, -1) {
				if m[1] == "sql" {
					s.runDocSQL(own(m[2]), own(x.end))
					continue
				}
				command, want, _ := strings.Cut(strings.TrimPrefix(m[2], "$ "), "\n")
				out, err := runDoc(s.dir, "export SHOP_PASSWORD=s3cret; "+command)
				if err != nil || out != own(want) {
					t.Errorf("%s: %v\n%s\nwant:\n%s", command, err, out, own(want))
				}
			}
		})
	}
}

// useOwnURL has the page's configuration lead to the database of the test.
func (s *site) useOwnURL() {
	s.t.Helper()
	u := *s.server
	u.User = nil
	scheme, rest, _ := strings.Cut(u.String(), "://")
	text := docURL.ReplaceAllLiteralString(s.read("schedule.yaml"), scheme+"://"+s.own+":${SHOP_PASSWORD}@"+rest)
	if err := os.WriteFile(filepath.Join(s.dir, "schedule.yaml"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// runDocSQL runs the statements, of which one makes a user, who is to go at the
// end. An index made CONCURRENTLY would wait for other tests.
func (s *site) runDocSQL(text, end string) {
	s.t.Helper()
	for _, one := range strings.Split(strings.TrimSpace(text), ";\n") {
		s.mustExec(strings.TrimSuffix(strings.ReplaceAll(one, " CONCURRENTLY", ""), ";"))
		if strings.HasPrefix(one, "CREATE USER") || strings.HasPrefix(one, "CREATE ROLE") {
			s.atEnd(end)
		}
		if strings.HasPrefix(one, "CREATE ROLE") { // the page's tables are in a schema that is open to all
			s.mustExec("GRANT USAGE ON SCHEMA " + s.own + " TO " + s.own)
		}
	}
}
