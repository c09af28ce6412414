package table

import (
	"errors"
	"reflect"
)

// codeOf returns SQLite's code of a driver's error, whichever driver that is:
// a pool that the program has opened need not be of the one that this package
// is built with.
func codeOf(err error) (int, bool) {
	if code, ok := sqliteCode(err); ok {
		return code, true
	}
	// modernc.org/sqlite
	if e := interface{ Code() int }(nil); errors.As(err, &e) {
		return e.Code(), true
	}
	return fieldCode(err)
}

// fieldCode finds the code in an error of github.com/mattn/go-sqlite3, which
// cannot be named where there is no C compiler.
func fieldCode(err error) (int, bool) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return fieldCode(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if code, ok := fieldCode(err); ok {
				return code, true
			}
		}
		return 0, false
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Struct {
		if f := v.FieldByName("Code"); f.CanInt() {
			return int(f.Int()), true
		}
	}
	return 0, false
}

// classOf says what a code means: https://sqlite.org/rescode.html
func classOf(code int) errorClass {
	switch code & 0xff {
	case 5, 6: // BUSY LOCKED
		return classBusy
	case 9, 10, 13, 14, 15: // INTERRUPT IOERR FULL CANTOPEN PROTOCOL
		return classAway
	case 18, 19, 20: // TOOBIG CONSTRAINT MISMATCH
		return classRefused
	}
	return classOther
}

// hinders implements dialect.
func (sqlite) hinders(err error) (what, said, look string) {
	switch code, _ := codeOf(err); code & 0xff {
	case 5, 6: // BUSY LOCKED
		return "locked by another program", err.Error(), "lsof tells which have the file open"
	case 13: // FULL
		return outOfSpace, err.Error(), "make room there"
	}
	return "", "", ""
}
