package cmd

import (
	"errors"

	"backlog/backlog"
)

// wildNow stands for the time of settlement in a column with microseconds, and
// wildTick for that of the pass, at which rows expire.
const wildNow, wildTick = "now", "tick"

var wild = []wildTable{
	{
		name: "post_office", table: "post_office_email", key: "id", on: []wildKind{inSQLite, inPostgres, inMySQL}, indexes: 2,
		reply: map[string]error{
			"2": nil, "3": nil, "7": nil, "9": nil, "13": nil,
			"5": errors.New("451 greylisted"), "15": errors.New("421 too busy"),
			"10": backlog.Reject(errors.New("550 no such user")),
		},
		order: "2 3 7 10 15 13 9 5",
		changed: map[string]map[string]string{
			"2":  {"status": "0", "number_of_retries": "1", "last_updated": wildNow},
			"3":  {"status": "0", "number_of_retries": "1", "last_updated": wildNow},
			"5":  {"number_of_retries": "5", "last_updated": wildNow},
			"7":  {"status": "0", "number_of_retries": "1", "last_updated": wildNow},
			"8":  {"status": "1", "last_updated": wildTick}, // never sent after expires_at
			"9":  {"status": "0", "number_of_retries": "2", "last_updated": wildNow},
			"10": {"status": "1", "number_of_retries": "1", "last_updated": wildNow},
			"12": {"status": "1", "last_updated": wildTick},
			"13": {"status": "0", "number_of_retries": "1", "last_updated": wildNow},
			"14": {"status": "1", "last_updated": wildTick},
			"15": {"status": "3", "number_of_retries": "1", "last_updated": wildNow},
		},
		report: backlog.Report{Selected: 8, Succeeded: 5, Failed: 2, Rejected: 1, Expired: 3},
	},
	{
		name: "joplin", table: "resources", key: "id", on: []wildKind{inSQLite}, indexes: 2,
		reply: map[string]error{
			"00000000000000000000000000000001": nil, "deadbeefdeadbeefdeadbeefdeadbeef": nil, "12345678901234567890123456789012": nil,
			"0a1b2c3d4e5f60718293a4b5c6d7e8f9": errors.New("page 2: it's unreadable"),
			"0000000000000000000000000000000a": backlog.Reject(errors.New("more than 500 pages")),
			"abcdefabcdefabcdefabcdefabcdefab": errors.New("timeout again"),
		},
		order: "00000000000000000000000000000001 0a1b2c3d4e5f60718293a4b5c6d7e8f9 0000000000000000000000000000000a deadbeefdeadbeefdeadbeefdeadbeef " +
			"12345678901234567890123456789012 abcdefabcdefabcdefabcdefabcdefab",
		changed: map[string]map[string]string{
			"00000000000000000000000000000001": {"ocr_status": "2"},
			"deadbeefdeadbeefdeadbeefdeadbeef": {"ocr_status": "2"},
			"12345678901234567890123456789012": {"ocr_status": "2"}, // and the last error stays
			"0a1b2c3d4e5f60718293a4b5c6d7e8f9": {"ocr_status": "3", "ocr_error": "'page 2: it''s unreadable'"},
			"0000000000000000000000000000000a": {"ocr_status": "3", "ocr_error": "'more than 500 pages'"}, // there is no dead status
			"abcdefabcdefabcdefabcdefabcdefab": {"ocr_error": "'timeout again'"},
		},
		report: backlog.Report{Selected: 6, Succeeded: 3, Failed: 2, Rejected: 1},
	},
}
