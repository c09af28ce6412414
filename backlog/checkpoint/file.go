// Package checkpoint owns the state folder: what a daemon remembers from one start to the next,
// and what other commands need to know about it. Passes work correctly without any of it.
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
	"io"
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
	Work    *Work              `json:"work,omitempty"`   // the configuration whose ticks these are
	Daemon  *watch.Daemon      `json:"daemon,omitempty"` // the leader, which may have been killed: see File.HasLeader
	Pause   *watch.Pause       `json:"pause,omitempty"`
	Outage  *watch.Outage      `json:"outage,omitempty"`
	Outages []watch.PastOutage `json:"outages,omitempty"` // the last ones that have ended
	Trial   *Trial             `json:"trial,omitempty"`
}

// A Trial says of which states a row has taken its outcomes in a trial write.
type Trial struct {
	Of     string    `json:"of"`     // a digest of all that the result depends on
	States uint64    `json:"states"` // as [backlog.Engine.TrialsPassed] returns them
	At     time.Time `json:"at"`
}

// trialAge is how long the result of a trial counts, so that a change that the digest does not show is found
// within a day.
const trialAge = 24 * time.Hour

// With returns the trial of the states: those of an earlier one with the same digest, and more. It counts from
// the earlier one.
func (t *Trial) With(of string, states uint64, now time.Time) *Trial {
	if t.Passed(of, now) != 0 {
		now = t.At
	}
	return &Trial{Of: of, States: states, At: now}
}

// Passed returns the states that need no trial, since one with the same digest has passed not long ago.
func (t *Trial) Passed(of string, now time.Time) (states uint64) {
	if t == nil || of == "" || t.Of != of || now.Before(t.At) || now.Sub(t.At) > trialAge {
		return 0
	}
	return t.States
}

// Current returns the pause that is in force at the time; nil: no pause is.
func (s *State) Current(now time.Time) *watch.Pause { return s.Pause.Current(now) }

// A File is the state file: JSON that is replaced as a whole or not at all. A state that
// cannot be written is kept in memory until the process ends. Several processes may use the
// same file. Its methods may be called concurrently.
type File struct {
	Path  string // "": memory only
	Table string // the name by which lines are known to be of this table; "": they have no name

	patience time.Duration // how long to wait for another process's update; 0: lockPatience

	mu     sync.Mutex
	memory State
	broken bool // the last write failed
	warned bool // a failed write has been reported

	hours hoursCache
}

var _ backlog.CheckpointKeeper = (*File)(nil)

// Folder returns the folder of the file; "": the state is in memory only.
func (f *File) Folder() string {
	if f.Path == "" {
		return ""
	}
	return filepath.Dir(f.Path)
}

const (
	lockPatience = time.Second // how long to wait for another process's update
	maxSize      = 1 << 20     // in bytes; more than the state of any schedule takes
)

// Load implements backlog.CheckpointKeeper.
func (f *File) Load() (backlog.Checkpoint, error) {
	s, err := f.State()
	return s.Checkpoint, err
}

// State returns the state. It reads the file each time, because another process may have
// written it. With an error, the state is the one in memory. Later changes do not affect the
// returned value.
func (f *File) State() (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.load()
	return state.clone(), err
}

// clone returns a copy that does not change when [File.Change] changes the state in memory,
// which it does in place.
func (s State) clone() State {
	s.Resume = maps.Clone(s.Resume)
	s.Unfinished = slices.Clone(s.Unfinished)
	return s
}

