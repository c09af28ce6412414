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

// globalOptions are the flags that all commands share, with the streams they write to.
type globalOptions struct {
	Config    string
	Database  string
	Table     string
	LogLevel  string
	LogFormat string
	listen    string // of run and web
	replace   bool   // of run and once: take the place of another configuration

	signals  *termSignals // that end the command; nil: it does not handle them
	out, err io.Writer
	started  bool  // flags and arguments are parsed; errors before that are usage errors
	writeErr error // of the first failed write to out
}

func (g *globalOptions) AddFlags(f *pflag.FlagSet) {
	for _, x := range []struct {
		target                              *string
		name, variable, defaultValue, usage string
	}{
		{&g.Config, "config", "BACKLOG_CONFIG", config.DefaultFile, "read the configuration from `FILE`"},
		{&g.Database, "database", "BACKLOG_DATABASE", "", "use the database at `URL`"},
		{&g.Table, "table", "BACKLOG_TABLE", "", "use the table `NAME`"},
		{&g.LogLevel, "log-level", "BACKLOG_LOG_LEVEL", "", "log at `LEVEL` and above: debug, info, warn, error"},
		{&g.LogFormat, "log-format", "BACKLOG_LOG_FORMAT", "", "log as `FORMAT`: auto, text, json"},
	} {
		// The environment comes between flag and file: it is the flag's default, which help never prints.
		value := cmp.Or(os.Getenv(x.variable), x.defaultValue)
		f.StringVar(x.target, x.name, value, x.usage+" ($"+x.variable+")")
		f.Lookup(x.name).DefValue = x.defaultValue
	}
}

// Main runs the program with the given arguments and returns its exit status.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	// net/http logs unsolicited responses with the standard logger, and they may hold a
	// secret of ours. Everything that matters is returned as an error.
	log.SetOutput(io.Discard)
	reapOrphans()
	queue := logqueue.New(err)
	defer queue.Close()
	g := &globalOptions{out: logqueue.After{Log: queue, W: out}, err: logging.OnScreen(queue)}
	root := newRoot(g, args...)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(g.out)
	root.SetErr(g.err)
	e := root.ExecuteContext(context.Background())
	if e != nil && !g.started {
		e = usageError{e}
	}
	e = cmp.Or(e, g.writeErr)
	if e != nil && !errors.As(e, new(quietError)) {
		printError(g.err, e)
	}
	return exitStatus(e)
}

var logFormats = []string{"auto", "text", "json"}

// helpTexts has a file for each command: its long description and, after "Examples:", its examples.
//
//go:embed help
var helpTexts embed.FS

// Groups of commands, in the order in which people need them.
const (
	groupBefore  = "before"
	groupAtWork  = "at work"
	groupLooking = "looking"
	groupActing  = "acting"
	groupOther   = "other"
)

// commandGroups are the groups as the help shows them.
var commandGroups = []*cobra.Group{
	{ID: groupBefore, Title: "Prepare: what is wrong or missing, what a schedule does"},
	{ID: groupAtWork, Title: "Run: the daemon, one pass, a worker on another machine"},
	{ID: groupLooking, Title: "Look: counts, records, pages"},
	{ID: groupActing, Title: "Act: retry, discard, pause, resume"},
	{ID: groupOther, Title: "Other commands:"},
}

// A command is a subcommand: the group in which the help lists it, and its constructor.
type command struct {
	group string
	make  func(*globalOptions) *cobra.Command
}

// commands are the subcommands by name.
var commands = map[string]command{
	"check":    {groupBefore, newCheck},
	"init":     {groupBefore, newInit},
	"advise":   {groupBefore, newAdvise},
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

// newRoot returns the root command with all subcommands. If the arguments begin with the name
// of one, only that one is built: a crontab would pay for the others at each start.
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
			g.started = true
			if c.Name() == cobra.ShellCompRequestCmd {
				plainUsages(c.Root())
			}
			return rejectEmptyFlags(c.Flags())
		},
	}
	root.Flags().BoolP("version", "v", false, "print the version")
	g.AddFlags(root.PersistentFlags())
	root.AddGroup(commandGroups...)
	only := ""
	if len(args) > 0 && commands[args[0]].make != nil {
		only = args[0]
	}
	for name, c := range commands {
		if only == "" || name == only {
			sub := c.make(g)
			sub.GroupID = c.group
			root.AddCommand(sub)
		}
	}
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	for _, c := range append(root.Commands(), root) {
		text, _ := helpTexts.ReadFile("help/" + c.Name() + ".txt") // a test checks that each exists
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
	rejectUnknown(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		fmt.Fprint(c.OutOrStdout(), exitHelp(c))
	})
	root.RegisterFlagCompletionFunc("log-level", completeOneOf("debug", "info", "warn", "error"))
	root.RegisterFlagCompletionFunc("log-format", completeOneOf(logFormats...))
	return root
}

