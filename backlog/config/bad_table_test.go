package config_test

// badTables are tables and statuses that are incomplete or contradict themselves.
var badTables = badFiles{
	"column-written-twice": {
		"5: table.touch.id: the column id is taken by table.id; remove one of them",
		"5: table.touch.status: the column status is taken by table.status; remove one of them",
		"5: table.touch.created: the column created is taken by table.inserted.keep; remove one of them",
		"7: table.last_error: the column retries is taken by table.attempts; remove one of them",
		"9: statuses.success.set.updated: the column is taken by table.touch.updated; remove one of them",
		"9: statuses.success.set.retries: the column is taken by table.attempts; remove one of them",
		"10: statuses.error.set.retries: the column is taken by table.attempts; remove one of them",
	},
	"id-empty": {
		"1: table.id: is an empty list; name at least one or remove it",
		"1: table.columns: is an empty list; name at least one or remove it",
	},
	"id-twice": {"1: table.id[1]: id is listed twice; remove one"},
	"keep-not-error": {
		"1: statuses.new: keep is for error only; put it in quotes if it is a value of the column",
		"1: statuses.dead: keep is for error only; put it in quotes if it is a value of the column",
	},
	"name-not-text": {
		"1: table.name: must be text, not a number; put it in quotes",
		"1: table.id: must be a name or a list of names, not a number",
		"1: table.status: must be text, not a boolean; put it in quotes",
		"1: table.inserted: must be a column or a mapping (column: name), not a date",
		"1: table.last_error: is empty; fill it in or remove it",
	},
	"null-name": {
		"2: table.name: is null, must be text; fill it in or remove it",
		"3: table.id[1]: is null, must be text; fill it in or remove it",
		"4: table.status: is null, must be text; fill it in or remove it",
		"5: table.inserted: is null, must be a column or a mapping (column: name); fill it in or remove it",
		"6: table.columns: is null, must be a name or a list of names; fill it in or remove it",
	},
	"state-dead-is-success":      {"1: statuses.dead and statuses.success are both `DONE`: a dead record could not be told from one that succeeded; give each a value of its own"},
	"state-dead-is-success-when": {"5: statuses.dead: a dead record could not be told from one that succeeded; write what does not meet the condition of success"},
	"state-dead-sets-success":    {"5: statuses.dead: sets just what success does: a dead record could not be told from one that succeeded; set something else"},
	"state-error-is-success":     {"2: statuses.error: a failed record could not be told from one that succeeded; write what does not meet the condition of success"},
	"state-error-lost":           {"3: statuses.error: a failed record would be neither new nor in error and never be tried again; add when"},
	"state-halves": {
		"2: statuses.new: no when; it says which records to take",
		"3: statuses.error: no set; it says how a record gets there",
		"4: statuses.success: no set; it says how a record gets there",
		"5: statuses.dead: no set; it says how a record gets there",
		"5: statuses.dead.when: is an empty mapping; name a column or remove it",
	},
	"state-listed-twice": {
		"1: statuses.new[1]: NEW is listed twice; remove one",
		"1: statuses.error[1]: null is listed twice; remove one",
		"1: statuses.dead: is an empty list; name at least one or remove it",
	},
	"state-no-status-column": {
		"1: statuses.error: missing, and its default ERROR needs a status column, which no state here has; write error: keep, or table.status if there is one",
		"1: statuses.success: missing, and its default SUCCESS needs a status column, which no state here has; write success, or table.status if there is one",
	},
	"state-set-not-when":     {"3: statuses.error.set.failed: sets true, which is not what when asks for; a record would not be found in the state it was put in"},
	"state-success-is-dead":  {"4: statuses.success: a record that succeeded would be dead; write what does not meet the condition of dead"},
	"state-success-is-error": {"1: statuses.success and statuses.error are both `SUCCESS`: a record that succeeded would still be in error and be tried for ever; give each a value of its own"},
	"state-success-is-new": {
		"1: statuses.success and statuses.new are both `DONE`: a record that succeeded would still be new and be tried for ever; give each a value of its own",
		"1: statuses.dead and statuses.new are both `NEW`: a dead record would still be new and be tried for ever; give each a value of its own",
	},
	"state-success-stays-new": {"4: statuses.success: a record that succeeded would still be new and be tried for ever; write what does not meet the condition of new"},
	"status-in-where":         {"1: table.where.status: this is the status column, of which statuses tells; remove it"},
	"time-column": {
		"2: table.inserted: has no column; add column: created_at",
		"3: table.eligible: must be a column or a mapping (column: name), not a list",
		"4: table.expires.keep: must be true or false, not text",
	},
	"time-form": {
		"2: table.inserted.as: unknown form unix; did you mean unix_s?",
		"3: table.eligible.as: unknown form iso8601; known: native, unix_s, unix_ms, unix_us, julian, text:<layout>",
		"4: table.expires.as: must be text, not a number; put it in quotes",
	},
	"time-layout": {
		"2: table.inserted.as: YYYY-MM-DD is no layout; write the second of January 2006, 15:04:05, as the column would: text:2006-01-02 15:04:05",
		`3: table.eligible.as: "" is no layout; write the second of January 2006, 15:04:05, as the column would: text:2006-01-02 15:04:05`,
	},
	"time-null-zero": {
		"2: table.inserted.null: unknown meaning old; known: skip, oldest, newest",
		"2: table.inserted.zero: unknown meaning never; known: skip, oldest, newest",
	},
	"touch": {
		"2: table.touch.a: must be a single value, not a list",
		"2: table.touch.b: is empty; write null if NULL is meant",
		"2: table.touch.c: must be a single value, not a mapping",
	},
	"where": {
		"2: table.where: a key is missing before the colon; add it",
		"2: table.where.a: is empty; write null if NULL is meant",
		"2: table.where.b: is an empty list; name at least one or remove it",
		"2: table.where.c: must be a value or a list of values, not a mapping",
		"2: table.where.d[0]: must be a single value, not a list",
		"2: table.where.e[1]: 1 is listed twice; remove one",
		"3: table.touch: is an empty mapping; name a column or remove it",
	},
}
