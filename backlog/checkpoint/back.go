package checkpoint

import (
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
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// LookBack reads the folder, which may tell nothing, and asks who leads. work is its name. Seen are passes
// that the process knows of itself: the folder may not have them.
func (f *File) LookBack(
	work string, now time.Time, seen []watch.Pass, log *slog.Logger, leader func(State) (string, error),
) watch.LookBack {
	kept, err := f.State()
	if err != nil {
		log.Warn("the state cannot be read", "error", err)
	}
	passes, err := f.Passes()
	if err != nil {
		log.Warn("the last passes cannot be read", "error", err)
	}
	b := watch.LookBack{
		Name: work, Last: watch.LastOfEach(append(passes, seen...)), LastWake: inspect.Stamp(kept.LastWake),
		Outage: kept.Outage, Pause: kept.Current(now),
	}
	if b.Leader, err = leader(kept); err != nil {
		log.Warn("who leads cannot be asked", "error", err)
	}
	if b.Leader == watch.Here {
		b.Daemon = kept.Daemon
	}
	if b.Outage != nil {
		b.Outage = new(*b.Outage)
		b.Outage.Since = b.Outage.Since.UTC()
		b.Outage.Reminded = time.Time{}
	}
	return b
}

// PausedBy returns what asks the file for a pause, and logs when one begins and ends.
func (f *File) PausedBy(now func() time.Time, log *slog.Logger) func() bool {
	var was atomic.Bool
	return func() bool {
		s, err := f.State()
		if err != nil {
			return was.Load()
		}
		p := s.Current(now())
		switch is := p != nil; {
		case was.Swap(is) == is:
		case is:
			log.Info("paused", "how_long", p.String(), "by", p.By)
		default:
			log.Info("resumed")
		}
		return p != nil
	}
}

// Ticks are the ticks that `once --due` is to run, as one pass.
type Ticks struct {
	Pass   backlog.Pass    // its Tier is empty if there are none
	Tiers  map[string]bool // that have ticked
	Missed int             // ticks beside one of each tier
	More   bool            // missed is not all
	Since  time.Time
}

// Ticks returns what ticked and was not run on this machine, as far as the state tells, else what ticked in
// the last minute. What is unfinished is left to a daemon that leads here at the time present: its pass may be
// under way.
func (f *File) Ticks(kept State, s *tiers.Schedule, now, present time.Time) (d Ticks) {
	d.Since = cmp.Or(kept.LastWake, now.Add(-time.Minute))
	owed := make(map[string]bool)
	if !f.Leads(kept, present) {
		for _, name := range kept.Unfinished {
			owed[name] = true
		}
	}
	due := s.DueOrOwed(d.Since, now, owed)
	pick := tiers.Coalesce(due, func(tiers.Tier) bool { return true })
	if pick.Start == nil {
		return d
	}
	d.Pass = backlog.TierPass(s, pick.Start.Tier)
	d.Pass.Now, d.Pass.Tick, d.Tiers = now, pick.Start.Last, make(map[string]bool)
	d.Missed, d.More = pick.Missed()
	for _, x := range due {
		d.Tiers[x.Tier.Name] = true
	}
	return d
}

// RunPass runs a pass from its tier's resume point and keeps the next one. The ticks of the tiers that it is
// for, nil: for none, are unfinished until it has ended, so that a kill does not lose them. failed is
// called with what keeping the file results in, mostly nil.
func (f *File) RunPass(
	ctx context.Context, e *backlog.Engine, p backlog.Pass, taken map[string]bool, failed func(error),
) (backlog.Report, error) {
	before, err := f.Load()
	failed(err)
	p.Resume = before.Resume[p.Tier]
	if taken != nil {
		owed := slices.Sorted(maps.Keys(taken))
		failed(f.Update(func(s *backlog.Checkpoint) { s.Owe(owed...) }))
	}
	report, err := e.Pass(ctx, p)
	failed(f.Update(func(s *backlog.Checkpoint) {
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
	line, _ := json.Marshal(p) // numbers and texts
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.lock(".lock")()
	lost, err := addLine(f.passesPath(), append(line, '\n'))
	return cmp.Or(f.first(err, "the pass cannot be kept, status will not know of it"), lost)
}

// addLine appends a line. A line before it that was cut short by a kill stays by itself. A
// file that has grown too large, or is another account's, is replaced, and so is what cannot
// be read: lost says so.
func addLine(path string, line []byte) (lost, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o644)
	if err == nil {
		defer file.Close()
	}
	info, no := os.Stat(path)
	if no != nil {
		info, no = os.Lstat(path) // of a symbolic link that leads nowhere
	}
	if no == nil && (errors.Is(err, fs.ErrPermission) || !info.Mode().IsRegular() || info.Size() >= maxBytes) {
		kept, err := newest(path, keptBytes)
		if err != nil {
			lost = fmt.Errorf("%s was replaced, and what it told of earlier passes is lost: it could not be read: %w", path, err)
		}
		if err := replace(path, append(kept, line...)); err != nil {
			return nil, err
		}
		return lost, nil
	}
	if err != nil {
		return nil, err
	}
	last := []byte{'\n'}
	end, _ := file.Seek(0, io.SeekEnd)
	file.ReadAt(last, end-1) // fails for an empty file
	if last[0] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	_, err = file.Write(line)
	return nil, err
}

// newest returns the whole lines among the last bytes of a regular file. A FIFO would be
// waited for.
func newest(path string, size int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	from := max(0, info.Size()-size)
	b, err := io.ReadAll(io.NewSectionReader(file, from, size))
	if from > 0 {
		_, b, _ = bytes.Cut(b, []byte{'\n'})
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
