package cmd_test

import (
	"bytes"
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backlog/cmd"
)

// run runs the program in this process, for what needs none of its own.
func run(t *testing.T, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	if status := cmd.Main(args, strings.NewReader(""), &out, &err); status != 0 || err.Len() > 0 {
		t.Fatalf("backlog %s: exit status %d\n%s", strings.Join(args, " "), status, &err)
	}
	return out.String()
}

var (
	commandLine = regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`)
	flagLine    = regexp.MustCompile(`(?m)^ +(?:-[a-z], |    )(--[a-z-]+)`)
	flagInText  = regexp.MustCompile(`--[a-z][a-z-]*`)
	nameInText  = regexp.MustCompile(`["&(\t] ?backlog ([a-z]+)`) // as a command, not as the subject of a sentence
	substituted = regexp.MustCompile(`\$\(.*?\)`)
)

// helps returns the help text of every command, by its full name.
func helps(t *testing.T) map[string]string {
	all := make(map[string]string)
	var walk func(path ...string)
	walk = func(path ...string) {
		text := run(t, append(slices.Clone(path), "--help")...)
		all[strings.Join(path, " ")] = text
		_, list, _ := strings.Cut(text, "\nUsage:\n")
		list, _, _ = strings.Cut(list, "\nFlags:\n")
		for _, m := range commandLine.FindAllStringSubmatch(list, -1) {
			walk(append(slices.Clone(path), m[1])...)
		}
	}
	walk()
	return all
}

// statuses are the exit statuses of commands that have others than all have.
var statuses = map[string]string{
	"once": "  0   done; failed records are normal\n  1   could not do it\n  2   wrong usage or configuration\n" +
		"  3   --strict, and some record failed\n  75  another process is working on this table\n",
	"run":    "  0   stopped, with every outcome written\n  1   could not do it, or could not write every outcome before it ended\n  2   wrong usage or configuration\n",
	"status": "  0   done\n  1   could not do it\n  2   wrong usage or configuration\n  3   a flag says that this is a failure\n",
	"advise": "  0   done\n  1   could not do it\n  2   wrong usage or configuration\n  3   nothing is proposed, and --strict or --yaml is given\n",
	"check": "  0   nothing is wrong; --sample: the handler was called, whatever the outcome\n" +
		"  1   something is wrong, or the handler could not be called\n  2   wrong usage or configuration\n  75  --sample, and another process is working on this table\n",
}

// placeholder matches one of a duration, time, rate or file that is called otherwise.
var placeholder = regexp.MustCompile(`(?m)^ +--[a-z-]+ (AGE|LONG|LENGTH|START\S*|MOMENT|DATE|PATH|[0-9]\S*) `)

func TestHelp(t *testing.T) {
	all := helps(t)
	for _, name := range []string{"", "run", "once", "schedule", "status", "explain", "retry", "check", "init", "version", "help", "completion bash"} {
		if all[name] == "" {
			t.Errorf("there is no help for %q", name)
		}
	}
	if strings.Contains(all[""], "Additional Commands") {
		t.Error("a command is in no group")
	}
	for name, text := range all {
		t.Run("backlog "+name, func(t *testing.T) {
			text = substituted.ReplaceAllString(text, "")
			for _, want := range []string{
				"\nEXIT STATUS\n" + cmp.Or(statuses[name], "  0   done\n  1   could not do it\n  2   wrong usage or configuration\n"),
				"\nUsage:\n", "      --config FILE ", "      --database URL ", "      --table NAME ", "      --log-level LEVEL ", "      --log-format FORMAT ",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("it lacks %q", want)
				}
			}
			if _, end, _ := strings.Cut(text, "  2   wrong usage or configuration\n"); strings.TrimSpace(end) != "" && statuses[name] == "" {
				t.Errorf("it has other statuses: %s", end)
			}
			if m := placeholder.FindString(text); m != "" {
				t.Errorf("%s is none of DURATION, TIME, RATE and FILE", m)
			}
			if first, _, _ := strings.Cut(name, " "); first != "help" && first != "completion" {
				if _, err := os.Stat("help/" + cmp.Or(name, "backlog") + ".txt"); err != nil {
					t.Error(err)
				}
			}
			prose, _, _ := strings.Cut(text, "\nUsage:\n")
			flags := flagLine.FindAllStringSubmatch(text, -1)
			for _, m := range nameInText.FindAllStringSubmatch(prose, -1) {
				other, ok := all[m[1]]
				if !ok {
					t.Errorf("it mentions backlog %s, which does not exist", m[1])
				}
				flags = append(flags, flagLine.FindAllStringSubmatch(other, -1)...)
			}
			for _, flag := range flagInText.FindAllString(text, -1) {
				if !slices.ContainsFunc(flags, func(m []string) bool { return m[1] == flag }) {
					t.Errorf("it mentions %s, which does not exist", flag)
				}
			}
		})
	}
}

// What stands in the environment is the user's, and may be a password.
func TestHelpHidesEnvironment(t *testing.T) {
	for _, name := range []string{"CONFIG", "DATABASE", "TABLE", "LOG_LEVEL", "LOG_FORMAT"} {
		t.Setenv("BACKLOG_"+name, "s3cret")
	}
	for name, text := range helps(t) {
		if strings.Contains(text, "s3cret") {
			t.Errorf("backlog %s --help shows the environment:\n%s", name, text)
		}
	}
}
