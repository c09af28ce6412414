package sqlite

import (
	"strconv"
	"strings"

	"backlog/backlog/pattern"
	"backlog/backlog/table/db"
)

// faults are the errors by SQLite's result codes, extended or primary.
var faults = []db.Fault{
	{Codes: "778 1034 1290 1546 4618 4874", Class: db.Unavailable, NoWrites: true, What: "the disk takes no writes", // IOERR_WRITE FSYNC DIR_FSYNC TRUNCATE SHMOPEN SHMSIZE
		Hint: "make room there; if there is room, the system's log tells what is wrong with the disk"},
	{Codes: "5 6", Class: db.Busy, What: "locked by another program", Hint: "lsof tells which have the file open"}, // BUSY LOCKED
	{Codes: "9 10 14 15", Class: db.Unavailable}, // INTERRUPT IOERR CANTOPEN PROTOCOL
	{Codes: "13", Class: db.Unavailable, NoWrites: true, What: db.OutOfSpace, Hint: db.MakeRoom},
	{Codes: "18 19 20", Class: db.Refused},                                                                                              // TOOBIG CONSTRAINT MISMATCH
	{Codes: "26", What: "the file PATH is not an SQLite database", Hint: "name another"},                                                // NOTADB
	{Codes: "11", What: "the database file PATH is damaged", Hint: "restore it from a backup, or see https://sqlite.org/recovery.html"}, // CORRUPT
}

// primary are the bits of a result code that are the primary one.
const primary = 0xff

// Error implements db.Server.
func (s *server) Classify(err error) db.Fault {
	extended := codeOf(err)
	if extended == 0 {
		return db.Fault{}
	}
	code := extended & primary
	f := db.FindFault(faults, err.Error(), strconv.Itoa(extended), strconv.Itoa(code))
	f.What = strings.ReplaceAll(f.What, "PATH", s.path)
	if f.Class == db.Refused {
		f.Guard, f.Name = guardOf(err.Error())
	}
	if code == 26 { // which says the same
		f.Message = ""
	}
	return f
}

// judges are what the messages of constraints begin with, behind what a driver adds.
var guardMessages = []struct {
	text  string
	judge db.GuardKind
}{
	{"UNIQUE constraint failed", db.Unique}, {"PRIMARY KEY constraint failed", db.Unique}, {"FOREIGN KEY constraint failed", db.ForeignKey},
	{"CHECK constraint failed", db.Check}, {"NOT NULL constraint failed", db.NotNull},
	{"cannot store ", db.Type}, {"datatype mismatch", db.Type}, {"string or blob too big", db.Type},
}

// judgeOf returns by what kind of rule a message refuses a row. A CHECK has no name but its
// expression where it was given none. All other texts are those of triggers that raise.
func guardOf(said string) (judge db.GuardKind, name string) {
	if codeInText {
		said = codePattern().ReplaceAllString(said, "")
	}
	for _, x := range guardMessages {
		if _, behind, found := strings.Cut(said, x.text); found {
			name = strings.TrimPrefix(behind, ": ")
			if x.judge == db.Type || x.judge == db.NotNull { // … in INTEGER column jobs.touched
				name = said[strings.LastIndexByte(said, '.')+1:]
			}
			return x.judge, name
		}
	}
	return db.Trigger, strings.TrimPrefix(said, "constraint failed: ")
}

// codePattern matches the code that a driver adds to a message.
var codePattern = pattern.Lazily(` \(\d+\)$`)

// denied is the *db.Problem of a file that this user may not read or write, nil for
// other errors.
func (s *server) denied(err error, hint, what string) error {
	switch codeOf(err) & primary {
	case 3, 8, 14: // PERM READONLY CANTOPEN
		return db.Deniedf(hint, what+": %v", s.path, err)
	}
	return nil
}
