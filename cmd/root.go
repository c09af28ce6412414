// Package cmd is the command line: one file per command, each an options
// struct, its flags, and a run function that knows nothing of cobra. wire.go
// joins the parts of the program; nothing else knows all of them.
package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog/config"
)

// globals are the flags that all commands share, and the world around them.
type globals struct {
	Config    string
	Database  string
	Table     string
	LogLevel  string
	LogFormat string

	in       io.Reader
	out, err io.Writer
	unsaid   error // the first failed write to out

	flags *pflag.FlagSet // in which these are
}

func (g *globals) AddFlags(f *pflag.FlagSet) {
	g.flags = f
	// The environment stands between flag and file: it is the flag's default.
	env := func(name, otherwise string) string {
		return cmp.Or(os.Getenv("BACKLOG_"+name), otherwise)
	}
	f.StringVar(&g.Config, "config", env("CONFIG", config.DefaultFile), "read the configuration from `FILE` ($BACKLOG_CONFIG)")
	f.StringVar(&g.Database, "database", env("DATABASE", ""), "use the database at `URL` ($BACKLOG_DATABASE)")
	f.StringVar(&g.Table, "table", env("TABLE", ""), "use the table `NAME` ($BACKLOG_TABLE)")
	f.StringVar(&g.LogLevel, "log-level", env("LOG_LEVEL", ""), "log at `LEVEL` and above: debug, info, warn, error ($BACKLOG_LOG_LEVEL)")
	f.StringVar(&g.LogFormat, "log-format", env("LOG_FORMAT", ""), "log as `FORMAT`: auto, text, json ($BACKLOG_LOG_FORMAT)")
	for _, name := range []string{"database", "config", "table", "log-level", "log-format"} {
		f.Lookup(name).DefValue = map[string]string{"config": config.DefaultFile}[name] // never print the environment's
	}
}

// Main runs the program with the given arguments and returns its exit status.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	// net/http says there what a server has sent unasked, which may be a secret
	// of ours. What matters to anybody comes back as an error.
	log.SetOutput(io.Discard)
	g := &globals{in: in, out: out, err: onScreen(err)}
	root := newRoot(g)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	if isCompletion(args) {
		plainUsages(root)
	}
	e := root.ExecuteContext(context.Background())
	if e == nil && g.unsaid != nil {
		e = ranError{g.unsaid}
	}
	if e == nil {
		return exitDone
	}
	// What cobra itself finds wrong is wrong usage.
	if ran, ok := e.(ranError); ok {
		e = ran.err
	} else {
		e = usageError{e}
	}
	if quiet := (quietError{}); !errors.As(e, &quiet) {
		complain(err, e)
	}
	return exitStatus(e)
}

func newRoot(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "backlog",
		Short: "Work off the pending records of a table, retrying the failed ones less and less often",
		Long: `backlog works off a table you already have: it hands every pending record to a
handler, writes the outcome back, and tries what failed again the more rarely
the older it is. The schedule says how often records up to which age are tried;
the table needs no columns for it.

Start with "backlog check", then "backlog once --max-age 1d", then "backlog run".` + exitStatusHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		Args:          noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		},
	}
	root.SetVersionTemplate(versionText())
	root.Flags().BoolP("version", "v", false, "print the version")
	g.AddFlags(root.PersistentFlags())
	root.AddCommand(newRun(g), newOnce(g), newSchedule(g), newSimulate(g), newStatus(g), newExplain(g), newRetry(g), newCheck(g), newInit(g), newVersion(g))
	root.PersistentFlags().SortFlags = false
	root.SetFlagErrorFunc(flagError)
	root.SetGlobalNormalizationFunc(withDashes)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	refuseStrangers(root)
	helpAlike(root)
	completeFlags(root, completions(g))
	return root
}