// load returns the state that is in force, without a copy of what is in memory. f.mu must be
// held.
func (f *File) load() (State, error) {
	if f.Path == "" {
		return f.memory, nil
	}
	if f.broken { // only a pause comes from the file: other processes may still set one
		onDisk := File{Path: f.Path}
		state := f.memory
		if s, err := onDisk.load(); err == nil {
			state.Pause = s.Pause
		}
		return state, nil
	}
	b, err := readRegular(f.Path, maxSize)
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

// readRegular reads a regular file of at most maxBytes. Reading a FIFO could block, and a device may be endless.
func readRegular(path string, maxBytes int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // os.ReadFile returns the same error
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxBytes:
		return nil, fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	return os.ReadFile(path)
}

// Update implements backlog.CheckpointKeeper.
func (f *File) Update(change func(*backlog.Checkpoint)) error {
	return f.Change(func(s *State) { change(&s.Checkpoint) })
}

// Change applies change to the state and writes it, under a lock that excludes other processes.
// A file that cannot be read is replaced. After a failed write, the state is kept in memory; only
// the first failure is returned.
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
	err = makeFolderOf(f.Path)
	if err == nil {
		err = replace(f.Path, bytes.NewReader(append(after, '\n')))
	}
	f.broken = err != nil
	return f.firstFailure(err, "the state cannot be kept, a restart will not know what was missed")
}

// replace replaces the file at the path, as a whole or not at all. It also syncs the folder, without
// which a power loss could bring the old file back. An error of that is ignored: some file systems
// cannot sync a folder.
func replace(path string, content io.Reader) error {
	permissions := renameio.WithExistingPermissions()
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() { // its owner must stay able to read it
		permissions = renameio.WithStaticPermissions(info.Mode().Perm() | 0o600)
	}
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644), permissions)
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return err
	}
	_ = syncFolder(filepath.Dir(path))
	return nil
}

// makeFolderOf creates the missing folders of the path, for this account alone: errors of past passes may quote
// records. A new folder is synced into the one that it is in, without which a power loss could take it away with
// everything in it.
func makeFolderOf(path string) error {
	existing := existingParent(path)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	for dir := filepath.Dir(path); err == nil && dir != existing; dir = filepath.Dir(dir) {
		_ = syncFolder(filepath.Dir(dir))
	}
	return err
}

