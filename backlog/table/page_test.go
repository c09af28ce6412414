package table_test

import (
	"bufio"
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backlog/internal/testkit"
)

var (
	goBlock  = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	sqlBlock = regexp.MustCompile("(?ms)^```sql\n(.*?)^```$")
)

// aProgram is what a block of Go begins with that is one by itself.
const aProgram = "package main\n"

// TestPagesOfGo: what the pages show of Go is part of examples, which are run.
func TestPagesOfGo(t *testing.T) {
	unindented := func(text string) string {
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			lines[i] = strings.TrimSpace(l)
		}
		return strings.Join(lines, "\n")
	}
	var examples []string
	for _, pattern := range []string{"../example*_test.go", "../*/example*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			examples = append(examples, unindented(string(text)))
		}
	}
	all := strings.Join(examples, "\n")
	for _, page := range []string{"../../docs/go.md", "../../docs/refresh.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := goBlock.FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no Go", page)
		}
		for _, b := range blocks {
			if !bytes.HasPrefix(b[1], []byte(aProgram)) && !strings.Contains(all, unindented(string(b[1]))) {
				t.Errorf("%s: this is in no example:\n%s", page, b[1])
			}
		}
	}
}

// The page's program is compiled and works off the page's table, saying what
// the page says, until it is stopped.
func TestProgramOfPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/go.md")
	if err != nil {
		t.Fatal(err)
	}
	code, schema := goBlock.FindSubmatch(page), sqlBlock.FindSubmatch(page)
	if code == nil || schema == nil || !bytes.HasPrefix(code[1], []byte(aProgram)) {
		t.Fatal("the page's first block of Go is no program, or it has none of SQL")
	}
	if tidy, err := format.Source(code[1]); err != nil || !bytes.Equal(tidy, code[1]) {
		t.Errorf("gofmt would change the program (%v)", err)
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	if err := os.WriteFile(source, code[1], 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	makeShop(t, filepath.Join(dir, "shop.db"), string(schema[1]))

	c := exec.CommandContext(t.Context(), program)
	c.Dir = dir
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		_, line, _ := strings.Cut(lines.Text(), " ") // the date
		_, line, _ = strings.Cut(line, " ")          // the time
		said.WriteString("    " + line + "\n")
		if strings.Contains(line, "pass ended") {
			c.Process.Signal(os.Interrupt)
			break
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the stopped program: %v", err)
	}
	if !strings.Contains(string(page), "\n\n"+said.String()+"\n") {
		t.Errorf("the page shows another output than:\n%s", said.String())
	}
}

// makeShop makes a database file.
func makeShop(t *testing.T, path, schema string) {
	t.Helper()
	db := testkit.OpenPool(t, ownDriver, "file:"+path)
	defer db.Close()
	if _, err := db.Exec(schema); err != nil {
		t.Fatal(err)
	}
}
