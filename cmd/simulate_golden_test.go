package cmd_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "renew the golden files from what the program prints")

const goldenWorkload = "--arrivals 60/h --poison 2% --success 95% --outage 6h+2h --outage 30h+30m --for 2d --seed 7"

// goldens are simulations whose every form is kept in a file.
var goldens = []struct {
	name  string
	forms string
	args  string
	last  string // an argument with blanks in it
}{
	{"life", "txt json", "--life --inserted 2026-03-28T11:00:00Z", ""},
	{"life-list", "txt json", "--life --inserted 2026-03-28T11:00:00Z --policy", "list: [0, 10m, 3h, 2d]"},
	{"attempts-fibonacci", "txt json", "--attempts 12 --policy fibonacci", ""},
	{"attempts-arctan", "txt json", "--attempts 8 --policy arctan", ""},
	{"attempts-exponential", "txt json", "--attempts 20 --seed 7 --policy", "exponential: {interval: 90s, base: 3, max_retries: 9}"},
	{"attempts-list", "txt json", "--attempts 20 --policy list", ""},
	{"workload", "txt json csv svg", goldenWorkload, ""},
	{"workload-call-time", "txt json csv svg", goldenWorkload + " --call-time 20s", ""},
	{"workload-down", "txt json", goldenWorkload + " --down 3h30m+2h --down 20h1m+4m", ""},
	{"compare", "txt json csv svg", goldenWorkload + " --compare", "progressive,fibonacci,arctan,list: [0, 1m, 5m],other.yaml"},
	{"diff", "txt json", goldenWorkload + " --diff other.yaml", ""},
	{"live", "txt json csv svg", "--live --now 2026-03-28T12:00:00Z --for 2d --assume outage=3h", ""},
	{"live-call-time", "txt json", "--live --now 2026-03-28T12:00:00Z --for 12h --call-time 90s --compare progressive,other.yaml", ""},
	{"live-chance", "txt json", "--live --now 2026-03-28T12:00:00Z --for 2d --assume p=0.3 --compare progressive,exponential,other.yaml", ""},
}

// machines are what the answers must not depend on.
var machines = [][]string{{"TZ=Asia/Kathmandu", "GOMAXPROCS=1"}, {"TZ=America/New_York", "GOMAXPROCS=8", "LANG=de_DE.UTF-8"}}

// The same question has the same answer, byte by byte, which is the one in
// testdata/golden. After a change that is meant to alter it,
//
//	go test ./cmd -run Golden -update
func TestSimulateGolden(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	for _, name := range []string{"schedule.yaml", "other.yaml"} {
		text, err := os.ReadFile("../testdata/golden/" + name)
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, string(text))
	}
	table, err := os.ReadFile("../testdata/golden/table.sql")
	if err != nil {
		t.Fatal(err)
	}
	s.sql(string(table))
	kept, err := filepath.Glob("../testdata/golden/simulate-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range goldens {
		drawn := strings.HasSuffix(c.forms, " svg") // with the text
		for _, form := range strings.Fields(strings.TrimSuffix(c.forms, " svg")) {
			name := "../testdata/golden/simulate-" + c.name + "."
			args := append([]string{"simulate"}, strings.Fields(c.args)...)
			if c.last != "" {
				args = append(args, c.last)
			}
			plot := c.name + ".svg"
			answers := []string{name + form}
			if form != "txt" {
				args = append(args, "--"+form)
			} else if drawn {
				args = append(args, "--plot", plot)
				answers = append(answers, name+"svg")
			}
			t.Run(c.name+"."+form, func(t *testing.T) {
				t.Parallel()
				s := &shop{t: t, dir: s.dir}
				for i, machine := range machines {
					s.env = machine
					got := s.mustRun(args...)
					for _, file := range answers {
						if strings.HasSuffix(file, "svg") {
							got = s.read(plot)
						}
						if *update && i == 0 {
							if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
								t.Fatal(err)
							}
						}
						if want, err := os.ReadFile(file); err != nil || got != string(want) {
							t.Errorf("backlog %s with %v: %v; the first line that differs from %s:\n%s", strings.Join(args, " "), machine, err, filepath.Base(file), firstDifference(got, want))
						}
					}
				}
			})
			kept = slices.DeleteFunc(kept, func(k string) bool { return slices.Contains(answers, k) })
		}
	}
	if len(kept) > 0 {
		t.Errorf("golden files that nothing is held against: %v", kept)
	}
}

func firstDifference(got string, want []byte) string {
	lines := bytes.Split(want, []byte("\n"))
	for i, line := range strings.Split(got, "\n") {
		if i >= len(lines) {
			return "got  " + line + "\nwant the end"
		}
		if line != string(lines[i]) {
			return "got  " + line + "\nwant " + string(lines[i])
		}
	}
	return "it ends too early"
}