// refuseStrangers makes the commands that cobra adds refuse names that they do
// not know, where they would show a help and end well.
func refuseStrangers(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if about, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return noArgs(about, rest)
				}
				return nil
			}
		case "completion":
			c.Args = noArgs
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// helpAlike gives the commands that cobra adds the end that ours have.
func helpAlike(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if !strings.Contains(sub.Long, exitStatusHelp) {
			sub.Long = strings.TrimSpace(sub.Long) + exitStatusHelp
		}
		helpAlike(sub)
	}
}

// aWord is what is shown of an argument: no URL, and so no password.
var aWord = regexp.MustCompile(`^[A-Za-z_-]+`)

// noArgs refuses arguments as cobra does, but shows only words.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 && aWord.FindString(args[0]) != args[0] {
		return fmt.Errorf("%s takes no such argument; what belongs to a flag stands behind its --name", c.CommandPath())
	}
	err := cobra.NoArgs(c, args)
	if err != nil && c.HasSubCommands() {
		c.SuggestionsMinimumDistance = 2
		if like := c.SuggestionsFor(args[0]); len(like) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
		}
	}
	return err
}

// flagError shows of a flag that cannot be understood only its name.
func flagError(_ *cobra.Command, err error) error {
	if e := (*pflag.NotExistError)(nil); errors.As(err, &e) {
		if short := e.GetSpecifiedShortnames(); short != "" {
			return fmt.Errorf("unknown flag: -%s; a name of more than one letter stands behind two dashes", aWord.FindString(short))
		}
		return fmt.Errorf("unknown flag: --%s", aWord.FindString(e.GetSpecifiedName()))
	}
	if e := (*pflag.InvalidValueError)(nil); errors.As(err, &e) {
		text := "what is given"
		if v := e.GetValue(); v == "" || plainValue.MatchString(v) {
			text = strconv.Quote(v)
		}
		return fmt.Errorf("--%s: %s is not %s", e.GetFlag().Name, text, cmp.Or(kindsOfFlags[e.GetFlag().Value.Type()], "a "+e.GetFlag().Value.Type()))
	}
	if e := (*pflag.InvalidSyntaxError)(nil); errors.As(err, &e) {
		return errors.New("a flag without a name; write it as in --config FILE")
	}
	return err
}

// plainValue matches a value of a flag that may be shown: no URL.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9.,+-]{1,40}$`)

// kindsOfFlags says in words what flags take.
var kindsOfFlags = map[string]string{
	"int": "a whole number", "uint64": "a whole number from 0", "float64": "a number", "bool": "true or false", "duration": "a duration",
}

// withDashes takes the name of a flag as the configuration would have it.
func withDashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// ranError marks the errors of run functions, as opposed to cobra's own.
type ranError struct{ err error }

func (e ranError) Error() string { return e.err.Error() }

// ran adapts a run function to cobra.
func ran(f func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		if err := f(c.Context()); err != nil {
			return ranError{err}
		}
		return nil
	}
}

// nowFlag is the --now of commands that look at the clock.
type nowFlag struct{ text string }

func (n *nowFlag) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&n.text, "now", "", "pretend that it is `TIME` (RFC 3339)")
}

// clock returns the clock to use and its reading now, which is exactly the
// pretended time if there is one.
func (n *nowFlag) clock() (clock func() time.Time, now time.Time, err error) {
	if n.text == "" {
		return time.Now, time.Now(), nil
	}
	now, err = parseTime("--now", n.text)
	start := sync.OnceValue(time.Now) // the clock goes on when it is first looked at
	return func() time.Time { began := start(); return now.Add(time.Since(began)) }, now, err
}

func parseTime(flag, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, usagef("%s: %q is not a time; write it as in 2026-01-05T00:00:00Z", flag, text)
	}
	return t, nil
}

// jsonFlag is the --json of commands that print data.
type jsonFlag struct{ on bool }

func (j *jsonFlag) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&j.on, "json", false, "print JSON")
}

// printf writes to the command's output. That a write failed becomes the
// program's error in the end; a closed pipe, the reader's wish, ends it at once.
func (g *globals) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(g.out, format, args...); err != nil && g.unsaid == nil {
		g.unsaid = err
	}
}
