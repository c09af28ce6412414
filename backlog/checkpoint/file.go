// Package checkpoint owns the state folder: what a daemon remembers between two lives, and
// what other commands are to know of it. None of it is needed to work correctly.
package checkpoint

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
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"backlog/backlog"
	"backlog/backlog/watch"
)

// A State is what a [File] keeps.
type State struct {
	backlog.Checkpoint
	Work    *Work              `json:"work,omitempty"`   // that its ticks are for
	Daemon  *watch.Daemon      `json:"daemon,omitempty"` // the one that leads, or was killed when it did: see File.Leads
	Pause   *watch.Pause       `json:"pause,omitempty"`
	Outage  *watch.Outage      `json:"outage,omitempty"`
	Outages []watch.PastOutage `json:"outages,omitempty"` // the last that are over
}

// Current returns the pause that holds at the time, nil if none does.
func (s *State) Current(now time.Time) *watch.Pause { return s.Pause.Current(now) }

// A File keeps the checkpoint as JSON, written as a whole or not at all. A
// checkpoint that cannot be written is still remembered for the life of the
// process. Other processes may keep theirs in the same file.
type File struct {
	Path string // "": memory only

	patience time.Duration // with another process's update; 0: lockPatience

	mu     sync.Mutex
	memory State
	broken bool // the last write failed
	warned bool // that something cannot be kept
}

var _ backlog.CheckpointKeeper = (*File)(nil)

// Folder returns the folder of the file, "" where nothing is kept.
func (f *File) Folder() string {
	if f.Path == "" {
		return ""
	}
	return filepath.Dir(f.Path)
}

const (
	lockPatience = time.Second // for another process's update
	maxSize      = 1 << 20     // more than a checkpoint of any schedule takes
)

// Load implements backlog.CheckpointKeeper.
func (f *File) Load() (backlog.Checkpoint, error) {
	s, err := f.State()
	return s.Checkpoint, err
}

// State returns what is kept. The file is read each time: another process may have
// written it. The next change leaves the returned state alone.
func (f *File) State() (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.load()
	s.Resume = maps.Clone(s.Resume)
	s.Unfinished = slices.Clone(s.Unfinished)
	return s, err
}

func (f *File) load() (State, error) {
	if f.Path == "" {
		return f.memory, nil
	}
	if f.broken { // but for what others ask for
		kept, memory := File{Path: f.Path}, f.memory
		if s, err := kept.load(); err == nil {
			memory.Pause = s.Pause
		}
		return memory, nil
	}
	b, err := read(f.Path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if errors.As(err, new(*fs.PathError)) {
		return f.memory, err
	}
	var state State
	if err == nil {
		err = json.Unmarshal(b, &state)
	}
	if err != nil {
		return f.memory, fmt.Errorf("%s is not a state file and will be replaced: %w", f.Path, err)
	}
	return state, nil
}

// read returns the content of a regular file of at most so many bytes. A FIFO would be waited
// for, and a device may be endless.
func read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // os.ReadFile says it
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil, errors.New("it is not a regular file")
	case info.Size() > most:
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return os.ReadFile(path)
}

// Update implements backlog.CheckpointKeeper.
func (f *File) Update(change func(*backlog.Checkpoint)) error {
	return f.Change(func(s *State) { change(&s.Checkpoint) })
}

// Change changes the state in one step. A file that cannot be read is replaced.
func (f *File) Change(change func(*State)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Path == "" {
		change(&f.memory)
		return nil
	}
	defer f.lock(".lock")()
	state, err := f.load()
	before, _ := json.MarshalIndent(state, "", "  ")
	change(&state)
	f.memory = state
	after, _ := json.MarshalIndent(state, "", "  ")
	if err == nil && bytes.Equal(before, after) {
		return nil
	}
	if err = os.MkdirAll(filepath.Dir(f.Path), 0o755); err == nil {
		err = replace(f.Path, append(after, '\n'))
	}
	f.broken = err != nil
	return f.first(err, "the state cannot be kept, a restart will not know what was missed")
}

// replace puts a file with the content in the place of the one at the path, whole or not at
// all. Without a sync of the folder a power loss could bring the old one back. A file system
// that cannot do that for a folder has no more to offer, so that an error of it is no failure.
func replace(path string, content []byte) error {
	kept := renameio.WithExistingPermissions()
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() { // which the next process must be able to read
		kept = renameio.WithStaticPermissions(info.Mode().Perm() | 0o600)
	}
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644), kept)
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return err
	}
	_ = syncFolder(filepath.Dir(path))
	return nil
}

