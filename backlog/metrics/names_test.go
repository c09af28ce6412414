package metrics_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// described returns what a scrape has of each metric: its kind, and its labels in order.
func described(t *testing.T) map[string]string {
	t.Helper()
	all, labels := make(map[string]string), regexp.MustCompile(`[{,]([a-z]+)="`)
	for line := range strings.Lines(busyWorld(t).scrape(t)) {
		if f := strings.Fields(line); f[0] == "#" {
			if f[1] == "TYPE" {
				all[f[2]] = f[3]
			}
			continue
		}
		name, _, _ := strings.Cut(strings.Fields(line)[0], "{")
		if all[name] == "" {
			name = name[:strings.LastIndexByte(name, '_')] // of a histogram
		}
		kind, _, _ := strings.Cut(all[name], " ")
		var list []string
		for _, m := range labels.FindAllStringSubmatch(line, -1) {
			if m[1] != "le" {
				list = append(list, m[1])
			}
		}
		slices.Sort(list)
		all[name] = strings.TrimSpace(kind + " " + strings.Join(list, " "))
	}
	return all
}

// The page describes each metric, with its kind and labels, and no other.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(backlog_\\w+)` \\| ([a-z]+) \\| ([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		list := strings.Fields(strings.NewReplacer("`", "", ",", " ").Replace(regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(m[3], "")))
		slices.Sort(list)
		got[m[1]] = strings.TrimSpace(m[2] + " " + strings.Join(list, " "))
	}
	want := described(t)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("docs/metrics.md: %s is %q, and described as %q", name, want[name], got[name])
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("docs/metrics.md describes %s, which does not exist", name)
		}
	}
}

// Dashboard and rules name only metrics that there are; the dashboard shows nearly all of them.
func TestNamesExist(t *testing.T) {
	known := described(t)
	for _, file := range []string{"grafana.json", "alerts.yaml", "testdata/alerts_test.yaml"} {
		text, err := os.ReadFile("../../packaging/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bbacklog_\w+`).FindAllString(string(text), -1) {
			if base := strings.TrimSuffix(name, "_bucket"); known[base] == "" || base != name && !strings.HasPrefix(known[base], "histogram") {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
		if file == "grafana.json" {
			if !json.Valid(text) {
				t.Error("grafana.json is no JSON")
			}
			for name := range known {
				if !strings.Contains(string(text), name) {
					t.Errorf("the dashboard shows nothing of %s", name)
				}
			}
		}
	}
}

// promtool agrees, where it is there.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not there: the rules are not tried")
		return
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "testdata/alerts_test.yaml"}} {
		c := exec.Command(promtool, args...)
		c.Dir = "../../packaging"
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, text)
		}
	}
	for name, scrape := range map[string]string{"start": newWorld(everything).scrape(t), "busy": busyWorld(t).scrape(t)} {
		c := exec.Command(promtool, "check", "metrics")
		c.Stdin = strings.NewReader(scrape)
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
