package config_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/mapping"
	"backlog/internal/testkit"
)

func ExampleLoad() {
	file := strings.NewReader(`
database: postgres://me:${DB_PASSWORD}@localhost/shop
tiers:
  - {max_age: 1d, evry: 5m}
  - {max_age: 1 week, cron: "0 3 * * *", timezone: Europe/Berlin}
`)
	_, err := config.Load(file, "schedule.yaml", func(string) (string, bool) { return "", false }, config.Known{})
	fmt.Println(err)
	// Output:
	// schedule.yaml:2: database: the environment variable DB_PASSWORD is not set; set it, or write $${ if the characters themselves are meant
	// schedule.yaml:4: tiers[0].evry: unknown key; did you mean every?
}

func readExample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../schedule.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func loadText(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Load(strings.NewReader(text), "schedule.example.yaml", lookup, all)
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return c
}

// TestExampleFile reads the file that people start from. It shows the
// defaults: but for its handler it says nothing new.
func TestExampleFile(t *testing.T) {
	c := loadText(t, readExample(t))
	testkit.Equal(t, "tiers", len(c.Tiers.Tiers()), 6)
	testkit.Equal(t, "exec", c.Handler.Settings, any(&exec.Settings{Command: []string{"./deliver.sh"}, Reject: []int{65}, Skip: []int{75}}))

	want := mustLoad(t, "ok-tiers-only.yaml")
	want.Tiers, want.Handler.Settings, want.Handler.Kind = c.Tiers, c.Handler.Settings, "exec"
	for _, s := range []*mapping.State{&want.Table.New, &want.Table.Error, &want.Table.Success} {
		s.Explicit = true
	}
	testkit.Equal(t, "config", c, want)
}

// TestExampleFileDatabase: it shows each kind of database that there is.
func TestExampleFileDatabase(t *testing.T) {
	for _, kind := range []string{"sqlite:", "postgres://", "mysql://"} {
		if !strings.Contains(readExample(t), "\n#   "+kind) {
			t.Errorf("it shows no URL that begins with %s", kind)
		}
	}
}

// TestExampleFileOptions takes the # away from each optional setting of the
// example. Those that are not there "for instance" are the defaults.
func TestExampleFileOptions(t *testing.T) {
	text := readExample(t)
	base := loadText(t, text)
	option := regexp.MustCompile(`(?m)^( *)# ((?:- \{|[a-z_]+: [^#\n]*  +#|[a-z_]+: [0-9a-z{/]).*)$`)
	found := option.FindAllStringSubmatchIndex(text, -1)
	if len(found) < 20 {
		t.Fatalf("only %d options found", len(found))
	}
	for _, m := range found {
		line := text[m[4]:m[5]]
		c := loadText(t, text[:m[2]]+text[m[2]:m[3]]+line+text[m[5]:])
		if same := reflect.DeepEqual(c, base); same == strings.Contains(line, "for instance") {
			t.Errorf("%s: is the default: %v", line, same)
		}
	}
}

// TestExampleFileRefresh takes the # away from the refresh policy, with each of its
// options, in settings and in English, and from the handler that goes with it.
func TestExampleFileRefresh(t *testing.T) {
	_, text, _ := strings.Cut(readExample(t), "#   tiers: [{every: 1m}]\n")
	blocks := regexp.MustCompile(`(?m)^#   policy:\n(?:#    .*\n)+`).FindAllString(text, -1)
	handler := regexp.MustCompile(`(?m)^#   (handler: \{redis: .*\n)`).FindStringSubmatch(text)
	if len(blocks) != 2 || handler == nil {
		t.Fatalf("%d blocks, and the handler %q", len(blocks), handler)
	}
	policy := func(block string) config.Policy {
		block = regexp.MustCompile(`(?m)^#   `).ReplaceAllString(block, "")
		return loadText(t, block+"tiers: [{every: 1m}]\n"+handler[1]).Policy
	}
	short := func(settings string) config.Policy { return policy("policy: {refresh: {" + settings + "}}\n") }
	base := policy(blocks[0])
	testkit.Equal(t, "refresh", base, short("every: 2h, timeout: 1h"))
	testkit.Equal(t, "expr", policy(blocks[1]), short("every: 2h, timeout: 1h, intervals: [0, 5m]"))
	option := regexp.MustCompile(`(?m)^#       # (.*)$`)
	found := option.FindAllStringSubmatchIndex(blocks[0], -1)
	if len(found) != 7 {
		t.Errorf("%d options found", len(found))
	}
	for _, m := range found {
		line := blocks[0][m[2]:m[3]]
		same := reflect.DeepEqual(policy(blocks[0][:m[0]]+"#       "+line+blocks[0][m[1]:]), base)
		if same == strings.Contains(line, "for instance") {
			t.Errorf("%s: is the default: %v", line, same)
		}
	}
}

// TestExampleFileLongForm takes the # away from the long form of inserted.
func TestExampleFileLongForm(t *testing.T) {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(readExample(t)) {
		switch {
		case strings.HasPrefix(line, "  inserted:"):
			continue
		case strings.HasPrefix(line, "  # inserted:"):
			inside = true
		case inside && !strings.HasPrefix(line, "  #   "):
			inside = false
		}
		if inside {
			line = strings.Replace(line, "# ", "", 1)
		}
		b.WriteString(line)
	}
	testkit.Equal(t, "inserted", loadText(t, b.String()).Table.Inserted, mapping.Time{
		Column: "date_inserted", As: "unix_ms", Zone: testkit.Zone(t, "Europe/Berlin"), Null: "skip", Zero: "skip", Keep: true,
	})
}
