package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultPath returns where the checkpoint of a table is kept: in systemd's
// $STATE_DIRECTORY, else under $XDG_STATE_HOME or in the home directory.
func DefaultPath(database, schema, table string) (string, error) {
	dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(base) {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("no place for the state file: %w; set `state` in the configuration", err)
			}
			base = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(base, "backlog")
	}
	return filepath.Join(dir, Name(database, schema, table)+".json"), nil
}

// Name returns what names the table among all.
func Name(database, schema, table string) string {
	sum := sha256.Sum256([]byte(place(database) + "\x00" + schema + "\x00" + table))
	return strings.ReplaceAll(table, "/", "_") + "-" + hex.EncodeToString(sum[:4])
}

// place reduces a database's URL to what says which tables it leads to: another
// password, or a setting of the session, makes no other checkpoint. A text that is
// no URL stays as it is.
func place(database string) string {
	scheme, rest, _ := strings.Cut(database, ":")
	if strings.HasPrefix(scheme, "sqlite") {
		path, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		if abs, err := filepath.Abs(path); err == nil {
			return abs
		}
		return path
	}
	u, err := url.Parse(database)
	if err != nil || u.Host == "" && u.Path == "" {
		return database
	}
	scheme = map[string]string{"postgresql": "postgres", "mariadb": "mysql"}[scheme]
	server := url.URL{Scheme: cmp.Or(scheme, u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path}
	if port := map[string]string{"postgres": ":5432", "mysql": ":3306"}[server.Scheme]; u.Port() == "" {
		server.Host += port
	}
	kept := u.Query()
	maps.DeleteFunc(kept, func(name string, _ []string) bool {
		return !slices.Contains([]string{"host", "port", "dbname", "search_path"}, name)
	})
	server.RawQuery = kept.Encode()
	return server.String()
}
