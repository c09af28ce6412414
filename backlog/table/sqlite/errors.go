package sqlite

import (
	"strconv"
	"strings"

	"backlog/backlog/pattern"
	"backlog/backlog/table/db"
)

// faults are the errors by SQLite's extended or primary result codes.
var faults = []db.Fault{
	{Codes: "778 1034 1290 1546 4618 4874", Class: db.Unavailable, NoWrites: true, What: "the disk takes no writes", // IOERR_WRITE FSYNC DIR_FSYNC TRUNCATE SHMOPEN SHMSIZE
		Hint: "make room there; if there is room, the system's log tells what is wrong with the disk"},
	{Codes: "5 6", Class: db.Busy, What: "locked by another program", Hint: "lsof tells which have the file open"}, // BUSY LOCKED
	{Codes: "9 10 14 15", Class: db.Unavailable}, // INTERRUPT IOERR CANTOPEN PROTOCOL
	{Codes: "13", Class: db.Unavailable, NoWrites: true, What: db.OutOfSpace, Hint: db.MakeRoom},
	{Codes: "18 19 20", Class: db.Refused},                                               // TOOBIG CONSTRAINT MISMATCH
	{Codes: "26", What: "the file PATH is not an SQLite database", Hint: "name another"}, // NOTADB
	// CORRUPT, also after a read that the disk has failed: SQLite goes on with a page of zeros.
	{Codes: "11", What: "the database file PATH is damaged, or the disk cannot read it", Hint: "look for errors of the disk in the system's log; restore it from a backup, or see https://sqlite.org/recovery.html"},
}

// primary is the mask for the primary code in a result code.
const primary = 0xff

// Classify implements db.Server.
func (s *server) Classify(err error) db.Fault {
	extended := codeOf(err)
	if extended == 0 {
		return db.Fault{}
	}
	code := extended & primary
	f := db.FindFault(faults, err.Error(), strconv.Itoa(extended), strconv.Itoa(code))
	f.What = strings.ReplaceAll(f.What, "PATH", s.path)
	if f.Class == db.Refused {
		f.Guard, f.Name = violatedRule(err.Error())
	}
	if code == 26 { // its message says the same
		f.Message = ""
	}
	return f
}

// ruleMessages are the beginnings of SQLite's own messages about a row that breaks a rule. A driver may
// put a text before them. What follows names the rule; aboutColumn: it ends in the column, as in
// "cannot store TEXT value in INTEGER column jobs.touched".
var ruleMessages = []struct {
	beginning   string
	kind        db.GuardKind
	aboutColumn bool
}{
	{"UNIQUE constraint failed", db.Unique, false},
	{"PRIMARY KEY constraint failed", db.Unique, false},
	{"FOREIGN KEY constraint failed", db.ForeignKey, false},
	{"CHECK constraint failed", db.Check, false},
	{"NOT NULL constraint failed", db.NotNull, true},
	{"cannot store ", db.Type, true},
	{"datatype mismatch", db.Type, true},
	{"string or blob too big", db.Type, true},
}

// violatedRule returns the kind and the name of the rule by which SQLite refused a row, from the message
// of the error. A CHECK without a name is named by its expression, and a type whose message has no column
// by the message.
func violatedRule(message string) (kind db.GuardKind, name string) {
	if messagesEndInCode {
		message = trailingCode().ReplaceAllString(message, "")
	}
	for _, known := range ruleMessages {
		_, rest, found := strings.Cut(message, known.beginning)
		switch {
		case !found:
			continue
		case known.aboutColumn:
			column := message[strings.LastIndexByte(message, '.')+1:] // without the table
			return known.kind, column
		}
		return known.kind, strings.TrimPrefix(rest, ": ")
	}
	// Any other message is the text of a RAISE in a trigger.
	return db.Trigger, strings.TrimPrefix(message, "constraint failed: ")
}

// trailingCode matches the code that a driver appends to a message, such as (1299).
var trailingCode = pattern.Lazily(` \(\d+\)$`)

// denied returns a *db.Problem if the user may not read or write the file, and nil for other errors.
func (s *server) denied(err error, hint, what string) error {
	switch codeOf(err) & primary {
	case 3, 8, 14: // PERM READONLY CANTOPEN
		return db.Deniedf(hint, what+": %v", s.path, err)
	}
	return nil
}
