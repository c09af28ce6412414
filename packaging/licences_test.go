package packaging_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backlog/internal/testkit"
)

var (
	linked  = regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`)
	heading = regexp.MustCompile(`(?m)^={80}\n(\S+) (\S+): .+\n={80}\n`)
	legal   = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)`)
)

// The file has the licences of just what is linked into the program.
func TestLicences(t *testing.T) {
	command(t, "..", "make", "licences")
	wantLicences(t, "../bin/backlog", "../bin/THIRD_PARTY_LICENSES")
}

// wantLicences compares the modules of a program with the headings of a file, and each licence in
// the root of a module with its text.
func wantLicences(t *testing.T, program, file string) {
	t.Helper()
	golang := cmp.Or(os.Getenv("GO"), "go")
	info := command(t, ".", golang, "version", "-m", program)
	first, _, _ := strings.Cut(info, "\n")
	_, version, _ := strings.Cut(first, ": ")
	want := []string{"std " + version}
	folders := []string{strings.TrimSpace(command(t, "..", golang, "env", "GOROOT"))}
	for _, m := range linked.FindAllStringSubmatch(info, -1) {
		want = append(want, m[1]+" "+m[2])
		folders = append(folders, strings.TrimSpace(command(t, "..", golang, "list", "-m", "-f", "{{.Dir}}", m[1])))
	}
	text := testkit.ReadFile(t, file)
	var got []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		got = append(got, m[1]+" "+m[2])
	}
	testkit.Equal(t, "the modules with a licence", slices.Compact(got), want)
	for i, folder := range folders {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, f := range files {
			if f.IsDir() || !legal.MatchString(f.Name()) || filepath.Ext(f.Name()) == ".go" {
				continue
			}
			found++
			if own := strings.TrimSpace(testkit.ReadFile(t, filepath.Join(folder, f.Name()))); own == "" || !strings.Contains(text, own) {
				t.Errorf("%s of %s is not in %s", f.Name(), want[i], file)
			}
		}
		if found == 0 {
			t.Errorf("%s has no licence", want[i])
		}
	}
}
