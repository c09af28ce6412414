package cmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/handler"
	"backlog/backlog/table"
)

// A tool is a handler of any kind. One that has something to be closed is an
// [io.Closer].
type tool interface {
	backlog.Handler
	backlog.Checker
	backlog.Sampler
}

// newHandler makes the configured handler and proves, without a look at the
// network, that it could work. It is nil if it works in the table's database:
// then newWork makes it. What workers say is logged; log may be nil.
func newHandler(ctx context.Context, cfg *config.Config, log *slog.Logger) (tool, error) {
	switch h := cfg.Handler; {
	case !h.Given:
		return nil, usagef("the configuration has no handler; say what processes a record, such as handler: {exec: [./deliver.sh]}")
	case h.Exec != nil:
		return proven(ctx, "handler", newExec(h.Exec))
	case h.Lines != nil:
		return proven(ctx, "handler", newLines(h, log))
	case h.HTTP != nil:
		return proven(ctx, "handler", newHTTP(cfg, h.HTTP, h.Concurrency))
	}
	return nil, nil
}

// newOnDead makes what is told of dead records likewise; it is nil if nothing
// is.
func newOnDead(ctx context.Context, cfg *config.Config) (tool, error) {
	switch o := cfg.OnDead; {
	case o.Exec != nil:
		return proven(ctx, "on_dead", newExec(o.Exec))
	case o.HTTP != nil:
		return proven(ctx, "on_dead", newHTTP(cfg, o.HTTP, 1))
	}
	return nil, nil
}

func newExec(c *config.Exec) *handler.Exec {
	return &handler.Exec{Command: c.Command, Reject: c.Reject, Skip: c.Skip}
}

func newLines(c config.Handler, log *slog.Logger) *handler.Lines {
	h := &handler.Lines{Command: c.Lines.Command, Workers: c.Lines.Workers, Window: c.Lines.Window, Timeout: c.Timeout}
	if log != nil {
		h.Log = func(pid int, line string) { log.Info("worker", "pid", pid, "text", line) }
	}
	return h
}

func newHTTP(cfg *config.Config, c *config.HTTP, concurrency int) *handler.HTTP {
	source := cfg.Table.Name
	if cfg.Table.Schema != "" {
		source = cfg.Table.Schema + "." + source
	}
	return &handler.HTTP{
		URL: c.URL, Method: c.Method, Headers: c.Headers, Secrets: c.Secrets, SecretFiles: c.SecretFiles,
		Success: c.Success, Reject: c.Reject, Allow: c.Allow,
		CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile,
		Source: source, Concurrency: concurrency,
	}
}

// maxPause returns the longest pause that the handler can ask for; 0: it asks
// for none.
func maxPause(h config.Handler) time.Duration {
	switch {
	case h.HTTP != nil:
		return h.HTTP.MaxPause
	case h.Lines != nil:
		return h.Lines.MaxPause
	}
	return 0
}

// proven returns h unless it could not work. A service that is down is no
// reason not to start: its records then are errors, like at any other time.
func proven(ctx context.Context, key string, h tool) (tool, error) {
	check := h.Check
	if p, ok := h.(interface{ Prepare() error }); ok {
		check = func(context.Context) error { return p.Prepare() }
	}
	if err := check(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return h, nil
}

// newWork makes the handler that works in the table's database and proves that
// this understands its statements.
func newWork(ctx context.Context, t *table.Table, cfg *config.Config) (*table.Work, error) {
	w, err := table.NewWork(t, cfg.Handler.SQL.Statements, cfg.Handler.SQL.AllowZeroRows)
	if err == nil {
		err = w.Check(ctx)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// wireHandlers gives the app its handler, h or one that works in its database,
// and what is told of dead records, once the table says that they get the columns
// they ask for.
func (a *app) wireHandlers(ctx context.Context, h, onDead tool) (err error) {
	if h == nil {
		if h, err = newWork(ctx, a.table, a.cfg); err != nil {
			return err
		}
	}
	a.handler, a.onDead = h, onDead
	if err := hasColumns(a.table, "handler", h); err != nil {
		return err
	}
	return hasColumns(a.table, "on_dead", onDead)
}

// hasColumns returns an error unless records have the columns that the handler
// at the key asks for by name.
func hasColumns(t *table.Table, key string, h tool) error {
	asks, ok := h.(interface{ Columns() ([]string, error) })
	if !ok {
		return nil
	}
	names, err := asks.Columns()
	if err != nil {
		return err
	}
	given := t.Given()
	for _, name := range names {
		if !slices.Contains(given, name) {
			return fmt.Errorf("%s.http.url: a record has no column %s; it has: %s", key, shown(name), strings.Join(each(given, shown), ", "))
		}
	}
	return nil
}

// closeHandlers ends what the handlers have started.
func (a *app) closeHandlers() {
	for _, h := range []tool{a.handler, a.onDead} {
		if c, ok := h.(io.Closer); ok {
			if err := c.Close(); err != nil {
				a.log.Warn(err.Error())
			}
		}
	}
}

// proof says what a check of the handler, or of on_dead, that is of one of these
// kinds has proved.
func proof(exec *config.Exec, lines *config.Lines, http *config.HTTP) string {
	switch {
	case exec == nil && lines == nil && http == nil:
		return ""
	case exec != nil:
		return exec.Command[0] + " can be run"
	case lines != nil:
		return fmt.Sprintf("%s can be run: %s, %d records in flight at each at most", lines.Command[0], plural(lines.Workers, "worker"), lines.Window)
	}
	text := ""
	u, err := url.Parse(http.URL)
	switch host := hostOf(http.URL); {
	case strings.ContainsAny(host, "{}") || err != nil:
		text = "each record says which host is called, one of: " + strings.Join(http.Allow, ", ")
	case u.Scheme == "https":
		text = "https://" + u.Host + " resolves and its certificate is good"
	default:
		text = "http://" + u.Host + " takes connections"
	}
	if n := len(http.Secrets) + len(http.SecretFiles); n > 0 {
		text += "; " + plural(n, "secret") + " to sign with"
	}
	return text
}

// hostOf returns what stands for the host in a URL that may have columns in it.
func hostOf(template string) string {
	_, rest, ok := strings.Cut(template, "://")
	if !ok {
		return template
	}
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}
