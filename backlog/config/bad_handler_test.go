package config_test

// badHandlers are handlers that contradict themselves or lack something.
var badHandlers = badFiles{
	"concurrency-too-large": {"1: handler.concurrency: must be at most 100000, not 9000000000000000000; so many records are never processed at a time"},
	"handler-kinds":         {"2: handler.lines: is beside exec; keep one of them", "4: handler.sql: is beside exec; keep one of them"},
	"handler-strays-exec": {
		"1: handler.workers: unknown key; known here: concurrency, exec, http, input, lines, redis, reject, skip, snooze, sql, timeout, trace",
		"1: handler.window: unknown key; known here: concurrency, exec, http, input, lines, redis, reject, skip, snooze, sql, timeout, trace",
		"1: handler.allow_zero_rows: unknown key; known here: concurrency, exec, http, input, lines, redis, reject, skip, snooze, sql, timeout, trace",
	},
	"handler-strays-http": {
		"3: handler.reject: unknown key; known here: concurrency, exec, http, lines, redis, sql, timeout, trace",
		"4: handler.skip: unknown key; known here: concurrency, exec, http, lines, redis, sql, timeout, trace",
		"5: handler.workers: unknown key; known here: concurrency, exec, http, lines, redis, sql, timeout, trace",
		"6: handler.max_pause: unknown key; known here: concurrency, exec, http, lines, redis, sql, timeout, trace",
	},
	"handler-strays-lines": {
		"1: handler.reject: unknown key; known here: concurrency, exec, http, lines, max_pause, redis, sql, timeout, trace, window, workers",
		"1: handler.skip: unknown key; known here: concurrency, exec, http, lines, max_pause, redis, sql, timeout, trace, window, workers",
		"1: handler.allow_zero_rows: unknown key; known here: concurrency, exec, http, lines, max_pause, redis, sql, timeout, trace, window, workers",
	},
	"handler-strays-sql": {
		"1: handler.reject: unknown key; known here: allow_zero_rows, concurrency, exec, http, lines, redis, sql, timeout, trace",
		"1: handler.skip: unknown key; known here: allow_zero_rows, concurrency, exec, http, lines, redis, sql, timeout, trace",
		"1: handler.window: unknown key; known here: allow_zero_rows, concurrency, exec, http, lines, redis, sql, timeout, trace",
	},
	"redis-no-refresh": {
		"2: handler.redis: is answered later, which only the policy refresh waits for; add policy: {refresh: {every: 2h, timeout: 1h}} or the like, or take another handler",
	},
	"redis-nothing": {
		"3: handler.redis: has no url; add url: redis://127.0.0.1:6379/0",
		"3: handler.redis: has no input; add input: orders-input",
		"3: handler.redis: has no output; add output: orders-output",
	},
	"redis": {
		"3: handler.workers: unknown key; known here: concurrency, exec, http, lines, redis, sql, timeout, trace",
		"4: handler.reject: unknown key; known here: concurrency, exec, http, lines, redis, sql, timeout, trace",
		"6: handler.redis.url: is no URL of a Redis; write one such as redis://user:${PASSWORD}@127.0.0.1:6379/0, or rediss:// for TLS; in a password @ is %40, / is %2F and so on",
		"7: handler.redis.input: is a list that answers come to; workers need one of their own",
		"9: handler.redis.fields.attempt_in: uid is the name of id, too; choose another",
		"9: handler.redis.fields.attempt: unknown key; did you mean attempt_in?",
		"10: handler.redis.columns[1]: attempt_no is a field of requests already; give that another name, such as fields: {attempt_no: record_attempt_no}",
	},
	"sql-refresh": {
		"3: handler.sql: is done with its outcome in one transaction, but the policy refresh writes the start of an attempt before; take exec, lines, http or redis",
	},
	"trace":                   {"3: handler.trace: unknown trace sometimes; known: off, sampled, unsampled"},
	"trace-sql":               {"3: handler.trace: statements call no service to which a trace could go on; remove it"},
	"http-allow-empty":        {"1: handler.http.allow: is an empty list; name at least one or remove it"},
	"http-allow-missing-host": {"1: handler.http.url: a record says which host is called; add allow: [example.com], the hosts it may name"},
	"http-allow-missing-port": {"1: handler.http.url: a record says which host is called; add allow: [example.com], the hosts it may name"},
	"http-allow-missing-url":  {"1: handler.http.url: a record says which host is called; add allow: [example.com], the hosts it may name"},
	"http-allow": {
		"5: handler.http.allow[0]: https://example.com " + noHost,
		"6: handler.http.allow[1]: example.com/x " + noHost,
		"7: handler.http.allow[2]: example.com:https " + noHost,
		"8: handler.http.allow[3]: example.com:0 " + noHost,
		`9: handler.http.allow[4]: "*" ` + noHost,
		"10: handler.http.allow[5]: 10.0.0.0/33 " + noHost,
		"12: handler.http.allow[7]: is listed twice; remove one",
	},
	"http-blank":        {"1: handler.http: is empty, must be a mapping (key: value); fill it in or remove it"},
	"http-client-cert":  {"1: handler.http.client_cert: goes with client_key; add it"},
	"http-client-key":   {"1: handler.http.client_key: goes with client_cert; add it"},
	"http-headers-flow": {"1: handler.http.headers: a key without a value; put a space after its colon, and quotes around a value with a comma in it"},
	"http-headers-list": {"1: handler.http.headers: must be a mapping (key: value), not a list"},
	"http-headers-own": {
		"4: handler.http.headers.webhook-id: is set by the program itself; remove it",
		"4: handler.http.headers.Webhook-Signature: is set by the program itself; remove it",
		"4: handler.http.headers.idempotency-key: is set by the program itself; remove it",
		"4: handler.http.headers.BACKLOG-ATTEMPT-ID: is set by the program itself; remove it",
		"4: handler.http.headers.host: is set by the program itself; remove it",
		"4: handler.http.headers.Content-Length: is set by the program itself; remove it",
	},
	"http-headers": {
		"5: handler.http.headers.X-Count: must be text, not a number; put it in quotes",
		"6: handler.http.headers: a key that is no header, not shown as it may be secret; write Name: value",
		"7: handler.http.headers: a key that is no header, not shown as it may be secret; write Name: value",
		"8: handler.http.headers.Authorization: holds a line break or another character that no header has; remove it",
		"9: handler.http.headers.X-Key: is empty; fill it in or remove it",
		"10: handler.http.headers.x-key: is there twice, in other capitals; remove one",
		"11: handler.http.headers.X-None: the environment variable NONE is not set; set it, or write $${ if the characters themselves are meant",
		"12: handler.http.headers.X-List: must be text, not a list",
	},
	"http-max-pause": {"1: handler.http.max_pause: must be at least 1s, not 0s"},
	"http-method":    {"1: handler.http.method: unknown method post; did you mean POST?"},
	"http-no-url":    {"1: handler.http: has no url; add url: https://example.com/orders"},
	"http-secret-empty": {
		"1: handler.http.secret: is an empty list; name at least one or remove it",
		"1: handler.http.secret_file: must be a file or a list of them, not a number",
	},
	"http-secret-mapping": {
		"1: handler.http.secret: must be a secret or a list of them, not a mapping",
		"1: handler.http.secret_file[1]: is listed twice; remove one",
	},
	"http-secret": {
		"5: handler.http.secret[0]: " + noSecret,
		"6: handler.http.secret[1]: " + noSecret,
		"7: handler.http.secret[2]: " + noSecret,
		"8: handler.http.secret[3]: the environment variable NONE is not set; set it, or write $${ if the characters themselves are meant",
		"9: handler.http.secret[4]: must be text, not a number; put it in quotes",
		"11: handler.http.secret[6]: is listed twice; remove one",
	},
	"http-status-both":   {"1: handler.http.reject: status 204 is in success too; give both, each its own (default: success 2xx, reject 410)"},
	"http-status-reject": {"1: handler.http.success: status 410 is in reject too; give both, each its own (default: success 2xx, reject 410)"},
	"http-status": {
		"4: handler.http.success[0]: " + noStatus,
		"4: handler.http.success[1]: " + noStatus,
		"4: handler.http.success[2]: " + noStatus,
		"4: handler.http.success[3]: " + noStatus,
		"4: handler.http.success[4]: " + noStatus,
		"4: handler.http.success[5]: must be a whole number, not 204.5",
		"4: handler.http.success[6]: must be a number, not text; remove the quotes",
		"5: handler.http.reject: must be a status such as 204 or 2xx, not text",
	},
	"http-success-empty": {"1: handler.http.success: is an empty list; name at least one or remove it"},
	"http-text":          {"1: handler.http: must be a mapping (key: value), not text"},
	"http-unknown-key": {
		"1: handler.http: has no url; add url: https://example.com/orders",
		"1: handler.http.uri: unknown key; did you mean url?",
		"1: handler.http.timeout: unknown key; known here: allow, ca_file, client_cert, client_key, headers, max_pause, method, reject, retry_after, secret, secret_file, success, url",
	},
	"http-url-begins":       {"1: handler.http.url: begins with a {column}, which must be the whole url or stand behind https://; write one such as https://example.com/orders"},
	"http-url-brace":        {"1: handler.http.url: has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant"},
	"http-url-broken":       {"1: handler.http.url: is no URL; write one such as https://example.com/orders"},
	"http-url-column-empty": {"1: handler.http.url: has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant"},
	"http-url-fragment":     {"1: handler.http.url: has a part behind #, which no service is sent; remove it"},
	"http-url-host":         {"1: handler.http.url: must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
	"http-url-scheme":       {"1: handler.http.url: must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
	"lines-max-pause": {
		"1: handler.max_pause: must be at least 1s, not 10ms",
		"1: handler.concurrency: must be at most 100000, not 100001; so many records are never processed at a time",
	},
	"lines-numbers": {
		"2: handler.lines: is an empty list; name a program: [./worker]",
		"3: handler.workers: must be at least 1, not 0",
		"4: handler.window: must be a whole number, not text",
	},
	"lines-text":             {"1: handler.lines: must be a list, not text: no shell splits it; write one item for the program and one for each argument: [./worker, --verbose]"},
	"lines-too-many-workers": {"1: handler.workers: must be at most 1000, not 9999999"},
	"lines-too-many":         {"1: handler.window: must be at most 1000, not 1001"},
	"on-dead-http": {
		"2: on_dead.http: has no url; add url: https://example.com/orders",
		"2: on_dead.http.reject: unknown key; known here: " + toldKeys,
		"2: on_dead.http.max_pause: unknown key; known here: " + toldKeys,
		"2: on_dead.http.secret: " + noSecret,
	},
	"on-dead-mail": {
		"3: on_dead.mail: has no text; add text: 'It failed: {error}'",
		"5: on_dead.mail.insecure: is only for a server on this machine, such as smtp://localhost:25: anybody on the way could read mails and the password; remove it",
		"6: on_dead.mail.from: is no address; write one such as backlog@example.com, or Backlog <backlog@example.com>",
		"7: on_dead.mail.to: has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant",
		"8: on_dead.mail.subject: has a line break; a subject is one line",
		"11: on_dead.mail.secure: unknown key; did you mean insecure?",
	},
	"on-dead-mail-blank": {
		"2: on_dead.mail: has no smtp; add smtp: smtp://user:${PASSWORD}@mail.example.com:587",
		"2: on_dead.mail: has no from; add from: backlog@example.com",
		"2: on_dead.mail: has no to; add to: '{email}'",
		"2: on_dead.mail: has no subject; add subject: Record {id} was given up",
		"2: on_dead.mail: has no text; add text: 'It failed: {error}'",
	},
	"refresh-told": {"3: policy.refresh.expr: says that the customer is told, and nothing does it; add on_dead: {mail: …}, or remove the sentence"},
	"refresh-english": {
		`3: policy.refresh.expr: line 1: "Refresh BigTable now and then" is none of the sentences that are understood; they are: ` +
			"Refresh WHAT once|twice|3 times per day at 6 AM, 1 PM and 4 PM / Refresh WHAT every 2 hours / Send a request to WHAT / " +
			"Allow 1 hour [for a response|to complete] / On the first|second|… failure, retry immediately|after 5 minutes / " +
			`On the fourth failure, mark WHAT with "TEXT" / On the seventh failure: + Reset attempt_no + Wait until [the] next scheduled refresh / ` +
			"Panic | Give up after the final unsuccessful retry / Give up after 1 week of unsuccessful [refresh] attempts / Disable auto-refresh / " +
			"Email the customer that … | Send the customer an email …",
	},
	"on-dead-lines": {
		"2: on_dead: nothing to run; add exec: [./tell.sh], or http or mail",
		"2: on_dead.lines: unknown key; known here: exec, http, mail, timeout",
	},
	"on-dead-two": {"3: on_dead.http: is beside exec; keep one of them"},
	"sql-blank": {
		"1: handler.sql[0]: is empty; fill it in or remove it",
		"1: handler.sql[1]: is empty; fill it in or remove it",
		"1: handler.sql[3]: is null, must be text; fill it in or remove it",
	},
	"sql-empty": {"1: handler.sql: is an empty list; name at least one or remove it"},
	"sql-mapping": {
		"1: handler.sql: must be an SQL statement or a list of them, not a mapping",
		"1: handler.allow_zero_rows: must be true or false, not text",
	},
}

const (
	noSecret = "is no secret; it must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` prints one"
	noHost   = "is no host; write a name such as example.com or *.example.com, with :port if that is meant, an address, or a network such as 10.0.0.0/8"
	noStatus = "must be from 200 to 599, or 2xx, 3xx, 4xx or 5xx"
	toldKeys = "allow, ca_file, client_cert, client_key, headers, method, secret, secret_file, success, url"
)
