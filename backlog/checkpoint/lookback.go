package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// LookBack returns what the state folder has about passes, outages and pauses, and which daemon leads. What cannot
// be read is logged and left out. work is the name of the work. seen are passes of this process, which the
// folder may lack.
func (f *File) LookBack(
	work string, now time.Time, seen []watch.Pass, log *slog.Logger, leader func(State) (string, error),
) watch.LookBack {
	saved, err := f.State()
	if err != nil {
		log.Warn("the state cannot be read", "error", err)
	}
	passes, err := f.Passes()
	if err != nil {
		log.Warn("the last passes cannot be read", "error", err)
	}
	b := watch.LookBack{
		Name:     work,
		Last:     watch.LastOfEach(append(passes, seen...)),
		LastWake: inspect.Stamp(saved.LastWake),
		Outage:   saved.Outage,
		Pause:    saved.Current(now),
	}
	b.Leader, err = leader(saved)
	if err != nil {
		log.Warn("the leader cannot be determined", "error", err)
	}
	if b.Leader == watch.Here {
		b.Daemon = saved.Daemon
	}
	b.Draining = watch.Draining(saved.Outage, saved.Outages, now)
	if b.Draining != nil {
		b.Draining.Since = b.Draining.Since.UTC()
		b.Draining.Ended = b.Draining.Ended.UTC()
		b.Draining.Drained = b.Draining.Drained.UTC()
		b.Draining.Reminded = time.Time{}
	}
	if b.Outage != nil {
		b.Outage = new(*b.Outage)
		b.Outage.Since = b.Outage.Since.UTC()
		b.Outage.Reminded = time.Time{}
	}
	return b
}

// PausedBy returns a function that reports whether the file has a pause now. It logs when a pause begins
// and ends. While the file cannot be read, it repeats its last answer.
func (f *File) PausedBy(now func() time.Time, log *slog.Logger) func() bool {
	var wasPaused atomic.Bool
	return func() bool {
		s, err := f.State()
		if err != nil {
			return wasPaused.Load()
		}
		p := s.Current(now())
		paused := p != nil
		changed := wasPaused.Swap(paused) != paused
		switch {
		case changed && paused:
			log.Info("paused", "how_long", p.String(), "by", p.By)
		case changed:
			log.Info("resumed")
		}
		return paused
	}
}

// A DuePass is the pass that `once --due` runs for the ticks since the last one.
type DuePass struct {
	Pass       backlog.Pass
	Tiers      map[string]bool // the tiers whose ticks it runs, by name
	Since      time.Time       // the ticks are later than this
	Missed     int             // how many ticks there are in excess of one per tier
	MissedMore bool            // Missed is a lower bound
}

// DuePass returns the pass of the widest tier that is due, which runs the ticks of all. due is false if no tier is.
// Ticks count from the last wake in the state saved, or without one for a minute, and up to upTo, which --now may
// set. A tier with an unfinished pass is due as well, unless a daemon leads here, at the time now of the clock: then
// that pass may be under way.
func (f *File) DuePass(saved State, s *tiers.Schedule, upTo, now time.Time) (d DuePass, due bool) {
	unfinished := make(map[string]bool)
	if !f.HasLeader(saved, now) {
		for _, name := range saved.Unfinished {
			unfinished[name] = true
		}
	}
	since := cmp.Or(saved.LastWake, upTo.Add(-time.Minute))
	ticked := s.DueOrOwed(since, upTo, unfinished)
	if len(ticked) == 0 {
		return DuePass{}, false
	}
	names := make(map[string]bool)
	for _, x := range ticked {
		names[x.Tier.Name] = true
	}
	isIdle := func(tiers.Tier) bool { return true } // this process runs no other pass
	pick := tiers.Coalesce(ticked, isIdle)
	d = DuePass{Pass: backlog.TierPass(s, pick.Start.Tier), Tiers: names, Since: since}
	d.Pass.Now = upTo
	d.Pass.Tick = pick.Start.Last
	d.Missed, d.MissedMore = pick.Missed()
	return d, true
}

// RunPass runs a pass from the resume point of its tier, and saves the next resume point. taken are the tiers whose
// ticks it runs; nil: it runs none. They are unfinished in the file until the pass has ended, so that a kill does
// not lose them. onFile is called with the result of each access to the file, which is nil for a success.
func (f *File) RunPass(
	ctx context.Context, e *backlog.Engine, p backlog.Pass, taken map[string]bool, onFile func(error),
) (backlog.Report, error) {
	before, err := f.Load()
	onFile(err)
	p.Resume = before.Resume[p.Tier]
	if taken != nil {
		owed := slices.Sorted(maps.Keys(taken))
		onFile(f.Update(func(s *backlog.Checkpoint) { s.Owe(owed...) }))
	}
	report, err := e.Pass(ctx, p)
	onFile(f.Update(func(s *backlog.Checkpoint) {
		if taken != nil {
			s.LastWake = p.Now
			if !report.CutShort() {
				s.Taken(taken)
			}
		}
		s.Note(report)
	}))
	return report, err
}

const (
	// maxBytes is the size at which the passes before the newest keptBytes are folded into a line a day.
	// keptBytes are 90 days of 300 passes.
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
	line, _ := json.Marshal(p) // cannot fail: it has numbers and texts only
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.lock(".lock")()
	lost, err := addLine(f.passesPath(), append(line, '\n'))
	return cmp.Or(f.firstFailure(err, "the pass cannot be kept, status will not know of it"), lost)
}

// addLine appends a line to a file. If a kill has cut the last line short, the new one still starts on
// a line of its own. A file that is too large is replaced by one whose older passes are folded. One that is not
// regular, or belongs to another account, is replaced, too; if it cannot be read, lost says that its lines are lost.
func addLine(path string, line []byte) (lost, err error) {
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
		return addFolded(path, line)
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

// addFolded replaces a file by its newest lines and the new one, after what [advise.FoldDays] makes of its older
// lines.
func addFolded(path string, line []byte) (lost, err error) {
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
	folded, err := advise.FoldDays(io.NewSectionReader(file, 0, older))
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

// OpenPasses opens the whole file of passes, which may have 32 MiB. If there is none, the error is
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
