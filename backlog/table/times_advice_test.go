package table_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
)

// unknownTime is what is said of a text that is no time in a known form.
const unknownTime = " is no time in a known form: numbers are taken for times of the years 1990 to 2100, in seconds, milliseconds or microseconds; " +
	"`as: text:<layout>` describes texts that begin with the year, such as 2006/01/02 15:04 or 20060102; others do not sort by time, " +
	"and need a generated column that does; say which it is with table.inserted: "

// TestProposedLayout: what the error about dates such as 2026/02/10 advises can
// be worked.
func TestProposedLayout(t *testing.T) {
	for _, layout := range []string{"2006/01/02", "2006/01/02 15:04", "2006/01/02 15:04:05", "2006.01.02 15:04:05", "2006.01.02T15:04:05"} {
		f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', "inserted on" TEXT)`)
		for i := range 3 {
			f.exec(`INSERT INTO BACKLOG (id, "inserted on") VALUES (?, ?)`, i, noon.AddDate(0, 0, i-3).Format(layout))
		}
		m := plainMapping()
		m.Inserted.Column = "inserted on"
		f.wantRefused(m, "table BACKLOG: column inserted on: "+shownDate(noon.AddDate(0, 0, -3).Format(layout))+unknownTime+`{column: "inserted on", as: …}, or mend the rows`)
		m.Inserted.As = "text:" + layout
		wantKeys(t, layout, lane(t, f.store(m), backlog.Fresh), "2 1 0")
	}
}

// shownDate is a text as errors show it: bare where it cannot be mistaken.
func shownDate(text string) string {
	if strings.ContainsAny(text, "-:") {
		return text
	}
	return strconv.Quote(text)
}

// TestGeneratedDate: what the error about dates such as 10.02.2026 advises can
// be worked, with a policy and without.
func TestGeneratedDate(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
		INSERT INTO BACKLOG VALUES (1, 'NEW', '10.02.2026'), (2, 'ERROR', '09.02.2026'), (3, 'NEW', '28.01.2026')`)
	m := plainMapping()
	f.wantRefused(m, `table BACKLOG: column date_inserted: "10.02.2026"`+unknownTime+"{column: date_inserted, as: …}, or mend the rows")
	f.exec(`ALTER TABLE BACKLOG ADD COLUMN inserted TEXT
		AS (substr(date_inserted, 7) || '-' || substr(date_inserted, 4, 2) || '-' || substr(date_inserted, 1, 2))`)
	m.Inserted.Column = "inserted"
	createIndexes(f, m)
	s := f.store(m)
	wantKeys(t, "fresh lane", lane(t, s, backlog.Fresh), "1 3")
	wantGoodPlans(t, "generated", s)

	f.exec("DELETE FROM BACKLOG WHERE id = 3")
	p := planning(3, time.Minute)
	m = retryMapping(p)
	m.Inserted.Column = "inserted"
	createIndexes(f, m)
	wantWaits(t, f, m, p)
}
