// Package cmd is the command line: one file per command, each an options
// struct, its flags, and a run function that knows nothing of cobra. wire.go
// joins the parts of the program; nothing else knows all of them.
package cmd

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog/config"
	"backlog/backlog/logging"
	"backlog/backlog/logqueue"
	"backlog/backlog/mapping"
	"backlog/tiers"
)

// globalOptions are the flags that all commands share, and the world around them.
type globalOptions struct {
	Config    string
	Database  string
	Table     string
	LogLevel  string
	LogFormat string
	listen    string // of run and web
	replace   bool   // of run and once: another configuration is no error

	out, err io.Writer
	ran      bool  // the command has begun: what cobra finds wrong comes before
	unsaid   error // the first failed write to out
}

func (g *globalOptions) AddFlags(f *pflag.FlagSet) {
	for _, x := range []struct {
		to                               *string
		name, variable, otherwise, usage string
	}{
		{&g.Config, "config", "BACKLOG_CONFIG", config.DefaultFile, "read the configuration from `FILE`"},
		{&g.Database, "database", "BACKLOG_DATABASE", "", "use the database at `URL`"},
		{&g.Table, "table", "BACKLOG_TABLE", "", "use the table `NAME`"},
		{&g.LogLevel, "log-level", "BACKLOG_LOG_LEVEL", "", "log at `LEVEL` and above: debug, info, warn, error"},
		{&g.LogFormat, "log-format", "BACKLOG_LOG_FORMAT", "", "log as `FORMAT`: auto, text, json"},
	} {
		// The environment stands between flag and file: it is the flag's default, which help never prints.
		value := cmp.Or(os.Getenv(x.variable), x.otherwise)
		f.StringVar(x.to, x.name, value, x.usage+" ($"+x.variable+")")
		f.Lookup(x.name).DefValue = x.otherwise
	}
}

// Main runs the program with the given arguments and returns its exit status.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	// net/http says there what a server has sent unasked, which may be a secret
	// of ours. What matters to anybody comes back as an error.
	log.SetOutput(io.Discard)
	queue := logqueue.New(err)
	defer queue.Close()
	g := &globalOptions{out: logqueue.After{Log: queue, W: out}, err: logging.OnScreen(queue)}
	root := newRoot(g, args...)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(g.out)
	root.SetErr(g.err)
	e := root.ExecuteContext(context.Background())
	switch {
	case e == nil && g.unsaid == nil:
		return exitDone
	case e == nil:
		e = g.unsaid
	case !g.ran:
		e = usageError{e}
	}
	if quiet := (quietError{}); !errors.As(e, &quiet) {
		complain(g.err, e)
	}
	return exitStatus(e)
}

var logFormats = []string{"auto", "text", "json"}

// helps are what commands say of themselves at length, a file each.
//
//go:embed help
var helps embed.FS

// groups of commands, in the order in which people need them.
const (
	groupBefore  = "before"
	groupAtWork  = "at work"
	groupLooking = "looking"
	groupActing  = "acting"
	groupOther   = "other"
)

// titles are those of the groups in the help.
var titles = []*cobra.Group{
	{ID: groupBefore, Title: "Prepare: what is wrong or missing, what a schedule does"},
	{ID: groupAtWork, Title: "Run: the daemon, one pass, a worker on another machine"},
	{ID: groupLooking, Title: "Look: counts, records, pages"},
	{ID: groupActing, Title: "Act: retry, discard, pause, resume"},
	{ID: groupOther, Title: "Other commands:"},
}

// A command is one of the program.
type command struct {
	group string
	make  func(*globalOptions) *cobra.Command
}

// commands are the program's by their names.
var commands = map[string]command{
	"check":    {groupBefore, newCheck},
	"init":     {groupBefore, newInit},
	"simulate": {groupBefore, newSimulate},
	"schedule": {groupBefore, newSchedule},
	"run":      {groupAtWork, newRun},
	"once":     {groupAtWork, newOnce},
	"worker":   {groupAtWork, newWorker},
	"status":   {groupLooking, newStatus},
	"list":     {groupLooking, newList},
	"explain":  {groupLooking, newExplain},
	"web":      {groupLooking, newWeb},
	"token":    {groupLooking, newToken},
	"health":   {groupLooking, newHealth},
	"attempt":  {groupLooking, newAttempt},
	"retry":    {groupActing, newRetry},
	"discard":  {groupActing, newDiscard},
	"pause":    {groupActing, newPause},
	"resume":   {groupActing, newResume},
	"resolve":  {groupActing, newResolve},
	"version":  {groupOther, newVersion},
}

