package cmd

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// levelRow is a line of a table of docs/operating.md: a level and the texts that have it.
	levelRow = regexp.MustCompile("(?m)^\\| ([A-Z]+)(?:, [^|]*)? \\| (`[^|]*`) \\|")
	codeSpan = regexp.MustCompile("``(.+?)``|`([^`]+)`")
)

// The page has every message that the program logs at WARN or ERROR, with its level, and
// tells of no message that is not logged.
func TestLevelsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	logged, told := loggedTexts(t), make(map[string]bool)
	for _, row := range levelRow.FindAllStringSubmatch(string(page), -1) {
		for _, m := range codeSpan.FindAllStringSubmatch(row[2], -1) {
			text := m[1] + m[2]
			told[text+" "+row[1]] = true
			if !logged[text+" "+row[1]] && !logged[text+" "] {
				t.Errorf("nothing logs %q at %s, which the page tells", text, row[1])
			}
		}
	}
	for text := range logged {
		if level := text[strings.LastIndex(text, " ")+1:]; (level == "WARN" || level == "ERROR") && !told[text] {
			t.Errorf("the page does not tell of %q", text)
		}
	}
}

// loggedTexts returns what the sources log, each with its level behind it. A text that
// stands elsewhere in the package logging has none: the code works it out.
func loggedTexts(t *testing.T) map[string]bool {
	t.Helper()
	texts := make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		fixed := make(map[ast.Expr]bool)
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && !fixed[text] && filepath.Base(filepath.Dir(path)) == "logging" {
				texts[constant([]ast.Expr{text}, 0)+" "] = true
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch name := method.Sel.Name; name {
			case "Debug", "Info", "Warn", "Error":
				if text := constant(call.Args, 0); text != "" {
					texts[text+" "+strings.ToUpper(name)] = true
					fixed[call.Args[0]] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// constant returns the text of the n-th argument, empty if that is no text. A server's
// name is "database", and what else varies in it "…".
func constant(args []ast.Expr, n int) string {
	if n >= len(args) {
		return ""
	}
	switch x := args[n].(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.Ident:
		if x.Name == "what" {
			return "database"
		}
	case *ast.SelectorExpr:
		if x.Sel.Name == "Server" {
			return "database"
		}
	case *ast.BinaryExpr:
		if left := constant([]ast.Expr{x.X}, 0); left != "" {
			return left + cmp.Or(constant([]ast.Expr{x.Y}, 0), "…")
		}
	}
	return ""
}
