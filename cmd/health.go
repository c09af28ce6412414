package cmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newHealth(g *globals) *cobra.Command {
	var base string
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask a running daemon whether it works, as a container's probe",
		RunE:  func(c *cobra.Command, _ []string) error { return runHealth(c.Context(), g, base) },
	}
	c.Flags().StringVar(&base, "url", "", "ask the daemon at `URL`, such as http://10.1.2.3:8080, in place of the configured address")
	return c
}

func runHealth(ctx context.Context, g *globals, base string) error {
	dialer, transport := new(net.Dialer), new(http.Transport) // without proxies
	if base == "" {
		cfg, err := g.loadFile(knownSettings())
		if err != nil {
			return err
		}
		address, secure := probedAt(cfg)
		if path, unix := strings.CutPrefix(address, "unix:"); unix {
			address = "localhost"
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
		} else if host, port, _ := net.SplitHostPort(address); host == "" || net.ParseIP(host).IsUnspecified() {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		if base = "http://" + address; secure {
			base = "https://" + address
			transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // it is this machine, and nothing secret is said
		}
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/healthz", nil)
	if err != nil {
		return usagef("--url: %v", err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%w; is the daemon there, and is this where its web.listen or metrics.listen is?", err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	g.printf("%s\n", strings.TrimSpace(string(text)))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.URL.Redacted(), answer.Status)
	}
	return nil
}
