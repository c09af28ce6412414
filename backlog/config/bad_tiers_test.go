package config_test

// badTiers are lists of tiers that are no schedule.
var badTiers = badFiles{
	"cron-every":      {"2: tiers[0].cron: @every counts from the start of the process: give the interval as every"},
	"cron-impossible": {`2: tiers[0].cron: "0 0 30 2 *" never ticks: no month it names has such a day`},
	"cron-malformed": {
		`2: tiers[0].cron: "often" has 1 fields, not five: minute, hour, day of month, month, day of week`,
		`3: tiers[1].cron: "61 * * * *": end of range (61) above maximum (59): 61`,
	},
	"cron-timezone-with-every": {"2: tiers[0].timezone: goes with cron; every is counted in UTC"},
	"cron-zone": {
		"2: tiers[0].cron: a zone in front is not accepted: give it as timezone",
		"3: tiers[1].cron: a zone in front is not accepted: give it as timezone",
	},
	"duration": {
		`1: handler.timeout: invalid duration "30": 30 has no unit, such as s, m, h, d or w; write one such as 30s, 5m, 12h, 7d or 5 minutes`,
		`2: shutdown_timeout: invalid duration "1 month": a month has no fixed length, write 30d; write one such as 30s, 5m, 12h, 7d or 5 minutes`,
		`5: tiers[0].every: invalid duration "5x": unknown unit "x", want one such as s, m, h, d or w; write one such as 30s, 5m, 12h, 7d or 5 minutes`,
		`6: tiers[0].offset: invalid duration "soon": want numbers and units, such as 5m or 1d12h; write one such as 30s, 5m, 12h, 7d or 5 minutes`,
		`7: tiers[1].every: "555555555555555555555555555555555555555555555555555555555555…" is no duration; write one such as 30s, 5m, 12h, 7d or 5 minutes`,
	},
	"every-and-cron": {"4: tiers[0].cron: a tier has every or cron, not both"},
	"every-missing":  {"2: tiers[0].every: missing or zero: a tier needs every (at least 1s) or cron"},
	"every-too-short": {
		"2: tiers[0].every: missing or zero: a tier needs every (at least 1s) or cron",
		"3: tiers[1].every: must be at least 1s, not -5m",
		"4: tiers[2].every: must be at least 1s, not 500ms",
		"5: tiers[3].every: must be whole seconds, not 1.5s",
	},
	"max-age-missing": {"2: tiers[0].max_age: missing; say how old a record may be, such as max_age: 1d"},
	"max-age-zero": {
		"2: tiers[0].max_age: must be positive, not 0s",
		"3: tiers[1].max_age: must be positive, not -1d",
	},
	"no-tiers": {"1: tiers: missing; a schedule needs at least one: tiers: [{max_age: 1d, every: 5m}]"},
	"offset": {
		"5: tiers[0].offset: must be at least 0s and less than every (5m), not 5m",
		"6: tiers[1].offset: goes with every, not with cron",
	},
	"tiers-empty": {"1: tiers: is an empty list; a schedule needs at least one: tiers: [{max_age: 1d, every: 5m}]"},
	"tiers-not-mappings": {
		"1: tiers[0]: must be a mapping (key: value), not text",
		"2: tiers[1]: must be a mapping (key: value), not a list",
		"3: tiers[2].evry: unknown key; did you mean every?",
	},
	"tiers-order": {
		"3: tiers[1].max_age: 1d after 7d: tiers go from narrow to wide",
		"4: tiers[2].max_age: 7d after 7d: tiers go from narrow to wide",
	},
	"tiers-same-name": {`3: tiers[1].name: "a" is taken by a tier before`},
}
