package cmd_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// diskCalls are the system calls that a disk follows.
const diskCalls = "open,openat,creat,close,lseek,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate," +
	"fsync,fdatasync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlink,symlinkat," +
	"dup,dup2,dup3,copy_file_range,sendfile,exit_group"

// A disk is what a process has done to files, by its system calls: what is safe from a loss of
// power, and what is not yet. It promises no more than POSIX: a sync of a file keeps its content, not
// its name, and a sync of a folder keeps the names in it.
type disk struct {
	folder string // the working folder of the process
	now    int    // counts calls
	names  map[string]*diskFile
	kept   map[string]*diskFile // the names that are safe
	moves  []diskMove           // of names, which are not
	open   map[int]*openFile
	opens  map[*systemCall]*openFile // by calls that are under way
	files  []*diskFile
	syncs  map[*systemCall]int // the last call that a sync under way covers
}

// A diskFile is a file or a folder.
type diskFile struct {
	isFolder bool
	kept     []byte       // the content that is safe
	changes  []diskChange // of the content, which are not
	size     int64        // with the changes
}

// A diskChange is a write, or a change of the size.
type diskChange struct {
	call  int
	at    int64
	data  []byte
	sizes bool // the size becomes at
}

// A diskMove sets or removes a name.
type diskMove struct {
	call int
	name string
	file *diskFile // nil: it is removed
}

// An openFile is what a file descriptor stands for.
type openFile struct {
	*diskFile
	path    string
	at      int64
	appends bool
}

// newDisk returns a disk with the files of the folder, all of them safe.
func newDisk(folder string) (*disk, error) {
	d := &disk{folder: folder, names: make(map[string]*diskFile), syncs: make(map[*systemCall]int)}
	d.restart()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f := &diskFile{isFolder: entry.IsDir()}
		if !f.isFolder {
			f.kept, err = os.ReadFile(path)
			f.size = int64(len(f.kept))
		}
		d.names[path] = f
		d.files = append(d.files, f)
		return err
	})
	d.kept = maps.Clone(d.names)
	return d, err
}

// restart forgets the files that a process that has ended had open.
func (d *disk) restart() {
	d.open = make(map[int]*openFile)
	d.opens = make(map[*systemCall]*openFile)
}

// apply follows a step. Writes and names change when their call begins, because they may be on the disk from
// then on. What a sync keeps is safe when its call has returned, and only what had been written before it began.
// It returns whether the step makes a difference to what a loss of power leaves.
func (d *disk) apply(s traceStep) (differs bool, err error) {
	c := s.systemCall
	if !c.returned || c.failed {
		return false, nil
	}
	isSync := c.name == "fsync" || c.name == "fdatasync"
	switch {
	case isSync && s.ends:
		fd, _ := c.fd(0)
		f := d.open[fd]
		if f == nil {
			return false, fmt.Errorf("%v: the file is not open", c)
		}
		d.sync(f, d.syncs[c])
		delete(d.syncs, c)
		return true, nil
	case isSync:
		d.syncs[c] = d.now
		return false, nil
	case s.ends:
		if f := d.opens[c]; f != nil { // now the number is its own
			d.open[int(c.result)] = f
			delete(d.opens, c)
		}
		return false, nil
	}
	d.now++
	return d.begin(c)
}

// begin follows a call that is not a sync.
func (d *disk) begin(c *systemCall) (differs bool, err error) {
	switch c.name {
	case "open":
		return d.start(c, d.path("", c.text(0)), c.args[1])
	case "openat":
		return d.start(c, d.path(c.args[0], c.text(1)), c.args[2])
	case "close":
		fd, _ := c.fd(0)
		delete(d.open, fd)
	case "lseek":
		if f := d.ours(c); f != nil {
			f.at = c.result
		}
	case "write":
		f := d.ours(c)
		if f == nil {
			return false, nil
		}
		if f.appends {
			f.at = f.size
		}
		d.write(f.diskFile, f.at, c.text(1)[:c.result])
		f.at += c.result
		return c.result > 0, nil
	case "pwrite64":
		f := d.ours(c)
		if f == nil {
			return false, nil
		}
		d.write(f.diskFile, c.number(3), c.text(1)[:c.result])
		return true, nil
	case "ftruncate":
		f := d.ours(c)
		if f == nil {
			return false, nil
		}
		d.resize(f.diskFile, c.number(1))
		return true, nil
	case "rename":
		return d.rename(d.path("", c.text(0)), d.path("", c.text(1))), nil
	case "renameat", "renameat2":
		return d.rename(d.path(c.args[0], c.text(1)), d.path(c.args[2], c.text(3))), nil
	case "unlink", "rmdir":
		return d.move(d.path("", c.text(0)), nil), nil
	case "unlinkat":
		return d.move(d.path(c.args[0], c.text(1)), nil), nil
	case "mkdir":
		return d.move(d.path("", c.text(0)), d.newFile(true)), nil
	case "mkdirat":
		return d.move(d.path(c.args[0], c.text(1)), d.newFile(true)), nil
	case "exit_group":
	default:
		if len(c.args) > 0 && strings.Contains(unhex(c.args[0]), d.folder) {
			return false, fmt.Errorf("this test does not know the call %v", c)
		}
	}
	return false, nil
}

