package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog/config"
)

// completions are the words that flags take, by the flag's name. Where flags of
// several commands have the same name they take the same.
func completions(g *globals) map[string]func() []string {
	words := func(list ...string) func() []string { return func() []string { return list } }
	return map[string]func() []string{
		"log-level":  words("debug", "info", "warn", "error"),
		"log-format": words("auto", "text", "json"),
		"format":     words("text", "json", "crontab", "systemd"),
		"policy": func() []string {
			return each(policySpecs(), func(s config.PolicySpec) string { return s.Name })
		},
		"tier": func() (names []string) {
			cfg, err := g.load()
			if err != nil {
				return nil
			}
			for _, t := range cfg.Tiers.Tiers() {
				names = append(names, t.Name)
			}
			return names
		},
	}
}

// completeFlags tells the shell the words that the flags of c and of its
// commands take.
func completeFlags(c *cobra.Command, words map[string]func() []string) {
	register := func(f *pflag.Flag) {
		list, ok := words[f.Name]
		if !ok {
			return
		}
		c.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		})
	}
	c.LocalFlags().VisitAll(register)
	for _, sub := range c.Commands() {
		completeFlags(sub, words)
	}
}

// isCompletion reports whether it is the shell that asks.
func isCompletion(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0])
}

// plainUsages takes the quotes of arguments' names out of what flags are for:
// they mean something to the help only, and the shell shows them as they are.
func plainUsages(c *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	c.LocalFlags().VisitAll(plain)
	for _, sub := range c.Commands() {
		plainUsages(sub)
	}
}
