package cmd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	docFile    = regexp.MustCompile("(?ms)`([a-z]+\\.(?:yaml|sh|py))`[^`]*\n```(?:yaml|sh|python)\n(.*?)^```$")
	docConsole = regexp.MustCompile("(?ms)^```console\n\\$ ([^\n]*)\n(.*?)^```$")
	docSQL     = regexp.MustCompile(`(?s)^sqlite3 (\S+) "(.*)"$`)
)

// Every command of the pages in docs is run, in a folder with the files that
// the page shows, and prints what the page says.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	program := build(t)
	for _, page := range pages {
		if filepath.Base(page) == "servers.md" {
			continue // TestDocsOfServers
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			writeDocFiles(t, dir, text)
			commands := docConsole.FindAllSubmatch(text, -1)
			if len(commands) == 0 {
				t.Fatal("no command")
			}
			for _, m := range commands {
				out, err := runDoc(dir, program, string(m[1]))
				if err != nil || out != string(m[2]) {
					t.Errorf("%s: %v\n%s\nwant:\n%s", m[1], err, out, m[2])
				}
			}
			// So are the pictures.
			svgs, _ := filepath.Glob(filepath.Join(dir, "*.svg"))
			for _, svg := range svgs {
				got, err := os.ReadFile(svg)
				want, werr := os.ReadFile(filepath.Join("../docs", filepath.Base(svg)))
				if err != nil || werr != nil || !bytes.Equal(got, want) {
					t.Errorf("%s is drawn differently (%v, %v)", filepath.Base(svg), err, werr)
				}
			}
			if strings.Contains(string(text), "--plot") && len(svgs) == 0 {
				t.Error("no picture was drawn")
			}
		})
	}
}

// writeDocFiles writes the files that a page shows to the folder. A script is
// executable.
func writeDocFiles(t *testing.T, dir string, page []byte) {
	t.Helper()
	for _, m := range docFile.FindAllSubmatch(page, -1) {
		mode := os.FileMode(0o644)
		if bytes.HasPrefix(m[2], []byte("#!")) {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, string(m[1])), m[2], mode); err != nil {
			t.Fatal(err)
		}
	}
}

// runDoc runs a command of a page in the folder and returns what it prints.
func runDoc(dir, program, command string) (string, error) {
	if m := docSQL.FindStringSubmatch(command); m != nil {
		return runSQL(filepath.Join(dir, m[1]), strings.ReplaceAll(m[2], `\"`, `"`))
	}
	c := exec.Command("sh", "-c", command)
	c.Dir, c.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	return string(out), err
}

// runSQL does what SQLite's own program does, which a machine need not have.
func runSQL(path, text string) (string, error) {
	db, err := openDB(path)
	if err != nil {
		return "", err
	}
	defer db.Close()
	out, err := query(db, text)
	return strings.ReplaceAll(out, "\t", "|"), err
}
