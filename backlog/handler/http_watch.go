package handler

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// A watched value is made of files, and made anew when one of them has
// changed, so that what expires can be replaced under a running program. Its
// methods may be called concurrently.
type watched[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error) // called with one per path

	mu    sync.Mutex
	seen  []fs.FileInfo // as they were just before value was read; nil: never
	value T
	lost  bool // the last get failed
}

// A file that was good and is not any more may just be being written: not
// everybody replaces it in one step. For settling it is read again.
const (
	settling  = 2 * time.Second
	lookAgain = 50 * time.Millisecond
)

// get returns the value of the files as they are now. An error names the file
// and the cure. The first one after a success comes only once the files have
// been bad for 2 seconds.
func (w *watched[T]) get() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	value, err := w.read()
	for waited := time.Duration(0); err != nil && w.seen != nil && !w.lost && waited < settling; waited += lookAgain {
		time.Sleep(lookAgain)
		value, err = w.read()
	}
	w.lost = err != nil
	return value, err
}

// read returns the value of the files as they are at this moment. w.mu is held.
func (w *watched[T]) read() (T, error) {
	now := make([]fs.FileInfo, len(w.paths))
	same := w.seen != nil
	for i, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			return *new(T), unreadable(path, err)
		}
		now[i] = info
		same = same && os.SameFile(info, w.seen[i]) && info.ModTime().Equal(w.seen[i].ModTime()) && info.Size() == w.seen[i].Size()
	}
	if same {
		return w.value, nil
	}
	contents := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		var err error
		if contents[i], err = readSmall(path); err != nil {
			return *new(T), err
		}
	}
	value, err := w.parse(contents)
	if err != nil {
		return *new(T), err
	}
	w.seen, w.value = now, value
	return value, nil
}

// maxSmall is more than any file has that is meant.
const maxSmall = 1 << 20

// readSmall reads a regular file that is not large.
func readSmall(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; name one", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(b) > maxSmall {
		return nil, fmt.Errorf("%s has more than 1 MiB; is it the right file?", path)
	}
	return b, nil
}

func unreadable(path string, err error) error {
	why := err
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		why = p.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &failure{path + " does not exist; create it or correct the path", []error{err}}
	case errors.Is(err, fs.ErrPermission):
		return &failure{path + " may not be read by this user; see the permissions of the file and its directories", []error{err}}
	}
	return &failure{fmt.Sprintf("%s cannot be read: %v", path, why), []error{err}}
}