// ManualCommand returns the root command with texts in the form that manual pages need.
func ManualCommand() *cobra.Command {
	root := newRoot(&globalOptions{out: io.Discard, err: io.Discard})
	root.DisableAutoGenTag = true
	plainUsages(root)
	const verbatimLine = "\n    " // markdown leaves a line as it is behind four spaces
	toMarkdown := strings.NewReplacer(
		"\nEXIT STATUS\n  ", "\n# EXIT STATUS\n"+verbatimLine,
		"\n  ", verbatimLine,
	)
	walkCommands(root, func(c *cobra.Command) { c.Long = toMarkdown.Replace(c.Long + "\n" + exitHelp(c)) })
	return root
}

// walkCommands calls visit for the command and, recursively, for its subcommands.
func walkCommands(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walkCommands(sub, visit)
	}
}

// rejectUnknown makes cobra's own commands, help and completion, fail for names that they do
// not know. By default they print help and exit with 0.
func rejectUnknown(root *cobra.Command) {
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

// leadingWord matches the part of an argument that errors may show: no URL with a password.
var leadingWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_-]+`) })

// noArgs is [cobra.NoArgs], except that its errors show arguments only if they are words.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 && leadingWord().FindString(args[0]) != args[0] {
		return fmt.Errorf("%s takes no such argument; put the value of a flag behind its --name, in quotes if it has spaces", c.CommandPath())
	}
	if len(args) > 0 && !c.HasSubCommands() {
		return fmt.Errorf("%s takes no argument %q; put the value of a flag behind its --name, in quotes if it has spaces", c.CommandPath(), args[0])
	}
	err := cobra.NoArgs(c, args)
	if err != nil {
		c.SuggestionsMinimumDistance = 2
		if like := c.SuggestionsFor(args[0]); len(like) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
		}
	}
	return err
}

// flagError rewords the errors of cobra, without values that may be secret.
func flagError(c *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlagError(c, e)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := e.GetFlag()
		kind := flagKinds[flag.Value.Type()]
		if kind == "" { // the flag's own error names the kind
			return fmt.Errorf("--%s: %w", flag.Name, e.Unwrap())
		}
		shown := "what is given"
		if value := e.GetValue(); value == "" || plainValue().MatchString(value) {
			shown = strconv.Quote(value)
		}
		return fmt.Errorf("--%s: %s is not %s", flag.Name, shown, kind)
	}
	if errors.As(err, new(*pflag.InvalidSyntaxError)) {
		return errors.New("a flag without a name; write it as in --config FILE")
	}
	return err
}

// unknownFlagError is the error of a flag that the command does not have, with a hint.
func unknownFlagError(c *cobra.Command, e *pflag.NotExistError) error {
	short := e.GetSpecifiedShortnames()
	isNumber := short != "" && strings.Trim(short, "0123456789") == ""
	switch {
	case isNumber && strings.HasSuffix(c.Long, idHelp):
		return fmt.Errorf("unknown flag: -%s; put an ID that begins with a dash behind --, as in: %s -- -%[1]s", short, c.CommandPath())
	case len(short) > 1:
		return fmt.Errorf("unknown flag: -%s; write two dashes before a name of more than one letter", leadingWord().FindString(short))
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	help := "`" + c.CommandPath() + " --help` lists the flags"
	if short != "" {
		letter := leadingWord().FindString(short)
		startsWithLetter := func(name string) bool { return strings.HasPrefix(name, letter) }
		if i := slices.IndexFunc(names, startsWithLetter); letter != "" && i >= 0 {
			return fmt.Errorf("unknown flag: -%s; did you mean --%s? %s", letter, names[i], help)
		}
		return fmt.Errorf("unknown flag: -%s; %s", letter, help)
	}
	given := leadingWord().FindString(e.GetSpecifiedName())
	if given == "id" && strings.HasSuffix(c.Long, idHelp) {
		return fmt.Errorf("unknown flag: --id; write the ID alone, as in: %s 4", c.CommandPath())
	}
	if near := mapping.Near(given, names); near != "" && near != given {
		return fmt.Errorf("unknown flag: --%s; did you mean --%s?", given, near)
	}
	return fmt.Errorf("unknown flag: --%s; %s", given, help)
}

// plainValue matches the value of a flag that errors may show: no URL.
var plainValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.,+-]{1,40}$`) })