// newRoot returns the program with all commands, or with the one alone that the arguments
// begin with: a crontab pays for the others at each start.
func newRoot(g *globalOptions, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:           "backlog",
		Short:         "Process the pending records of a table, retrying failed ones less and less often",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if asked, _ := c.Flags().GetBool("version"); asked {
				g.printf("%s", versionText())
				return nil
			}
			return c.Help()
		},

		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if g.ran = true; c.Name() == cobra.ShellCompRequestCmd {
				plainUsages(c.Root())
			}
			return noneEmpty(c.Flags())
		},
	}
	root.Flags().BoolP("version", "v", false, "print the version")
	g.AddFlags(root.PersistentFlags())
	root.AddGroup(titles...)
	alone := ""
	if len(args) > 0 && commands[args[0]].make != nil {
		alone = args[0]
	}
	for name, c := range commands {
		if alone == "" || name == alone {
			sub := c.make(g)
			sub.GroupID = c.group
			root.AddCommand(sub)
		}
	}
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	for _, c := range append(root.Commands(), root) {
		text, _ := helps.ReadFile("help/" + c.Name() + ".txt") // a test sees that each has one
		long, example, _ := strings.Cut(string(text), "\nExamples:\n")
		c.Long = strings.TrimSpace(long) + c.Long
		c.Example = strings.TrimRight(example, "\n")
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	root.PersistentFlags().SortFlags = false
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	refuseStrangers(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		fmt.Fprint(c.OutOrStdout(), exitHelp(c))
	})
	root.RegisterFlagCompletionFunc("log-level", words("debug", "info", "warn", "error"))
	root.RegisterFlagCompletionFunc("log-format", words(logFormats...))
	return root
}

// Manual returns the commands with texts for manual pages.
func Manual() *cobra.Command {
	root := newRoot(&globalOptions{out: io.Discard, err: io.Discard})
	root.DisableAutoGenTag = true
	plainUsages(root)
	markdown := strings.NewReplacer("\nEXIT STATUS\n  ", "\n# EXIT STATUS\n\n    ", "\n  ", "\n    ")
	every(root, func(c *cobra.Command) { c.Long = markdown.Replace(c.Long + "\n" + exitHelp(c)) })
	return root
}

// every does something with a command and those below it.
func every(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		every(sub, do)
	}
}

// refuseStrangers makes cobra's own commands refuse names that they do not know.
// Left alone they show a help and end with 0.
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

// aWord matches the part of an argument that may be shown: no URL with a password.
var aWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_-]+`) })

// noArgs refuses arguments as cobra does, but shows only words.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 && aWord().FindString(args[0]) != args[0] {
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

// flagError words cobra's errors without values that may be secret.
func flagError(c *cobra.Command, err error) error {
	if e := (*pflag.NotExistError)(nil); errors.As(err, &e) {
		short := e.GetSpecifiedShortnames()
		if short != "" && strings.Trim(short, "0123456789") == "" && strings.HasSuffix(c.Long, idHelp) {
			return fmt.Errorf("unknown flag: -%s; an ID that begins with a dash stands behind --, as in: %s -- -%[1]s", short, c.CommandPath())
		}
		if short != "" {
			hint := map[bool]string{true: "; a name of more than one letter stands behind two dashes"}[len(short) > 1]
			return fmt.Errorf("unknown flag: -%s%s", aWord().FindString(short), hint)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		got := aWord().FindString(e.GetSpecifiedName())
		if like := mapping.Near(got, names); like != "" && like != got {
			return fmt.Errorf("unknown flag: --%s; did you mean --%s?", got, like)
		}
		return fmt.Errorf("unknown flag: --%s", got)
	}
	if e := (*pflag.InvalidValueError)(nil); errors.As(err, &e) {
		kind, ours := kindsOfFlags[e.GetFlag().Value.Type()], e.Unwrap()
		if kind == "" {
			return fmt.Errorf("--%s: %w", e.GetFlag().Name, ours)
		}
		text := "what is given"
		if v := e.GetValue(); v == "" || plainValue().MatchString(v) {
			text = strconv.Quote(v)
		}
		return fmt.Errorf("--%s: %s is not %s", e.GetFlag().Name, text, kind)
	}
	if e := (*pflag.InvalidSyntaxError)(nil); errors.As(err, &e) {
		return errors.New("a flag without a name; write it as in --config FILE")
	}
	return err
}

// plainValue matches a flag's value that may be shown: no URL.
var plainValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.,+-]{1,40}$`) })

// noneEmpty refuses flags in which there is nothing, as in a variable of the shell that
// is not set. A failure may be without words.
func noneEmpty(f *pflag.FlagSet) (err error) {
	f.Visit(func(x *pflag.Flag) {
		if strings.TrimSpace(x.Value.String()) == "" && x.Name != "reason" {
			err = cmp.Or(err, usagef("--%s: there is nothing in it; give it a value or leave it out", x.Name))
		}
	})
	return err
}

