package cmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/watch"
	"backlog/backlog/web"
)

// defaultListen is where `backlog web` listens if nothing says another place.
const defaultListen = "127.0.0.1:8080"

func newWeb(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:   "web",
		Short: "Serve the pages without a daemon: what there is, and what a crontab's passes did",
		RunE:  func(c *cobra.Command, _ []string) error { return runWeb(c.Context(), g) },
	}
	c.Flags().StringVar(&g.listen, "listen", "", listenUsage)
	return c
}

const listenUsage = "serve pages at `ADDRESS`, such as 127.0.0.1:8080 or unix:/run/backlog/web.sock, in place of web.listen"

func runWeb(ctx context.Context, g *globals) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	set := watching[web.Settings](cfg, "web")
	set.Listen = cmp.Or(set.Listen, defaultListen)
	ctx, stop := stopOnSignal(ctx)
	defer stop()
	log := newLog(cfg.Log, g.err)
	d := g.newDesk(cfg, stateOf(cfg, log), new(watch.Picture), log)
	if err := d.listen(); err != nil {
		return err
	}
	<-ctx.Done()
	d.close()
	log.Info("stopped")
	return nil
}

// listenAt puts the flag --listen on top of the configuration, if it is given.
func listenAt(cfg *config.Config, listen string) error {
	if listen == "" {
		return nil
	}
	s := watching[web.Settings](cfg, "web")
	s.Listen = listen
	var wrong error
	s.Check(func(field, problem string) {
		if field == "listen" {
			wrong = usagef("--listen: %s", problem)
		}
	})
	return wrong
}

func newToken(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "token",
		Short: "Print the token that the pages ask for",
		RunE: func(*cobra.Command, []string) error {
			cfg, err := g.load()
			if err != nil {
				return err
			}
			d := g.newDesk(cfg, stateOf(cfg, slog.New(slog.DiscardHandler)), nil, nil)
			set := watching[web.Settings](d.cfg, "web")
			if _, err := set.ReadTokens(d.folder(), d.stateFolder()); err != nil {
				return err
			}
			text, err := os.ReadFile(set.TokenPath(d.folder(), d.stateFolder()))
			if err == nil {
				g.printf("%s\n", strings.TrimSpace(string(text)))
			}
			return err
		},
	}
}

// listens returns where pages are served; empty: nowhere.
func listens(cfg *config.Config) string { return watching[web.Settings](cfg, "web").Listen }

// probedAt returns where a daemon of the configuration answers /healthz, and whether by TLS.
func probedAt(cfg *config.Config) (address string, secure bool) {
	if s := watching[web.Settings](cfg, "web"); s.Listen != "" {
		return s.Listen, s.TLS.Cert != ""
	}
	return cmp.Or(scrapedAt(cfg), defaultListen), false
}

// newDesk returns a desk that nothing listens for yet.
func (g *globals) newDesk(cfg *config.Config, state *checkpoint.File, p *watch.Picture, log *slog.Logger) *desk {
	d := &desk{g: g, log: log, state: state, picture: p, role: web.Viewer, wake: make(chan struct{}, 1)}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.configure(cfg)
	return d
}

// folder is what relative paths of the settings begin at.
func (d *desk) folder() string { return filepath.Dir(d.g.Config) }

// stateFolder is empty where nothing is kept.
func (d *desk) stateFolder() string {
	if d.state.Path == "" {
		return ""
	}
	return filepath.Dir(d.state.Path)
}

// checkPages returns where pages are to be served, if they are, and why they could not be.
func (g *globals) checkPages(cfg *config.Config) (at string, err error) {
	state, _ := stateFile(cfg) // check tells by itself what is wrong with it
	d := g.newDesk(cfg, state, nil, nil)
	return listens(cfg), watching[web.Settings](d.cfg, "web").CheckFiles(d.folder(), d.stateFolder())
}

// listen serves what the configuration wants served, until close.
func (d *desk) listen() error {
	set := watching[web.Settings](d.cfg, "web")
	if set.Listen == "" && (d.metrics == nil || scrapedAt(d.cfg) == "") {
		return nil
	}
	tokens, err := d.tokens(set)
	if err == nil {
		d.site, err = web.New(*set, d.folder(), tokens, d, d.log)
	}
	if err != nil {
		return usageError{err}
	}
	if d.metrics != nil {
		if err := d.listenForMetrics(); err != nil {
			return err
		}
	}
	if d.role == web.Viewer { // before the first visitor
		kept, _ := d.state.State()
		d.restore(kept)
	}
	if d.queue == nil {
		d.serving.Go(func() { d.count(d.ctx) })
	}
	if set.Listen == "" {
		return nil
	}
	l, err := web.Listen(set.Listen)
	if err != nil {
		return fmt.Errorf("web.listen: %w", err)
	}
	d.serving.Go(func() {
		if err := d.site.Serve(d.ctx, l); err != nil {
			d.log.Error("pages are served no more", "error", err)
		}
	})
	d.log.Info("pages are served", "at", urlOf(set, l.Addr()))
	return nil
}

func urlOf(set *web.Settings, at net.Addr) string {
	scheme := "http://"
	switch {
	case at.Network() == "unix":
		return at.String()
	case set.TLS.Cert != "":
		scheme = "https://"
	}
	return scheme + at.String() + strings.TrimSuffix(set.PathPrefix, "/") + "/"
}

// reload goes on with another configuration, whose address is the same.
func (d *desk) reload(cfg *config.Config) error {
	d.configure(cfg)
	if d.site == nil {
		return nil
	}
	set := watching[web.Settings](d.cfg, "web")
	tokens, err := d.tokens(set)
	if err == nil {
		err = d.site.Reload(*set, d.folder(), tokens)
	}
	return err
}

// close ends what listens and waits for it.
func (d *desk) close() {
	d.end()
	d.serving.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
}
