package checkpoint

import (
	"bufio"
	"bytes"
	"io"
	"sync"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/watch"
)

// An hoursCache has the sums of the file of passes up to a place, so that only what comes after it is read next.
type hoursCache struct {
	mu    sync.Mutex
	sums  *advise.Hours // nil: nothing was read yet
	read  int64         // the place
	last  []byte        // the line that ends there: if it has gone, the file was replaced
	count time.Time     // the last hour in which this process has kept a count
}

// rereadAfter is for how long the cache keeps hours that are older than [advise.KeptHours].
const rereadAfter = 24 * time.Hour

// Timeline returns what the state folder has of the last day and the last 30 days, with days of a zone; nil: it has
// nothing. What cannot be read is left out; [File.State] and [File.Passes] return why.
func (f *File) Timeline(now time.Time, zone *time.Location) *watch.Timeline {
	state, _ := f.State()
	var outages []advise.Interval
	for _, o := range state.Outages {
		outages = append(outages, advise.Interval{Since: o.Since, Ended: o.Ended})
	}
	if o := state.Outage; o != nil {
		outages = append(outages, advise.Interval{Since: o.Since, Ended: now})
	}
	f.hours.mu.Lock()
	defer f.hours.mu.Unlock()
	f.readHours(now)
	return watch.NewTimeline(f.hours.sums.With(outages), now, zone)
}

// readHours adds the new lines of the file of passes to the cache, as far as they can be read. The lock of the cache is
// held.
func (f *File) readHours(now time.Time) {
	c := &f.hours
	from := now.Add(-advise.KeptHours)
	isOld := c.sums == nil || from.Sub(c.sums.From) > rereadAfter
	if isOld || from.Before(c.sums.From) { // or the clock was set back
		c.reset(f.Table, from)
	}
	if f.Path == "" {
		return
	}
	file, size, err := openRegular(f.passesPath())
	if err != nil {
		c.reset(f.Table, from)
		return
	}
	defer file.Close()
	if !c.continues(file) {
		c.reset(f.Table, from)
	}
	r := bufio.NewReader(io.NewSectionReader(file, c.read, size-c.read))
	for {
		line, err := r.ReadBytes('\n')
		if err != nil { // at the end of the file: a line that is still being written is read the next time
			return
		}
		c.sums.Add(line)
		c.read += int64(len(line))
		c.last = line
	}
}

// reset begins the cache anew.
func (c *hoursCache) reset(table string, from time.Time) {
	c.sums = advise.NewHours(table, from)
	c.read = 0
	c.last = nil
}

// continues reports whether the file has what was read of it.
func (c *hoursCache) continues(file io.ReaderAt) bool {
	there := make([]byte, len(c.last))
	_, err := file.ReadAt(there, c.read-int64(len(there)))
	return (err == nil || err == io.EOF) && bytes.Equal(there, c.last)
}

// HasCount reports whether a count of this hour is kept.
func (f *File) HasCount(now time.Time) bool {
	hour := now.UTC().Truncate(time.Hour)
	f.hours.mu.Lock()
	defer f.hours.mu.Unlock()
	if f.hours.count.Equal(hour) {
		return true
	}
	f.readHours(now)
	for _, h := range f.hours.sums.List() {
		if h.Start.Equal(hour) && h.Counted != nil {
			f.hours.count = hour
			return true
		}
	}
	return false
}

// AddCount keeps a count of the table, unless the hour has one. Only the first failure to write is returned.
func (f *File) AddCount(now time.Time, c advise.Counted) error {
	if f.Path == "" || f.HasCount(now) {
		return nil
	}
	err := f.addLine(advise.NewHour(f.Table, now, c), now, "the count cannot be kept, charts will not show it")
	f.hours.mu.Lock()
	defer f.hours.mu.Unlock()
	f.hours.count = now.UTC().Truncate(time.Hour)
	return err
}

// AddOutage keeps when there was an outage that is over. Only the first failure to write is returned.
func (f *File) AddOutage(o watch.Outage, ended time.Time) error {
	if f.Path == "" {
		return nil
	}
	line := advise.OutageLine{Table: f.Table, Outage: advise.Interval{Since: o.Since, Ended: ended}}
	return f.addLine(line, ended, "the outage cannot be kept, charts will not show it")
}
