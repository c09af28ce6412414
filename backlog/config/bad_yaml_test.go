package config_test

// badYAML are files with which something is wrong before any setting is looked at.
var badYAML = badFiles{
	"alias-bomb":    {"2: " + noAlias},
	"alias-cycle":   {"1: " + noAlias},
	"alias-unknown": {"1: " + noAlias},
	"duplicate-key": {
		"2: max_records: duplicate key, first on line 1; remove one of them",
		"4: table.where.queue: duplicate key, first on line 4; remove one of them",
	},
	"empty": {"1: nothing in it; schedule.example.yaml shows what to write"},
	"flow-no-space": {
		"2: tiers[0]: a key without a value; put a space after its colon, and quotes around a value with a comma in it",
		"2: tiers[0].max_age: missing; say how old a record may be, such as max_age: 1d",
	},
	"key-missing": {"3: table.where: a key is missing before the colon; add it"},
	"key-not-text": {
		"2: table: a key must be text, not a number; put it in quotes",
		"3: table.where: a key must be text, not null; put it in quotes",
		"3: table.where: a key must be text, not a list; put it in quotes",
		"4: table.inserted: a key must be text, not null; put it in quotes",
	},
	"merge-key":             {"3: a merge key (<<); write the keys out"},
	"not-utf8":              {"1: not text in UTF-8; save the file as plain UTF-8 text"},
	"only-comments":         {"1: nothing in it; schedule.example.yaml shows what to write"},
	"root-text":             {"1: must be a mapping (key: value) or a list of tiers, not text"},
	"syntax-brace":          {"1: a mapping in { } that is not closed or lacks a comma; complete it"},
	"syntax-brace-twice":    {"1: the line does not go with those before it; indent it like those it belongs to, and close every quote and bracket just once"},
	"syntax-bracket":        {"3: a list in [ ] that is not closed or lacks a comma; complete it"},
	"syntax-colon":          {"2: one colon too many; look for a missing colon or a wrong indent here and on the line before, and put a value that holds a colon in quotes"},
	"syntax-comma":          {"1: a value is missing; complete the list or mapping"},
	"syntax-deep":           {"1: nested too deeply; this is hardly a configuration"},
	"syntax-escape":         {`1: an unknown escape after \; use single quotes, in which \ is an ordinary character`},
	"syntax-indent":         {"3: the line does not go with those before it; indent it like those it belongs to, and close every quote and bracket just once"},
	"syntax-indent-item":    {"3: the line does not go with those before it; indent it like those it belongs to, and close every quote and bracket just once"},
	"syntax-list-inline":    {"1: a list item where none can be; begin the list on a line of its own"},
	"syntax-list-item":      {"2: the line does not go with those before it; indent it like those it belongs to, and close every quote and bracket just once"},
	"syntax-no-colon":       {"4: one colon too many; look for a missing colon or a wrong indent here and on the line before, and put a value that holds a colon in quotes"},
	"syntax-no-space":       {"1: a colon without a space after it; write key: value"},
	"syntax-no-space-item":  {"3: a colon without a space after it; write key: value"},
	"syntax-no-space-first": {"1: a colon without a space after it; write key: value"},
	"syntax-other":          {"1: this is not YAML; compare the line with schedule.example.yaml"},
	"syntax-quote":          {"2: a quote that is not closed; close it"},
	"syntax-quote-twice":    {"1: the line does not go with those before it; indent it like those it belongs to, and close every quote and bracket just once"},
	"syntax-unquoted":       {"2: a value cannot begin with @, ` or %; put it in quotes"},
	"tab":                   {"2: a tab in front of the line; indent with spaces"},
	"tag":                   {"1: a YAML tag (!name); remove it, or put quotes around the text"},
	"two-documents":         {"3: a second document; keep one and remove the line of dashes"},
	"unknown-key": {
		"2: table.nmae: unknown key; did you mean name?",
		"3: table.tag: unknown key; known here: attempts, columns, eligible, expires, id, inserted, last_error, name, schema, status, touch, where",
		"4: max-records: unknown key; did you mean max_records?",
		"5: dead_letters: unknown key; known here: abort_after, database, handler, log, max_records, metrics, name, on_dead, on_outage, pings, policy, rate, shutdown_timeout, source, state, statuses, table, tiers, timezone, web, worker",
	},
	"unknown-key-odd": {
		"1: database: must be text, not a mapping",
		"2: unknown key, not shown as it is no word; known here: abort_after, database, handler, log, max_records, metrics, name, on_dead, on_outage, pings, policy, rate, shutdown_timeout, source, state, statuses, table, tiers, timezone, web, worker",
		"3: unknown key, not shown as it is no word; known here: abort_after, database, handler, log, max_records, metrics, name, on_dead, on_outage, pings, policy, rate, shutdown_timeout, source, state, statuses, table, tiers, timezone, web, worker",
	},
	"zero-byte": {"1: a zero byte; remove it"},
}

const noAlias = "an alias (*name); write the value out, or quotes around a text that begins with *"
