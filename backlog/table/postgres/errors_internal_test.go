package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"backlog/backlog/table/db"
)

// An error that closes the connection is an outage, unless it is about user, database or prepared statements. Poolers give
// many errors the same SQLSTATE: the texts are PgBouncer's, the one with XX000 is Supavisor's.
func TestFatalErrors(t *testing.T) {
	for _, tt := range []struct {
		severity, code, message string
		want                    db.ErrorClass
	}{
		{"FATAL", "08P01", "server conn crashed?", db.Unavailable},
		{"FATAL", "08P01", "query_wait_timeout", db.Unavailable},
		{"FATAL", "08P01", "no more connections allowed (max_client_conn)", db.Unavailable},
		{"FATAL", "08P01", "server login has been failing, cached error: the database system is starting up (server_login_retry)", db.Unavailable},
		{"FATAL", "XX000", "Max client connections reached", db.Unavailable},
		{"FATAL", "08P01", "no such user: shop", db.Other},
		{"FATAL", "08P01", `database "shop" does not exist`, db.Other},
		{"FATAL", "08P01", "password authentication failed", db.Other},
		{"FATAL", "08P01", "prepared statement did not exist", db.Other},
		{"FATAL", "28P01", `password authentication failed for user "shop"`, db.Other},
		{"ERROR", "08P01", `bind message supplies 2 parameters, but prepared statement "" requires 1`, db.Other},
		{"ERROR", "XX000", "cache lookup failed for relation 16385", db.Other},
	} {
		s := &server{config: &pgx.ConnConfig{}}
		f := s.Classify(&pgconn.PgError{Severity: tt.severity, Code: tt.code, Message: tt.message})
		if f.Class != tt.want {
			t.Errorf("%s %s %s: class %v, want %v", tt.severity, tt.code, tt.message, f.Class, tt.want)
		}
	}
}

// What a trigger needs is not the table's own.
func TestFaultOfAFunction(t *testing.T) {
	s := &server{config: &pgx.ConnConfig{}}
	e := &pgconn.PgError{Severity: "ERROR", Code: "42P01", Message: `relation "audit" does not exist`, Where: "PL/pgSQL function note() line 1 at SQL statement"}
	const want = "a function that a trigger of the table calls fails"
	if f := s.Classify(e); f.What != want {
		t.Errorf("%q, want %q", f.What, want)
	}
	e.Routine = "exec_stmt_raise"
	e.Code = "42704"
	if f := s.Classify(e); f.Class != db.Refused {
		t.Errorf("raised by the function: class %v, want %v", f.Class, db.Refused)
	}
	e.Routine = ""
	e.Code = "42P01"
	e.Where = ""
	if f := s.Classify(e); f.What != db.TableChanged {
		t.Errorf("%q, want %q", f.What, db.TableChanged)
	}
}