// syncFolder is a variable so that a test can observe it: the test cannot cut the power.
var syncFolder = func(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// firstFailure returns the first error, with its consequence, and nil for all later ones: they
// say the same.
func (f *File) firstFailure(err error, consequence string) error {
	if err == nil || f.warned {
		return nil
	}
	f.warned = true
	return fmt.Errorf("%s: %w", consequence, err)
}

// lock locks a file next to Path, because Path itself is replaced at each change. ".lock" keeps
// other processes from changing the state between our read and our write. If the lock cannot be
// had in time, the caller goes on without it: a change without the lock is better than none.
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

// newLock returns a lock on a file that other accounts may lock, too. It creates the folder of the file.
func newLock(path string) *flock.Flock {
	_ = makeFolderOf(path)
	return flock.New(path, flock.SetPermissions(0o644))
}

// isLocked reports whether a process holds the lock on the file. Other processes that check at the
// same time do not count.
func isLocked(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	l := flock.New(path)
	defer l.Close()
	free, err := l.TryRLock()
	return err == nil && !free
}

// MarkLeader marks the process as the leading daemon that uses this file, until stop is called or
// the process ends. A failure is ignored: other processes then do not see the leader.
func (f *File) MarkLeader() (stop func()) { return f.lock(".leader") }

// HasLeader reports whether a daemon of this machine leads, uses this file, and woke or started
// within the last minute.
func (f *File) HasLeader(s State, now time.Time) bool {
	if s.Daemon == nil {
		return false
	}
	lastSign := slices.MaxFunc([]time.Time{s.LastWake, time.Time(s.Daemon.Since)}, time.Time.Compare)
	return now.Sub(lastSign) <= time.Minute && isLocked(f.Path+".leader")
}

// Check returns why the file or its missing folders could not be created, read or written; nil: they
// can. Writing replaces the file by a new one in the same folder, so that the rights on the file do
// not answer this: Check creates another file for a moment.
func (f *File) Check() error {
	if f.Path == "" {
		return nil
	}
	if _, err := f.Load(); err != nil {
		return err
	}
	dir := existingParent(f.Path)
	probe, err := os.CreateTemp(dir, ".backlog-check-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written, and a restart will not know what was missed: folder %s: %w", f.Path, dir, errors.Unwrap(err))
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// existingParent returns the innermost folder of the path that exists.
func existingParent(path string) string {
	dir := filepath.Dir(path)
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// unitFolder is the state folder of the packaged systemd unit. Tests change it.
var unitFolder = "/var/lib/backlog"

// DefaultPath returns the default path of a state file: in systemd's $STATE_DIRECTORY; else, if the
// daemon of the packaged unit has its file for this table there, in the unit's state folder, so that
// commands in a shell find it; else under $XDG_STATE_HOME or in the home directory.
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

// Name returns a name of the work on the table that is unique among all tables and works. work is "" for the
// only work on a table.
func Name(database, schema, table, work string) string {
	text := databaseIdentity(database) + "\x00" + schema + "\x00" + table
	name := strings.ReplaceAll(table, "/", "_")
	if work != "" {
		text += "\x00" + work
		name += "-" + work
	}
	sum := sha256.Sum256([]byte(text))
	return name + "-" + hex.EncodeToString(sum[:4])
}

// defaultPorts are the ports of URLs without one, by their scheme.
var defaultPorts = map[string]string{"postgres": ":5432", "mysql": ":3306"}

// databaseIdentity reduces the URL of a database to the parts that decide which tables it leads to. Another
// password or session setting leads to the same state file. A text that is not a URL stays as it is.
func databaseIdentity(database string) string {
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
	server := url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: u.Path}
	switch scheme {
	case "postgresql":
		server.Scheme = "postgres"
	case "mariadb":
		server.Scheme = "mysql"
	}
	if u.Port() == "" {
		server.Host += defaultPorts[server.Scheme]
	}
	query := u.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool {
		return !slices.Contains([]string{"host", "port", "dbname", "search_path"}, name)
	})
	server.RawQuery = query.Encode()
	return server.String()
}

// At returns the state file of a work: at the path file, or at the default path if that is "". For "none", and
// with an error if there is no folder for it, the state is in memory only.
func At(file, database, schema, table, work string) (f *File, err error) {
	f = &File{Path: file, Table: Name(database, schema, table, work)}
	switch file {
	case "none":
		f.Path = ""
	case "":
		f.Path, err = DefaultPath(database, schema, table, work)
	}
	return f, err
}

// RunLocker returns a locker that takes the run lock of a server and then locks a file next to
// the state file, which a process holds until its passes have ended. A process whose connection
// breaks loses the server's lock at once but may notice only seconds later. The file makes the
// next process on this machine wait until the handlers of that one have ended.
func (f *File) RunLocker(server backlog.Locker) backlog.Locker {
	return localLocker{server, f.Path + ".run"}
}

// A localLocker locks the file at path after the run lock of a server.
type localLocker struct {
	backlog.Locker
	path string
}

// TryLock implements backlog.Locker. It waits for the file no longer than handlers can go on after
// a lost lock. A process that still holds the file then is suspended or cannot write its outcomes.
func (l localLocker) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	lock, err := l.Locker.TryLock(ctx, name)
	if name != backlog.RunLock {
		return lock, err
	}
	_, isRival := errors.AsType[*backlog.Rival](err)
	if errors.Is(err, backlog.ErrLocked) && !isRival && isLocked(l.path) {
		return nil, backlog.ErrLockedHere
	}
	if err != nil {
		return nil, err
	}
	file := newLock(l.path)
	both := localLock{lock, file}
	locked, err := file.TryLock()
	if locked || err != nil { // without the file, the server's lock must do
		return both, nil
	}
	waiting, cancel := context.WithTimeout(ctx, backlog.TakeOverAfter)
	defer cancel()
	file.TryLockContext(waiting, 50*time.Millisecond)
	if err := cmp.Or(ctx.Err(), lock.Check(ctx)); err != nil {
		both.Unlock()
		return nil, err
	}
	return both, nil
}

// A localLock is a server's lock together with a locked file of this machine.
type localLock struct {
	backlog.Lock
	file *flock.Flock
}

// Unlock implements backlog.Lock.
func (l localLock) Unlock() error {
	err := l.Lock.Unlock()
	l.file.Close()
	return err
}
