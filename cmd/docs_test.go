package cmd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

var (
	docFile  = regexp.MustCompile("(?ms)`([a-z]+\\.(?:yaml|sh|py))`[^`]*\n```(?:yaml|sh|python)\n(.*?)^```$")
	docFence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	docSQL   = regexp.MustCompile(`(?s)^sqlite3 (\S+) "(.*)"$`)
	// docTook is how long a pass took.
	docTook = regexp.MustCompile(`in \d+(\.\d+)?m?s\b`)
	// docState is where this machine keeps the state.
	docState = regexp.MustCompile(`that uses the file \S+`)
)

// docElsewhere names the test that runs a page's blocks of a language, where
// this one does not.
var docElsewhere = map[string]string{
	"go":      "TestPagesOfGo",
	"json":    "TestLinesPage",
	"mermaid": "a picture",
	"python":  "TestLinesPage, TestHTTPPage and TestRedisWorker",
	"sql":     "TestDocsOfServers and TestProgramOfPage",
}

// Every command on a page is run, in a folder with the files that the page
// shows, and prints what the page says. Every other piece of YAML is a valid
// part of a configuration.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, "../README.md") {
		name := strings.TrimPrefix(page, "../")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			named := writeDocFiles(t, dir, text)
			if bytes.Contains(text, []byte("shop.jsonl")) {
				if err := writePasses(filepath.Join(dir, "shop.jsonl"), "shop"); err != nil {
					t.Fatal(err)
				}
			}
			for _, m := range docFence.FindAllSubmatch(text, -1) {
				language, block := string(m[1]), string(m[2])
				switch {
				case language == "console" && name != "docs/servers.md": // TestDocsOfServers
					runDocBlock(t, dir, block)
				case language == "yaml" && strings.HasPrefix(block, "apiVersion: "):
					loadManifest(t, dir, block) // testdata/kubernetes knows their types
				case language == "yaml" && !named[block]:
					loadDocPart(t, dir, block)
				case language == "sh" && !named[block]:
					t.Errorf("this script has no name, so nothing runs it:\n%s", block)
				case language != "console" && language != "yaml" && language != "sh" && docElsewhere[language] == "":
					t.Errorf("a block of %q is run by no test:\n%s", language, block)
				}
			}
			comparePictures(t, dir, string(text))
		})
	}
}

// runDocBlock runs the commands of a block, each followed by what it prints.
func runDocBlock(t *testing.T, dir, block string) {
	t.Helper()
	for _, part := range strings.Split("\n"+strings.TrimSuffix(block, "\n"), "\n$ ")[1:] {
		command, want, printed := strings.Cut(part, "\n")
		if printed {
			want += "\n"
		}
		out, err := runDoc(dir, command)
		out = strings.NewReplacer(released, "/usr/bin/backlog", dir, "/srv/shop").Replace(out) // as on a page
		if err != nil || asDoc(out) != asDoc(want) {
			t.Errorf("%s: %v\n%s\nwant:\n%s", command, err, out, want)
		}
	}
}

// loadDocPart loads a piece of a configuration, completed by what it lacks.
func loadDocPart(t *testing.T, dir, block string) {
	t.Helper()
	whole := map[string]any{
		"table":    map[string]any{"name": "orders", "status": "state"},
		"statuses": map[string]any{"new": "open", "error": "failed", "success": "shipped", "dead": "lost"},
		"handler":  map[string]any{"exec": []string{"true"}},
		"tiers":    []any{map[string]any{"max_age": "1d", "every": "5m"}},
	}
	var part map[string]any
	if err := yaml.Unmarshal([]byte(block), &part); err != nil {
		t.Errorf("%v:\n%s", err, block)
		return
	}
	if policy, ok := part["policy"].(map[string]any); ok && policy["refresh"] != nil {
		whole["tiers"] = []any{map[string]any{"every": "1m"}}
	}
	show := "schedule --count 1"
	if part["source"] != nil {
		whole, show = map[string]any{}, "init --print"
	}
	for key, value := range part {
		whole[key] = value
	}
	text, err := yaml.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(text); err != nil {
		t.Errorf("%v:\n%s", err, block)
	}
	if err := os.WriteFile(filepath.Join(dir, "part.yaml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := runDoc(dir, docSecrets+" backlog "+show+" --config part.yaml"); err != nil {
		t.Errorf("%v: %s\n%s", err, out, block)
	}
}

// docSecrets are the variables that configurations on pages use.
const docSecrets = "TOKEN=t PASSWORD=p SHOP_PASSWORD=s API_TOKEN=a PING_KEY=k WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// loadManifest loads the configuration in a ConfigMap. A CronJob after that has the schedule
// of a crontab for it.
func loadManifest(t *testing.T, dir, block string) {
	t.Helper()
	var manifest struct {
		Kind string
		Data map[string]string
		Spec struct{ Schedule string }
	}
	if err := yaml.Unmarshal([]byte(block), &manifest); err != nil {
		t.Errorf("%v:\n%s", err, block)
		return
	}
	switch manifest.Kind {
	case "ConfigMap":
		loadDocPart(t, dir, manifest.Data["schedule.yaml"])
	case "CronJob":
		out, err := runDoc(dir, docSecrets+" backlog schedule --format crontab --config part.yaml")
		if err != nil || !strings.Contains(out, "\n"+manifest.Spec.Schedule+"  cd ") {
			t.Errorf("%v: the CronJob starts at %q, and the crontab is\n%s", err, manifest.Spec.Schedule, out)
		}
	}
}

// comparePictures compares what --plot has drawn with the page's pictures.
func comparePictures(t *testing.T, dir, text string) {
	t.Helper()
	svgs, _ := filepath.Glob(filepath.Join(dir, "*.svg"))
	for _, svg := range svgs {
		got, err := os.ReadFile(svg)
		want, werr := os.ReadFile(filepath.Join("../docs", filepath.Base(svg)))
		if err != nil || werr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is drawn differently (%v, %v)", filepath.Base(svg), err, werr)
		}
	}
	if strings.Contains(text, "--plot ") && strings.Contains(text, ".svg)") && len(svgs) == 0 {
		t.Error("no picture was drawn")
	}
}

// writeDocFiles writes the files that a page shows to the folder, scripts
// executable, and returns the blocks that were files.
func writeDocFiles(t *testing.T, dir string, page []byte) map[string]bool {
	t.Helper()
	named := make(map[string]bool)
	for _, m := range docFile.FindAllSubmatch(page, -1) {
		mode := os.FileMode(0o644)
		if bytes.HasPrefix(m[2], []byte("#!")) {
			mode = 0o755
		}
		named[string(m[2])] = true
		if strings.HasSuffix(string(m[1]), ".yaml") {
			if err := validate(m[2]); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, string(m[1])), m[2], mode); err != nil {
			t.Fatal(err)
		}
	}
	return named
}

// runDoc runs a command of a page in the folder and returns what it prints.
func runDoc(dir, command string) (string, error) {
	if m := docSQL.FindStringSubmatch(command); m != nil {
		return runSQL(filepath.Join(dir, m[1]), strings.ReplaceAll(m[2], `\"`, `"`))
	}
	c := exec.Command("sh", "-c", command)
	c.Dir = dir
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

// asDoc returns an output without what differs from run to run.
func asDoc(out string) string {
	return docState.ReplaceAllString(docTook.ReplaceAllString(out, "in 1s"), "that uses the file FILE")
}