// kindsOfFlags says in words what flags take.
var kindsOfFlags = map[string]string{
	"int": "a whole number", "uint64": "a whole number from 0", "float64": "a number", "bool": "true or false", "duration": "a duration",
}

// A flagOf is a flag that is read when it is given. An empty one is refused later.
type flagOf[T any] struct {
	to   *T
	text string
	read func(text string) (T, error)
}

func (f *flagOf[T]) String() string { return f.text }
func (f *flagOf[T]) Type() string   { return "" }

func (f *flagOf[T]) Set(text string) (err error) {
	if f.text = strings.TrimSpace(text); f.text != "" {
		*f.to, err = f.read(text)
	}
	return err
}

// dataFlags are the flags of commands that print data of some time.
type dataFlags struct {
	JSON bool
	Now  time.Time // zero: the present
}

func (d *dataFlags) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&d.JSON, "json", false, "print JSON")
	f.Var(&flagOf[time.Time]{to: &d.Now, read: parseTime}, "now", "pretend that it is `TIME` (RFC 3339)")
}

// clock returns the clock to use and its first reading, which is exactly the
// pretended time if one is given.
func (d *dataFlags) clock() (clock func() time.Time, now time.Time) {
	if d.Now.IsZero() {
		return time.Now, time.Now()
	}
	start := sync.OnceValue(time.Now) // the clock goes on when it is first looked at
	return func() time.Time { began := start(); return d.Now.Add(time.Since(began)) }, d.Now
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%q is not a time; write it as in 2026-01-05T00:00:00Z", text)
	}
	return t, nil
}

func parseAge(text string) (time.Duration, error) {
	age, err := tiers.ParseDuration(text)
	if err == nil && age <= 0 {
		err = fmt.Errorf("%q is not more than 0; write it as in 7d", text)
	}
	return age, err
}

// durationFrom returns what reads a duration within the bounds, and the error of another:
// it is not what is wanted.
func durationFrom(least, most time.Duration, wanted string) func(text string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := tiers.ParseDuration(text)
		if err != nil || d < least || d > most {
			err = fmt.Errorf("%q is not %s", text, wanted)
		}
		return d, err
	}
}

// printf writes to the command's output. A failed write becomes the program's error
// in the end; a closed pipe ends the program at once.
func (g *globalOptions) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(g.out, format, args...); err != nil && g.unsaid == nil {
		g.unsaid = err
	}
}

// Version is set when a release is built: -ldflags "-X backlog/cmd.Version=v1.2.3".
var Version string

func newVersion(g *globalOptions) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(g.out, map[string]string{"version": version(), "sqlite": sqliteDriver, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			g.printf("%s", versionText())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func versionText() string {
	return fmt.Sprintf("backlog %s (SQLite by %s, %s, %s/%s)\n", version(), sqliteDriver, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(Version, cmp.Or(info, new(debug.BuildInfo)).Main.Version, "(devel)")
}

// words completes a flag that takes one of a few words.
func words(list ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
}

// plainUsages removes the quotes around arguments' names from the usage of flags.
// They are for the help; a shell would show them.
func plainUsages(c *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	every(c, func(c *cobra.Command) { c.LocalFlags().VisitAll(plain) })
}

// load reads the configuration of a table.
func (g *globalOptions) load() (*config.Config, error) {
	c, err := g.loadAny()
	if err == nil && sourceOf(c) != nil {
		return nil, usagef("%s: has a source, whose messages are no rows of a table; run, once, status, check, init and retry --errors work with it", g.Config)
	}
	return c, err
}

// loadAny reads the configuration of a table or a source.
func (g *globalOptions) loadAny() (*config.Config, error) {
	c, err := g.loadFile(knownSettings())
	if err == nil && c.Worker != nil {
		return nil, usagef("%s: is a worker's, which reads no table; start it with `backlog worker`", g.Config)
	}
	if err == nil {
		err = listenAt(c, g.listen)
	}
	return c, err
}

// loadFile reads the configuration, whatever it is of, and puts the flags on top.
func (g *globalOptions) loadFile(known config.Known) (*config.Config, error) {
	c, err := config.LoadFile(g.Config, known)
	if err == nil {
		err = checkPings(c)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w with --config", err)
	}
	if err != nil {
		return nil, usageError{err}
	}
	c.Database, c.Table.Name = cmp.Or(g.Database, c.Database), cmp.Or(g.Table, c.Table.Name)
	if g.LogLevel != "" {
		if err := c.Log.Level.UnmarshalText([]byte(g.LogLevel)); err != nil {
			return nil, usagef("--log-level: %q is not one of debug, info, warn, error", g.LogLevel)
		}
	}
	if c.Log.Format = cmp.Or(g.LogFormat, c.Log.Format); !slices.Contains(logFormats, c.Log.Format) {
		return nil, usagef("--log-format: %q is not one of auto, text, json", g.LogFormat)
	}
	return c, nil
}