// syncFolder is a variable for the test, which cannot cut the power.
var syncFolder = func(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// first returns an error with what it means, but only the first: the others say no more.
func (f *File) first(err error, means string) error {
	if err == nil || f.warned {
		return nil
	}
	f.warned = true
	return fmt.Errorf("%s: %w", means, err)
}

// lock locks a file beside Path, which itself is replaced each time. ".lock" keeps other
// processes from an update between our reading and writing. Without the lock an update
// is still better than none.
func (f *File) lock(suffix string) (unlock func()) {
	if f.Path == "" {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(f.patience, lockPatience))
	defer cancel()
	l := newLock(f.Path + suffix)
	l.TryLockContext(ctx, 5*time.Millisecond)
	return func() { l.Close() }
}

// newLock returns a lock on a file that other accounts may lock, too. It makes the folder of the file.
func newLock(path string) *flock.Flock {
	os.MkdirAll(filepath.Dir(path), 0o755)
	return flock.New(path, flock.SetPermissions(0o644))
}

// isLocked reports whether a process has the file locked. Another process that asks at the same time
// does not count.
func isLocked(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	l := flock.New(path)
	defer l.Close()
	free, err := l.TryRLock()
	return err == nil && !free
}

// Lead marks the process as the daemon that leads and keeps this file, until stop is
// called or the process ends. What goes wrong costs nothing but that others do not know.
func (f *File) Lead() (stop func()) { return f.lock(".leader") }

// Leads reports whether a daemon of this machine leads, keeps this file, and has just
// been awake or has just begun.
func (f *File) Leads(s State, now time.Time) bool {
	if s.Daemon == nil {
		return false
	}
	awake := slices.MaxFunc([]time.Time{s.LastWake, time.Time(s.Daemon.Since)}, time.Time.Compare)
	return now.Sub(awake) <= time.Minute && isLocked(f.Path+".leader")
}

// Check returns why the file could not be read or written, nil if it could,
// together with the folders that are missing yet. Rights alone do not tell, since
// a file is replaced by a new one beside it: Check creates one for a moment.
func (f *File) Check() error {
	if f.Path == "" {
		return nil
	}
	if _, err := f.Load(); err != nil {
		return err
	}
	dir := filepath.Dir(f.Path)
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	probe, err := os.CreateTemp(dir, ".backlog-check-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written, and a restart will not know what was missed: folder %s: %w", f.Path, dir, errors.Unwrap(err))
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// unitFolder is the state folder of the unit that the package brings.
var unitFolder = "/var/lib/backlog"

// DefaultPath returns where the checkpoint of a work on a table is kept: in systemd's
// $STATE_DIRECTORY, else where the unit's daemon keeps this table's, so that a shell sees
// it, else under $XDG_STATE_HOME or in the home directory.
func DefaultPath(database, schema, table, work string) (string, error) {
	file := Name(database, schema, table, work) + ".json"
	dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	if _, err := os.Stat(filepath.Join(unitFolder, file)); dir == "" && err == nil {
		dir = unitFolder
	}
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
	return filepath.Join(dir, file), nil
}

// Name returns what names the work on the table among all; "" is the only one there.
func Name(database, schema, table, work string) string {
	text := place(database) + "\x00" + schema + "\x00" + table
	name := strings.ReplaceAll(table, "/", "_")
	if work != "" {
		text += "\x00" + work
		name += "-" + work
	}
	sum := sha256.Sum256([]byte(text))
	return name + "-" + hex.EncodeToString(sum[:4])
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

// At returns the keeper of a work's checkpoint in the file, or without one at the default
// place. It is kept in memory only for "none" and, with an error, where no folder can be
// found.
func At(file, database, schema, table, work string) (f *File, err error) {
	f = &File{Path: file}
	switch file {
	case "none":
		f.Path = ""
	case "":
		f.Path, err = DefaultPath(database, schema, table, work)
	}
	return f, err
}

// RunLocker returns what takes the run lock of a server, and after it a file of this
// machine beside the checkpoint, which every process has locked as long as its passes
// have not ended. A process whose connection breaks loses the server's lock with it,
// and may learn that some seconds later; until its handlers have ended the next one
// waits for the file.
func (f *File) RunLocker(server backlog.Locker) backlog.Locker {
	return hereLocker{server, f.Path + ".run"}
}

type hereLocker struct {
	backlog.Locker
	path string
}

// TryLock implements backlog.Locker. The file alone keeps nobody off: a process
// that has it for longer than handlers go on after a lost lock stands still, or
// cannot write its outcomes.
func (l hereLocker) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	lock, err := l.Locker.TryLock(ctx, name)
	if name != backlog.RunLock {
		return lock, err
	}
	if errors.Is(err, backlog.ErrLocked) && !errors.As(err, new(*backlog.Rival)) && isLocked(l.path) {
		return nil, backlog.ErrLockedHere
	}
	if err != nil {
		return nil, err
	}
	file := newLock(l.path)
	held := hereLock{lock, file}
	if got, err := file.TryLock(); got || err != nil {
		return held, nil
	}
	wctx, cancel := context.WithTimeout(ctx, backlog.TakeOverAfter)
	defer cancel()
	file.TryLockContext(wctx, 50*time.Millisecond)
	if err := cmp.Or(ctx.Err(), lock.Check(ctx)); err != nil {
		held.Unlock()
		return nil, err
	}
	return held, nil
}

type hereLock struct {
	backlog.Lock
	file *flock.Flock
}

// Unlock implements backlog.Lock.
func (l hereLock) Unlock() error {
	err := l.Lock.Unlock()
	l.file.Close()
	return err
}