// path returns the absolute path of a call's argument. folder is the argument before it, if any.
func (d *disk) path(folder, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	_, of, isFolder := strings.Cut(strings.TrimSuffix(folder, ">"), "<")
	if !isFolder {
		return filepath.Join(d.folder, path)
	}
	return filepath.Join(unhex(of), path)
}

// ours returns the file that a call is about, nil if that is no file, such as a socket.
func (d *disk) ours(c *systemCall) *openFile {
	fd, _ := c.fd(0)
	return d.open[fd]
}

func (d *disk) newFile(isFolder bool) *diskFile {
	f := &diskFile{isFolder: isFolder}
	d.files = append(d.files, f)
	return f
}

// start follows a call that opens a file.
func (d *disk) start(c *systemCall, path, flags string) (differs bool, err error) {
	f := d.names[path]
	if f == nil && strings.Contains(flags, "O_CREAT") {
		f = d.newFile(false)
		differs = d.move(path, f)
	}
	if f == nil {
		if strings.HasPrefix(path, d.folder) {
			return false, fmt.Errorf("%v: the file does not exist", c)
		}
		f = d.newFile(false) // one that it only reads
	}
	if strings.Contains(flags, "O_TRUNC") && f.size > 0 {
		d.resize(f, 0)
		differs = true
	}
	d.opens[c] = &openFile{diskFile: f, path: path, appends: strings.Contains(flags, "O_APPEND")}
	return differs, nil
}

func (d *disk) write(f *diskFile, at int64, data string) {
	f.changes = append(f.changes, diskChange{call: d.now, at: at, data: []byte(data)})
	f.size = max(f.size, at+int64(len(data)))
}

func (d *disk) resize(f *diskFile, size int64) {
	f.changes = append(f.changes, diskChange{call: d.now, at: size, sizes: true})
	f.size = size
}

func (d *disk) move(name string, f *diskFile) bool {
	d.moves = append(d.moves, diskMove{d.now, name, f})
	if f == nil {
		delete(d.names, name)
	} else {
		d.names[name] = f
	}
	return strings.HasPrefix(name, d.folder)
}

func (d *disk) rename(from, to string) bool {
	f := d.names[from]
	here := d.move(from, nil)
	return d.move(to, f) || here
}

// sync keeps what was done to the file, or in the folder, up to the call.
func (d *disk) sync(f *openFile, call int) {
	n := 0
	for n < len(f.changes) && f.changes[n].call <= call {
		f.kept = f.changes[n].apply(f.kept)
		n++
	}
	f.changes = f.changes[n:]
	if !f.isFolder {
		return
	}
	d.moves = slices.DeleteFunc(d.moves, func(m diskMove) bool {
		isKept := filepath.Dir(m.name) == f.path && m.call <= call
		if isKept {
			m.apply(d.kept)
		}
		return isKept
	})
}

func (m diskMove) apply(names map[string]*diskFile) {
	if m.file == nil {
		delete(names, m.name)
	} else {
		names[m.name] = m.file
	}
}

// apply returns the content after the change. It may use the array of the content.
func (c diskChange) apply(content []byte) []byte {
	end := c.at + int64(len(c.data))
	if c.sizes && end < int64(len(content)) {
		return content[:end]
	}
	if missing := end - int64(len(content)); missing > 0 {
		content = append(content, make([]byte, missing)...)
	}
	copy(content[c.at:], c.data)
	return content
}

