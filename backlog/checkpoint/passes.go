package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"

	"backlog/backlog/watch"
)

const (
	// The file of passes is cut to its newest keptBytes when it has come to maxBytes.
	maxBytes, keptBytes = 2 << 20, 1 << 20
	// maxPasses is how many passes are looked back at.
	maxPasses = 1000
	// maxCauses is how many causes of a pass are kept.
	maxCauses = 20
)

// passesPath is the file of passes, a line of JSON each.
func (f *File) passesPath() string { return strings.TrimSuffix(f.Path, ".json") + "-passes.jsonl" }

// AddPass keeps what a pass has come to. It returns an error only where nothing else
// could not be kept before. It may be called concurrently, by several processes too.
func (f *File) AddPass(p watch.Pass) error {
	if f.Path == "" {
		return nil
	}
	p.Causes = p.Causes[:min(maxCauses, len(p.Causes))]
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.lock(".lock")()
	err = addLine(f.passesPath(), append(line, '\n'))
	first := err != nil && !f.warned
	if f.warned = f.warned || err != nil; first {
		return fmt.Errorf("the pass cannot be kept, status will not know of it: %w", err)
	}
	return nil
}

// addLine appends a line. A line before it that was cut short by a kill stays by itself. A
// file that has grown too large, or is another account's, is replaced.
func addLine(path string, line []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o644)
	defer file.Close()
	if info, no := os.Stat(path); no == nil && (errors.Is(err, fs.ErrPermission) || !info.Mode().IsRegular() || info.Size() >= maxBytes) {
		kept, err := newest(path, keptBytes)
		if err != nil {
			return err
		}
		return renameio.WriteFile(path, append(kept, line...), 0o644)
	}
	if err != nil {
		return err
	}
	last := []byte{'\n'}
	if end, err := file.Seek(0, io.SeekEnd); err == nil && end > 0 {
		file.ReadAt(last, end-1)
	}
	if last[0] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	_, err = file.Write(line)
	return err
}

// newest returns the whole lines among the last bytes of a regular file.
func newest(path string, size int) ([]byte, error) {
	b, err := read(path, 2*maxBytes)
	if len(b) > size {
		_, b, _ = bytes.Cut(b[len(b)-size:], []byte{'\n'})
	}
	return b[:bytes.LastIndexByte(b, '\n')+1], err
}

// Passes returns the last passes, the newest last. A line that is none is left out.
func (f *File) Passes() (list []watch.Pass, err error) {
	if f.Path == "" {
		return nil, nil
	}
	b, err := newest(f.passesPath(), 2*maxBytes)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for line := range bytes.Lines(b) {
		var p watch.Pass
		if json.Unmarshal(line, &p) == nil && p.Tier != "" {
			list = append(list, p)
		}
	}
	return list[max(0, len(list)-maxPasses):], err
}
