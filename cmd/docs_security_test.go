package cmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// heldBy is a reference to tests, in backquotes.
	heldBy = regexp.MustCompile(`^([\w/.-]+_test\.go): (Test\w+(?:, Test\w+)*)$`)
	// heldByScript is one to a script of TestScript.
	heldByScript = regexp.MustCompile(`^testdata/script/\w+\.txtar$`)
	codeOnPage   = regexp.MustCompile("`([^`]+)`")
)

// Each test that docs/security.md names exists, and each row of a table of claims names one.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	claims, isClaim := 0, false
	for line := range strings.Lines(string(page)) {
		n := namedTests(t, line)
		switch {
		case strings.HasSuffix(line, "| held by |\n"):
			isClaim = true
		case !strings.HasPrefix(line, "|"):
			isClaim = false
		case isClaim && !strings.HasPrefix(line, "| ---"):
			claims++
			if n == 0 {
				t.Errorf("no test holds this: %s", line)
			}
		}
	}
	if claims < 30 {
		t.Errorf("the page has %d claims", claims)
	}
}

// namedTests returns how many tests a line names. It fails for each that does not exist.
func namedTests(t *testing.T, line string) (n int) {
	t.Helper()
	for _, span := range codeOnPage.FindAllStringSubmatch(line, -1) {
		text := span[1]
		reference := heldBy.FindStringSubmatch(text)
		switch {
		case reference != nil:
			source, err := os.ReadFile(filepath.Join("..", reference[1]))
			if err != nil {
				t.Error(err)
			}
			for name := range strings.SplitSeq(reference[2], ", ") {
				n++
				if !strings.Contains(string(source), "\nfunc "+name+"(") {
					t.Errorf("%s has no %s", reference[1], name)
				}
			}
		case heldByScript.MatchString(text):
			n++
			if _, err := os.Stat(filepath.Join("..", text)); err != nil {
				t.Error(err)
			}
		case strings.Contains(text, "_test.go") || strings.Contains(text, ".txtar"):
			t.Errorf("this is no reference to a test: %s", text)
		}
	}
	return n
}
