package table_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

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
	for _, page := range []string{"../../docs/go.md", "../../README.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := goBlock.FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no Go", page)
		}
		for _, b := range blocks {
			if !strings.Contains(all, unindented(string(b[1]))) {
				t.Errorf("%s: this is in no example:\n%s", page, b[1])
			}
		}
	}
}
