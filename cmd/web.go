package cmd

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"backlog/backlog/config"
	"backlog/backlog/web"
)

// defaultListen is where `backlog web` listens by default.
const defaultListen = "127.0.0.1:8080"

func newWeb(g *globalOptions) *cobra.Command {
	c := &cobra.Command{
		Use:   "web",
		Short: "Serve the pages without a daemon, for a table that a crontab works off",
		RunE:  func(c *cobra.Command, _ []string) error { return runWeb(c.Context(), g) },
	}
	c.Flags().StringVar(&g.listen, "listen", "", listenUsage)
	return c
}

const listenUsage = "serve pages at `ADDRESS`, such as 127.0.0.1:8080 or unix:/run/backlog/web.sock, instead of web.listen"

func runWeb(ctx context.Context, g *globalOptions) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	set := observerSettings[web.Settings](cfg, "web")
	set.Listen = cmp.Or(set.Listen, defaultListen)
	ctx, signals := onTermOrHangup(ctx)
	defer signals.stop()
	log := newLog(cfg.Log, g.err)
	s := g.newServer(cfg, stateOf(cfg, log), log, nil)
	<-signals.registered // before the log says that pages are served
	if err := s.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	s.Close()
	log.Info("stopped")
	return nil
}

// listenAt overrides web.listen with the flag --listen, if that is given.
func listenAt(cfg *config.Config, listen string) error {
	if listen == "" {
		return nil
	}
	s := observerSettings[web.Settings](cfg, "web")
	s.Listen = listen
	var wrong error
	s.Check(func(field, problem string) {
		if field == "listen" {
			wrong = usagef("--listen: %s", problem)
		}
	})
	return wrong
}

func newToken(g *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "token",
		Short: "Print the token that the pages ask for",
		RunE: func(*cobra.Command, []string) error {
			cfg, err := g.load()
			if err != nil {
				return err
			}
			kept := stateOf(cfg, slog.New(slog.DiscardHandler)).Folder()
			set := observerSettings[web.Settings](cfg, "web")
			if _, err := set.ReadTokens(g.folder(), kept); err != nil {
				return err
			}
			text, err := os.ReadFile(set.TokenPath(g.folder(), kept))
			if err == nil {
				g.printf("%s\n", strings.TrimSpace(string(text)))
			}
			return err
		},
	}
}

// webAddress returns the address of the pages; "": none are served.
func webAddress(cfg *config.Config) string { return observerSettings[web.Settings](cfg, "web").Listen }

// probeAddress returns the address where a daemon of the configuration answers /healthz, and whether it uses TLS.
func probeAddress(cfg *config.Config) (address string, secure bool) {
	if s := observerSettings[web.Settings](cfg, "web"); s.Listen != "" {
		return s.Listen, s.TLS.Cert != ""
	}
	return cmp.Or(metricsAddress(cfg), defaultListen), false
}
