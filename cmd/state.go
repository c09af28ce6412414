package cmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"backlog/backlog"
	"backlog/backlog/config"
)

// stateFile keeps the state in a JSON file, written as a whole or not at all.
// What cannot be written is still remembered for the life of the process. Other
// processes may keep theirs in the same file.
type stateFile struct {
	path     string        // "": memory only
	patience time.Duration // with another process's update; 0: lockPatience

	mu     sync.Mutex
	memory backlog.State
	broken bool // the last write failed
}

// statePath returns where the configuration wants the state to be, "" for
// nowhere.
func statePath(c *config.Config) (string, error) {
	switch c.State {
	case "none":
		return "", nil
	case "":
	default:
		return c.State, nil
	}
	dir := strings.Split(os.Getenv("STATE_DIRECTORY"), ":")[0] // systemd's
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
	return filepath.Join(dir, stateName(c)), nil
}

// stateName tells the tables of a user apart.
func stateName(c *config.Config) string {
	sum := sha256.Sum256([]byte(place(c.Database) + "\x00" + c.Table.Schema + "\x00" + c.Table.Name))
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator || r < ' ' {
			return '_'
		}
		return r
	}, c.Table.Name)
	return name + "-" + hex.EncodeToString(sum[:4]) + ".json"
}

// place is what remains of the database's URL when somebody else looks at the
// same tables: another password, or a setting of the session, makes no other
// state. What cannot be read as a URL stays as it is.
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
	server := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path}
	switch server.Scheme {
	case "postgresql":
		server.Scheme = "postgres"
	case "mariadb":
		server.Scheme = "mysql"
	}
	if port := map[string]string{"postgres": "5432", "mysql": "3306"}[server.Scheme]; u.Port() == "" {
		server.Host += ":" + port
	}
	kept := url.Values{}
	for name, values := range u.Query() {
		switch name {
		case "host", "port", "dbname", "search_path":
			kept[name] = values
		}
	}
	server.RawQuery = kept.Encode()
	return server.String()
}

// Load implements backlog.StateKeeper. The file is read each time: another
// process may have written it.
func (s *stateFile) Load() (backlog.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load()
}

func (s *stateFile) load() (backlog.State, error) {
	if s.path == "" || s.broken {
		return s.memory, nil
	}
	b, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return backlog.State{}, nil
	}
	if err != nil {
		return s.memory, err
	}
	var state backlog.State
	if err := json.Unmarshal(b, &state); err != nil {
		return s.memory, fmt.Errorf("%s is not a state file and will be replaced: %w", s.path, err)
	}
	return state, nil
}

// Update implements backlog.StateKeeper.
func (s *stateFile) Update(change func(*backlog.State)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.lock()()
	state, err := s.load() // what cannot be read is replaced
	before, _ := json.Marshal(state)
	change(&state)
	s.memory = state
	if after, _ := json.Marshal(state); s.path == "" || err == nil && bytes.Equal(before, after) {
		return nil
	}
	err = s.save(state)
	first := err != nil && !s.broken
	s.broken = err != nil
	if first {
		return fmt.Errorf("the state cannot be kept, a restart will not know what was missed: %w", err)
	}
	return nil
}

// lockPatience is how long another process may take for its update.
const lockPatience = time.Second

// lock keeps other processes from an update between our reading and writing.
// The file itself is replaced each time, so it is another one that is locked.
// Without the lock an update is still better than none.
func (s *stateFile) lock() (unlock func()) {
	if s.path == "" {
		return func() {}
	}
	os.MkdirAll(filepath.Dir(s.path), 0o755)
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(s.patience, lockPatience))
	defer cancel()
	l := flock.New(s.path+".lock", flock.SetPermissions(0o644))
	l.TryLockContext(ctx, 5*time.Millisecond)
	return func() { l.Close() }
}

func (s *stateFile) save(state backlog.State) error {
	b, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(s.path, append(b, '\n'), 0o644)
}
