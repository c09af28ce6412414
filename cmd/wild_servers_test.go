package cmd

import (
	"errors"

	"backlog/backlog"
)

var wildInServers = []wildTable{
	{
		name: "odoo", table: "mail_mail", key: "id", on: []wildKind{inPostgres}, indexes: 2,
		reply: map[string]error{
			"2": nil, "4": nil, "6": nil, "10": nil, "12": nil, "13": nil, "14": nil,
			"5": errors.New("421 it's too busy"), "16": errors.New("451 greylisted"),
			"15": backlog.Reject(errors.New("550 no such user")),
		},
		meanwhile: map[string]string{
			"13": "DELETE FROM mail_mail WHERE id = 13",
			"14": "UPDATE mail_mail SET state = 'cancel' WHERE id = 14",
		},
		order: "2 4 13 14 15 16 12 10 5 6",
		changed: map[string]map[string]string{
			"2":  {"state": "'sent'", "write_date": "'2026-02-10 12:00:00.25'"},
			"4":  {"state": "'sent'", "write_date": "'2026-02-10 12:00:00.25'"},
			"5":  {"failure_reason": "'421 it''s too busy'", "write_date": "'2026-02-10 12:00:00.25'"},
			"6":  {"state": "'sent'", "write_date": "'2026-02-10 12:00:00.25'"},
			"10": {"state": "'sent'", "write_date": "'2026-02-10 12:00:00.25'"},
			"11": {"state": "'cancel'", "write_date": "'2026-02-10 12:00:00'"},
			"12": {"state": "'sent'", "write_date": "'2026-02-10 12:00:00.25'"},
			"13": nil,
			"14": {"state": "'cancel'"}, // its author's
			"15": {"state": "'cancel'", "failure_reason": "'550 no such user'", "write_date": "'2026-02-10 12:00:00.25'"},
			"16": {"state": "'exception'", "failure_reason": "'451 greylisted'", "write_date": "'2026-02-10 12:00:00.25'"},
		},
		report: backlog.Report{Selected: 10, Succeeded: 5, Failed: 2, Rejected: 1, Conflicts: 2, Expired: 1},
	},
	{
		name: "modulith", table: "event_publication", key: "id", on: []wildKind{inPostgres}, indexes: 1,
		reply: map[string]error{
			"00000000-0000-0000-0000-000000000001": nil, "ffffffff-ffff-4fff-bfff-ffffffffffff": nil,
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02": errors.New("no answer"), "8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c03": backlog.Reject(errors.New("no such topic")),
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c04": nil, "8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c06": nil, "8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c07": nil,
		},
		meanwhile: map[string]string{
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c06": "DELETE FROM event_publication WHERE id = '8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c06'",
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c07": "UPDATE event_publication SET completion_date = '2026-02-10 12:00:00.1+00' WHERE id = '8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c07'",
		},
		order: "00000000-0000-0000-0000-000000000001 ffffffff-ffff-4fff-bfff-ffffffffffff 8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02 8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c03 " +
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c06 8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c07 8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c04",
		changed: map[string]map[string]string{
			"00000000-0000-0000-0000-000000000001": {"completion_date": wildNow},
			"ffffffff-ffff-4fff-bfff-ffffffffffff": {"completion_date": wildNow},
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c04": {"completion_date": wildNow},
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c06": nil,
			"8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c07": {"completion_date": "'2026-02-10 12:00:00.1+00'"}, // the program's
		},
		report: backlog.Report{Selected: 7, Succeeded: 3, Failed: 1, Rejected: 1, Conflicts: 2},
		notes:  []string{"no error status is written: failed records are not told from new ones, and age alone decides when they are tried"},
	},
	{
		name:    "action_scheduler",
		table:   "wp_actionscheduler_actions",
		key:     "action_id",
		on:      []wildKind{inMySQL},
		indexes: 2,
		reply: map[string]error{
			"2": nil, "5": nil, "10": nil, "12": nil, "17": nil, "18": nil, "18446744073709551612": nil, "18446744073709551614": nil,
			"9": errors.New("no luck"), "16": backlog.Reject(errors.New("cannot be done")),
		},
		meanwhile: map[string]string{
			"17": "UPDATE wp_actionscheduler_actions SET claim_id = 977 WHERE action_id = 17",
			"18": "DELETE FROM wp_actionscheduler_actions WHERE action_id = 18",
		},
		order: "5 2 16 17 18 18446744073709551614 18446744073709551612 12 10 9",
		changed: map[string]map[string]string{
			"2":                    {"status": "'complete'", "attempts": "1", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"5":                    {"status": "'complete'", "attempts": "1", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"9":                    {"attempts": "3", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"10":                   {"status": "'complete'", "attempts": "2", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"12":                   {"status": "'complete'", "attempts": "1", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"13":                   {"status": "'canceled'", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"16":                   {"status": "'canceled'", "attempts": "1", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"17":                   {"claim_id": "977"},
			"18":                   nil,
			"18446744073709551612": {"status": "'complete'", "attempts": "1", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
			"18446744073709551614": {"status": "'complete'", "attempts": "1", "last_attempt_gmt": "'2026-02-10 12:00:00'"},
		},
		report: backlog.Report{Selected: 10, Succeeded: 6, Failed: 1, Rejected: 1, Conflicts: 2, Expired: 1},
	},
	{
		name: "frappe", table: "tabEmail Queue", key: "name", on: []wildKind{inMySQL}, indexes: 2,
		reply: map[string]error{
			"1f0c9a7b21": nil, "2a b/c#d": nil, "5-now": nil, "8": nil, "b": nil, "g": nil, "h": nil,
			"7": errors.New("it's still too busy"), "f": errors.New("451 greylisted"),
			"Grüße 3": backlog.Reject(errors.New("550 no such user")),
		},
		meanwhile: map[string]string{
			"g": "UPDATE `tabEmail Queue` SET status = 'Sent' WHERE name = 'g'",
			"h": "DELETE FROM `tabEmail Queue` WHERE name = 'h'",
		},
		order: "1f0c9a7b21 2a b/c#d Grüße 3 5-now f g h b 7 8",
		changed: map[string]map[string]string{
			"1f0c9a7b21": {"status": "'Sent'", "retry": "1", "modified": "'2026-02-10 17:30:00.250000'"},
			"2a b/c#d":   {"status": "'Sent'", "retry": "1", "modified": "'2026-02-10 17:30:00.250000'"},
			"Grüße 3":    {"status": "'Error'", "retry": "1", "modified": "'2026-02-10 17:30:00.250000'", "error": "'550 no such user'"},
			"5-now":      {"status": "'Sent'", "retry": "1", "modified": "'2026-02-10 17:30:00.250000'"},
			"7":          {"retry": "3", "modified": "'2026-02-10 17:30:00.250000'", "error": "'it''s still too busy'"},
			"8":          {"status": "'Sent'", "retry": "2", "modified": "'2026-02-10 17:30:00.250000'"}, // and the last error stays
			"b":          {"status": "'Sent'", "retry": "1", "modified": "'2026-02-10 17:30:00.250000'"},
			"c":          {"status": "'Error'", "modified": "'2026-02-10 17:30:00.000000'"},
			"f":          {"status": "'Partially Sent'", "retry": "1", "modified": "'2026-02-10 17:30:00.250000'", "error": "'451 greylisted'"},
			"g":          {"status": "'Sent'"},
			"h":          nil,
		},
		report: backlog.Report{Selected: 10, Succeeded: 5, Failed: 2, Rejected: 1, Conflicts: 2, Expired: 1},
	},
}
