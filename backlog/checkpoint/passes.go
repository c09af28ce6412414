package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/watch"
)

const (
	// maxBytes is the size at which the passes before the newest keptBytes are folded: into a line an hour in
	// the last [advise.KeptHours], and a line a day before that. keptBytes are 90 days of 300 passes, the lines of
	// the hours at most 2 MiB, and the lines of the days about 700 KiB a year.
	maxBytes  = 32 << 20
	keptBytes = 24 << 20
	// readBytes and maxPasses bound how much of the file is read for people.
	readBytes = 2 << 20
	maxPasses = 1000
	// maxCauses bounds how many causes are written for a pass.
	maxCauses = 20
)

// passesPath is the path of the file of passes. It has a line of JSON for each.
func (f *File) passesPath() string { return strings.TrimSuffix(f.Path, ".json") + "-passes.jsonl" }

// AddPass appends the summary of a pass to the file of passes. Only the first failure is returned, and
// the loss of earlier passes. It may be called concurrently, also by several processes.
func (f *File) AddPass(p watch.Pass) error {
	if f.Path == "" {
		return nil
	}
	p.Causes = p.Causes[:min(maxCauses, len(p.Causes))]
	return f.addLine(p, time.Time(p.Started), "the pass cannot be kept, status will not know of it")
}

// addLine appends a line of a time to the file of passes. The error of a failure says what that leads to.
func (f *File) addLine(v any, at time.Time, consequence string) error {
	line, _ := json.Marshal(v) // cannot fail: it has numbers and texts only
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.lock(".lock")()
	lost, err := addLine(f.passesPath(), append(line, '\n'), at)
	return cmp.Or(f.firstFailure(err, consequence), lost)
}

// addLine appends a line of a time to a file. If a kill has cut the last line short, the new one still starts on
// a line of its own. A file that is too large is replaced by one whose older passes are folded. One that is not
// regular, or belongs to another account, is replaced, too; if it cannot be read, lost says that its lines are lost.
func addLine(path string, line []byte, at time.Time) (lost, err error) {
	if err := makeFolderOf(path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o644)
	if err == nil {
		defer file.Close()
	}
	info, statErr := os.Stat(path)
	if statErr != nil {
		info, statErr = os.Lstat(path) // of a dangling symbolic link
	}
	if statErr == nil && (errors.Is(err, fs.ErrPermission) || !info.Mode().IsRegular() || info.Size() >= maxBytes) {
		return addFolded(path, line, at)
	}
	if err != nil {
		return nil, err
	}
	end, _ := file.Seek(0, io.SeekEnd)
	_, err = file.Write(append(missingNewline(file, end), line...))
	return nil, err
}

// missingNewline returns the newline that a file of the size lacks at its end.
func missingNewline(file io.ReaderAt, size int64) []byte {
	last := []byte{'\n'}
	file.ReadAt(last, size-1) // fails for an empty file
	if last[0] == '\n' {
		return nil
	}
	return []byte{'\n'}
}

// addFolded replaces a file by its newest lines and the new one of a time, after what [advise.Fold] makes of its
// older lines.
func addFolded(path string, line []byte, at time.Time) (lost, err error) {
	file, size, err := openRegular(path)
	if err != nil {
		if failed := replace(path, bytes.NewReader(line)); failed != nil {
			return nil, failed
		}
		return fmt.Errorf("%s was replaced, and what it told of earlier passes is lost: it could not be read: %w", path, err), nil
	}
	defer file.Close()
	older, err := olderSize(file, size)
	if err != nil {
		return nil, err
	}
	folded, err := advise.Fold(io.NewSectionReader(file, 0, older), at.Add(-advise.KeptHours))
	if err != nil {
		return nil, err
	}
	return nil, replace(path, io.MultiReader(
		bytes.NewReader(folded),
		io.NewSectionReader(file, older, size-older),
		bytes.NewReader(append(missingNewline(file, size), line...)),
	))
}

// olderSize returns the size of the lines before the newest keptBytes of a file.
func olderSize(file io.ReaderAt, size int64) (int64, error) {
	if size <= keptBytes {
		return 0, nil
	}
	r := bufio.NewReader(io.NewSectionReader(file, size-keptBytes, keptBytes))
	older := size - keptBytes
	for {
		b, err := r.ReadSlice('\n')
		older += int64(len(b))
		switch {
		case err == nil || err == io.EOF:
			return older, nil
		case err != bufio.ErrBufferFull:
			return 0, err
		}
	}
}

// openRegular opens a regular file and returns its size. Other files are an error, because reading a FIFO could
// block.
func openRegular(path string) (file *os.File, size int64, err error) {
	file, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// newestLines returns the whole lines among the last size bytes of a regular file.
func newestLines(path string, size int64) ([]byte, error) {
	file, whole, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	from := max(0, whole-size)
	b, err := io.ReadAll(io.NewSectionReader(file, from, size))
	if from > 0 {
		_, b, _ = bytes.Cut(b, []byte{'\n'})
	}
	return b[:bytes.LastIndexByte(b, '\n')+1], err
}

// OpenPasses opens the whole file of passes, which may have 32 MiB. Without the file the error is
// [fs.ErrNotExist].
func (f *File) OpenPasses() (io.ReadCloser, error) {
	if f.Path == "" {
		return nil, fs.ErrNotExist
	}
	file, _, err := openRegular(f.passesPath())
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Passes returns the last passes, the newest last. Lines that cannot be read are left out.
func (f *File) Passes() (list []watch.Pass, err error) {
	if f.Path == "" {
		return nil, nil
	}
	b, err := newestLines(f.passesPath(), readBytes)
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
