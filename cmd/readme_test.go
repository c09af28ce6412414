package cmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A comment of the README's behind a command.
var readmeComment = regexp.MustCompile(` +# .*$`)

// TestReadme follows the first schedule of the README word for word: the table,
// the files, and the commands, of which the daemon alone is left out.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## A first schedule on your own table\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("the section is not there")
	}
	program, dir := build(t), t.TempDir()
	writeDocFiles(t, dir, []byte(section))
	seen := make(map[string]bool)
	for line := range strings.Lines(section) {
		command := readmeComment.ReplaceAllString(strings.TrimSpace(line), "")
		name, _, _ := strings.Cut(command, " ")
		if !strings.HasPrefix(line, "    ") || name != "sqlite3" && name != "backlog" || command == "backlog run" {
			continue
		}
		seen[name] = true
		if out, err := runDoc(dir, program, command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	if len(seen) != 2 {
		t.Fatalf("there are commands of %v only", seen)
	}
	got, err := runSQL(filepath.Join(dir, "shop.db"), "SELECT city, state FROM orders ORDER BY city")
	if want := "Nowhere|failed\nParis|shipped\n"; err != nil || got != want {
		t.Errorf("the orders are\n%s(%v), want\n%s", got, err, want)
	}
	if shipped, err := os.ReadFile(filepath.Join(dir, "shipped.txt")); err != nil || !strings.HasPrefix(string(shipped), "order 1 is shipped: {") {
		t.Errorf("the handler wrote %q (%v)", shipped, err)
	}
}