// rejectEmptyFlags returns an error for a flag that is given and empty, as by a shell variable
// that is not set. Only --reason may be empty.
func rejectEmptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if strings.TrimSpace(f.Value.String()) == "" && f.Name != "reason" {
			err = cmp.Or(err, usagef("--%s: there is nothing in it; give it a value or leave it out", f.Name))
		}
	})
	return err
}

// flagKinds names the types of flags in words.
var flagKinds = map[string]string{
	"int": "a whole number", "uint64": "a whole number from 0", "float64": "a number", "bool": "true or false", "duration": "a duration",
}

// A parsedFlag is a [pflag.Value] that parses its text into target. An empty text is left to
// [rejectEmptyFlags].
type parsedFlag[T any] struct {
	target *T
	text   string
	parse  func(text string) (T, error)
}

func (f *parsedFlag[T]) String() string { return f.text }
func (f *parsedFlag[T]) Type() string   { return "" }

func (f *parsedFlag[T]) Set(text string) error {
	f.text = strings.TrimSpace(text)
	if f.text == "" {
		return nil
	}
	value, err := f.parse(text)
	*f.target = value
	return err
}

// dataFlags are the flags of commands that print data as of a moment.
type dataFlags struct {
	JSON bool
	Now  time.Time // zero: the real time
}

func (d *dataFlags) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&d.JSON, "json", false, "print JSON")
	f.Var(&parsedFlag[time.Time]{target: &d.Now, parse: parseTime}, "now", "pretend that it is `TIME` (RFC 3339)")
}

// clock returns the clock to use and its first reading, which is exactly --now if that is given.
func (d *dataFlags) clock() (clock func() time.Time, now time.Time) {
	if d.Now.IsZero() {
		return time.Now, time.Now()
	}
	firstReading := sync.OnceValue(time.Now) // the clock starts when it is first read
	clock = func() time.Time {
		start := firstReading()
		return d.Now.Add(time.Since(start))
	}
	return clock, d.Now
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

// durationBetween returns a parser of durations from least to most. Its error says that the
// text is not what is wanted.
func durationBetween(least, most time.Duration, wanted string) func(text string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := tiers.ParseDuration(text)
		if err != nil || d < least || d > most {
			err = fmt.Errorf("%q is not %s", text, wanted)
		}
		return d, err
	}
}

// printf writes to the command's output. The first failed write becomes the program's error when
// it ends. A closed pipe ends the program at once.
func (g *globalOptions) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(g.out, format, args...); err != nil && g.writeErr == nil {
		g.writeErr = err
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
				return printJSON(g.out, map[string]string{
					"version":  version(),
					"sqlite":   sqliteDriver,
					"go":       runtime.Version(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
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

// completeOneOf completes a flag that takes one of a few words.
func completeOneOf(list ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
}

// plainUsages removes the backquotes from the usage of flags. They mark the name of the argument
// for help; a shell's completion and a manual page would show them.
func plainUsages(c *cobra.Command) {
	removeQuotes := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	walkCommands(c, func(c *cobra.Command) { c.LocalFlags().VisitAll(removeQuotes) })
}

// load reads a configuration that has a table.
func (g *globalOptions) load() (*config.Config, error) {
	c, err := g.loadAny()
	if err == nil && sourceOf(c) != nil {
		return nil, usagef("%s: has a source, whose messages are no rows of a table; run, once, status, check, init and retry --errors work with it", g.Config)
	}
	return c, err
}

// loadAny reads a configuration that has a table or a source.
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

// loadFile reads any configuration and overrides it with the flags.
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
	c.Database = cmp.Or(g.Database, c.Database)
	c.Table.Name = cmp.Or(g.Table, c.Table.Name)
	if g.LogLevel != "" {
		if err := c.Log.Level.UnmarshalText([]byte(g.LogLevel)); err != nil {
			return nil, usagef("--log-level: %q is not one of debug, info, warn, error", g.LogLevel)
		}
	}
	c.Log.Format = cmp.Or(g.LogFormat, c.Log.Format)
	if !slices.Contains(logFormats, c.Log.Format) {
		return nil, usagef("--log-format: %q is not one of auto, text, json", g.LogFormat)
	}
	return c, nil
}
