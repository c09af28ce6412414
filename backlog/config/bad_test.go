package config_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"backlog/backlog/config"
	"backlog/internal/testkit"
)

// badFiles holds, for files of testdata named for the rule they break, all the
// errors, without the file's name.
type badFiles map[string][]string

// allBad are the tables of all such files.
func allBad() []badFiles {
	return []badFiles{badYAML, badValues, badTables, badHandlers, badSources, badPolicies, badTiers, badWatched}
}

func TestBad(t *testing.T) {
	for _, files := range allBad() {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			t.Run(name, func(t *testing.T) {
				c, err := load(t, name+".yaml")
				if c != nil || err == nil {
					t.Fatalf("got %+v, error %v", c, err)
				}
				got := strings.Split(err.Error(), "\n")
				want := slices.Clone(files[name])
				for i := range want {
					want[i] = name + ".yaml:" + want[i]
				}
				if !slices.Equal(got, want) {
					t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
				}
			})
		}
	}
}

// TestEveryFileIsTested finds files of testdata that no test reads.
func TestEveryFileIsTested(t *testing.T) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".yaml")
		if strings.HasPrefix(name, "ok-") && ok {
			continue
		}
		tested := slices.ContainsFunc(allBad(), func(files badFiles) bool { return files[name] != nil })
		if !tested {
			t.Errorf("%s is in none of the tables", e.Name())
		}
	}
}

// TestDatabaseStaysSecret breaks files in ways that touch the database's URL.
func TestDatabaseStaysSecret(t *testing.T) {
	const list = "\ntiers: [{max_age: 1d, every: 5m}]\n"
	for _, text := range []string{
		"database: [postgres://u:hunter2@h/d]" + list,
		"database: {postgres://u:hunter2@h/d: x}" + list,
		"database:\n  postgres://u:hunter2@h/d: x" + list,
		"database: postgres://u:hunter2@h/d: x" + list,
		"database: !!int postgres://u:hunter2@h/d" + list,
		"database: \"postgres://u:hunter2\\0@h/d\"" + list,
		"database: postgres://u:${hunter2@h/d" + list,
		"database: postgres://u:${NONE}hunter2@h/d" + list,
		"database: *hunter2" + list,
		"database: @hunter2" + list,
		"database: \"\\hunter2\"" + list,
		"database postgres://u:hunter2@h/d" + list,
		"database=postgres://u:hunter2@h/d",
		"database=postgres://u:hunter2@h/d: x" + list,
		"postgres://u:hunter2@h/d: x" + list,
		"postgres://u:hunter2@h/d: x\npostgres://u:hunter2@h/d: y" + list,
		"- postgres://u:hunter2@h/d",
		"{database: postgres://u:a,hunter2,hunter2, tiers: []}",
		"{database: postgres://u:a,hunter2@h/d, tiers: []}",
		"{database: postgres://h/d?password=a,hunter2, tiers: []}",
		"database: a\ndatabase: hunter2" + list,
	} {
		_, err := config.Load(strings.NewReader(text), "s.yaml", lookup, all)
		if err == nil {
			t.Errorf("%q: no error", text)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTooLarge reads more than any configuration can be.
func TestTooLarge(t *testing.T) {
	_, err := config.Load(strings.NewReader(strings.Repeat("#\n", 1<<20)), "s.yaml", lookup, all)
	testkit.Equal(t, "error", err.Error(), "s.yaml:1: larger than 1 MiB; this is hardly a configuration")
}

// TestLargeSyntaxError breaks a large file near its start, where looking for
// the line is not worth the time.
func TestLargeSyntaxError(t *testing.T) {
	text := "handler:\n  exec: ./a: b\n" + strings.Repeat("# a comment\n", 50_000)
	_, err := config.Load(strings.NewReader(text), "s.yaml", lookup, all)
	if err == nil || !strings.HasPrefix(err.Error(), "s.yaml:2: one colon too many;") {
		t.Errorf("got %v", err)
	}
}