// clone returns a copy that does not change with the disk. No file is open in it.
func (d *disk) clone() *disk {
	copied := make(map[*diskFile]*diskFile)
	for _, f := range d.files {
		copied[f] = &diskFile{f.isFolder, bytes.Clone(f.kept), slices.Clone(f.changes), f.size}
	}
	names := func(of map[string]*diskFile) map[string]*diskFile {
		list := make(map[string]*diskFile)
		for name, f := range of {
			list[name] = copied[f]
		}
		return list
	}
	moves := slices.Clone(d.moves)
	for i := range moves {
		moves[i].file = copied[moves[i].file]
	}
	c := &disk{folder: d.folder, now: d.now, names: names(d.names), kept: names(d.kept), moves: moves, syncs: make(map[*systemCall]int)}
	for _, f := range copied {
		c.files = append(c.files, f)
	}
	c.restart()
	return c
}

// A powerLoss says what of the unsafe is on the disk afterwards.
type powerLoss struct {
	name  string
	keeps float64 // the share that is kept
	tears float64 // the share of that of which only parts are kept
	last  int     // so many of the last calls left nothing, and all before them is kept; 0: keeps decides
}

var powerLosses = []powerLoss{
	{"nothing is lost, as by kill -9", 1, 0, 0},
	{"everything that is not synced is lost", 0, 0, 0},
	{"what is not synced is torn", 1, 1, 0},
	{"little that is not synced is lost or torn", 0.9, 0.1, 0},
	{"most of what is not synced is lost or torn", 0.1, 0.1, 0},
	{"a half of what is not synced is lost or torn", 0.5, 0.3, 0},
}

// drawLoss draws a loss.
func drawLoss(r *rand.Rand) powerLoss {
	if r.IntN(6) == 0 {
		last := 1 + int(r.ExpFloat64()*10)
		return powerLoss{fmt.Sprintf("what the last %d calls did is lost unless synced", last), 0, 0, last}
	}
	return powerLosses[r.IntN(len(powerLosses))]
}

// isKept reports whether what a call did is kept, at a loss after the call now.
func (l powerLoss) isKept(r *rand.Rand, call, now int) bool {
	if l.last > 0 {
		return call <= now-l.last
	}
	return r.Float64() < l.keeps
}

// A disk writes sectors: each is there as a whole or not at all.
const sectorSize = 512

// lose cuts the power. After it, everything that is left is in kept. The disk is of no further use.
func (d *disk) lose(r *rand.Rand, loss powerLoss) {
	for _, m := range d.moves {
		if loss.isKept(r, m.call, d.now) {
			m.apply(d.kept)
		}
	}
	seen := make(map[*diskFile]bool)
	for _, name := range slices.Sorted(maps.Keys(d.kept)) {
		f := d.kept[name]
		if seen[f] {
			continue
		}
		seen[f] = true
		safe := int64(len(f.kept))
		for _, c := range f.changes {
			switch {
			case !loss.isKept(r, c.call, d.now):
			case c.sizes || r.Float64() >= loss.tears:
				f.kept = c.apply(f.kept)
			default:
				f.kept = c.tear(r, f.kept, safe)
			}
		}
	}
}

// tear returns the content after some of the sectors of a write. Those that are lost behind the content that
// was safe have zeros, or what was on the disk there before.
func (c diskChange) tear(r *rand.Rand, content []byte, safe int64) []byte {
	junk := r.IntN(2) == 0
	for at, end := c.at, c.at+int64(len(c.data)); at < end; {
		next := min(end, (at/sectorSize+1)*sectorSize)
		part := diskChange{at: at, data: c.data[at-c.at : next-c.at]}
		isLost := r.IntN(2) == 0
		if isLost && at >= safe {
			part.data = make([]byte, next-at)
			for i := range part.data {
				if junk {
					part.data[i] = byte(r.Uint32())
				}
			}
		}
		if !isLost || at >= safe {
			content = part.apply(content)
		}
		at = next
	}
	return content
}

// rebuild makes the folder one that has the files that are safe. A file whose folder is lost is lost, too.
func (d *disk) rebuild() error {
	entries, err := os.ReadDir(d.folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(d.folder, e.Name())); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.kept)) { // a folder comes before what is in it
		f := d.kept[name]
		_, err := os.Stat(filepath.Dir(name))
		if !strings.HasPrefix(name, d.folder+"/") || err != nil {
			continue
		}
		if f.isFolder {
			err = os.Mkdir(name, 0o755)
		} else {
			err = os.WriteFile(name, f.kept, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
