package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func (k *checker) state() {
	path, err := statePath(k.cfg)
	if err == nil && path != "" {
		s := &stateFile{path: path}
		if _, err = s.Load(); err == nil {
			err = mayCreate(path)
		}
	}
	switch {
	case err != nil:
		k.warn("state", "set state: to a file that this user may write, or $STATE_DIRECTORY to a folder; state: none does without", "%v", err)
	case path == "":
		k.good("state", "none is kept: a restart does not know what was missed")
	default:
		k.good("state", "%s", path)
	}
}

// mayCreate returns nil if the file can be written, together with the folders
// that there are not yet. It creates another one for a moment, since rights alone
// do not tell: a file is replaced by a new one beside it.
func mayCreate(path string) error {
	dir := filepath.Dir(path)
	for {
		info, err := os.Stat(dir)
		switch parent := filepath.Dir(dir); {
		case errors.Is(err, fs.ErrNotExist) && parent != dir:
			dir = parent
			continue
		case err != nil:
			return fmt.Errorf("%s cannot be written: %w", path, err)
		case !info.IsDir():
			return fmt.Errorf("%s cannot be written: %s is no folder", path, dir)
		}
		break
	}
	f, err := os.CreateTemp(dir, ".backlog-check-*")
	if err != nil {
		why := err
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			why = p.Err
		}
		return fmt.Errorf("%s cannot be written, and a restart will not know what was missed: folder %s: %w", path, dir, why)
	}
	f.Close()
	return os.Remove(f.Name())
}
