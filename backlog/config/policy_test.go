package config_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/mapping"
	"backlog/backlog/retry"
	"backlog/internal/testkit"
)

// known are the policies, beside progressive.
var known = func() (list []config.Settings) {
	for _, name := range retry.Names() {
		list = append(list, config.Settings{Name: name, New: func() any { return retry.New(name) }})
	}
	return list
}()

// policy returns a policy whose settings are not all the defaults.
func policy[S any](name string, change func(s S)) config.Policy {
	s := retry.New(name).(S)
	change(s)
	return config.Policy{Name: name, Settings: s}
}

func keep[S any](S) {}

// badPolicies are policies that there are not or that do not fit the table.
var badPolicies = badFiles{
	"on-dead": {
		"3: on_dead.exec: must be a list, not text: no shell splits it; write one item for the program and one for each argument: [./tell.sh, --verbose]",
		"4: on_dead.timeout: must be at least 1ms, not 0s",
		"5: on_dead.retries: unknown key; known here: exec, http, mail, timeout",
	},
	"on-dead-blank":        {"2: on_dead: is empty, must be a mapping (key: value); fill it in or remove it"},
	"on-dead-nothing":      {"2: on_dead: nothing to run; add exec: [./tell.sh], or http or mail"},
	"on-dead-without-dead": {"1: on_dead: no record is ever dead without statuses.dead; add it, such as statuses: {dead: DEAD}, or remove on_dead"},
	"policy-attempts":      {"1: table.attempts: the policy fibonacci counts in the column retries already; remove table.attempts"},
	"policy-blank":         {"2: policy.fibonacci: is empty, must be a mapping (key: value); fill it in or remove it"},
	"policy-columns": {
		"3: policy.fibonacci.columns.failure: unknown key; did you mean failures?",
		"3: policy.fibonacci.columns.last_failure: must be text, not a number; put it in quotes",
		"3: policy.fibonacci.columns.failures: is empty; fill it in or remove it",
	},
	"policy-columns-list": {"1: policy.arctan.columns: must be a mapping (key: value), not a list"},
	"policy-columns-none": {"1: policy.none.columns: unknown key; there are none here, remove it"},
	"policy-columns-same": {
		"3: policy.linear.columns.next_attempt_time: the column next_attempt_time is taken by policy.linear.columns.last_attempt_time; remove one of them",
		"3: policy.linear.columns.in_retry: the column tries is taken by policy.linear.columns.attempt_count; remove one of them",
	},
	"policy-columns-set": {
		"3: statuses.new.set.failures: the column is taken by policy.fibonacci.columns.failures; remove one of them",
		"4: statuses.success.set.last_failure: the column is taken by policy.fibonacci.columns.last_failure; remove one of them",
		"5: statuses.error.set.failures: the column is taken by policy.fibonacci.columns.failures; remove one of them",
	},
	"policy-columns-taken": {
		"9: policy.exponential.columns.attempt_count: the column failures is taken by table.id; remove one of them",
		"10: policy.exponential.columns.last_attempt_time: the column status is taken by table.status; remove one of them",
		"11: policy.exponential.columns.next_attempt_time: the column error is taken by table.last_error; remove one of them",
		"12: policy.exponential.columns.in_retry: the column tries is taken by table.attempts; remove one of them",
	},
	"policy-columns-own-times": {
		"8: policy.fibonacci.columns.failures: the column kind is in table.where: a failure would take the record out of it; name another",
		"9: policy.fibonacci.columns.last_failure: the column until is one of the record's own times, which the policy would overwrite; name another",
	},
	"policy-columns-inserted": {
		"7: policy.linear.columns.attempt_count: the column made is one of the record's own times, which the policy would overwrite; name another",
		"8: policy.linear.columns.next_attempt_time: the column made is one of the record's own times, which the policy would overwrite; name another",
	},
	"policy-columns-taken-by-default": {
		"2: policy.arctan.columns.attempts: the column attempts is taken by table.id; remove one of them",
		"2: policy.arctan.columns.updated_at: the column updated_at is taken by table.inserted.keep; remove one of them",
	},
	"policy-duration": {
		`3: policy.fibonacci.unit: invalid duration "60": 60 has no unit, such as s, m, h, d or w; write one such as 30s, 5m, 12h, 7d or 5 minutes`,
		"4: policy.fibonacci.max_delay: must be a duration such as 30s, 5m, 12h or 7d, not a list",
	},
	"policy-duration-negative": {
		"3: policy.arctan.max: must be at least 0s, not -1h",
		"4: policy.arctan.max_delay: must be at least 0s, not -1s",
	},
	"policy-duration-zero": {
		"3: policy.fibonacci.unit: must be more than 0",
		"4: policy.fibonacci.max_delay: must be more than 0",
	},
	"policy-intervals": {
		"4: policy.list[1]: must be at least 0s, not -5m",
		`5: policy.list[2]: invalid duration "30": 30 has no unit, such as s, m, h, d or w; write one such as 30s, 5m, 12h, 7d or 5 minutes`,
		"6: policy.list[3]: must be a duration such as 30s, 5m, 12h or 7d, not a list",
		"7: policy.list[4]: is empty, must be a duration such as 30s, 5m, 12h or 7d; fill it in or remove it",
	},
	"policy-intervals-empty":       {"1: policy.list.intervals: is an empty list; name at least one interval"},
	"policy-intervals-empty-short": {"1: policy.list: is an empty list; name at least one interval"},
	"policy-intervals-text":        {"1: policy.list.intervals: must be a list of durations such as [0, 1m, 5m], not text"},
	"policy-intervals-too-many":    {"3: policy.list.intervals: has 101 intervals; 100 are the most"},
	"policy-list":                  {"1: policy: must be " + policyName + ", not a list"},
	"policy-list-of-another":       {"1: policy.fibonacci: must be a mapping (key: value), not a list"},
	"policy-no-name":               {"1: policy: must name one policy, not 0"},
	"policy-none-keep":             {"1: policy: " + toldApart},
	"policy-none-same":             {"1: policy: " + toldApart},
	"policy-none-set":              {"1: policy: " + toldApart},
	"policy-none-settings":         {"1: policy.none.max_delay: unknown key; there are none here, remove it"},
	"policy-not-a-mapping":         {"1: policy.fibonacci: must be a mapping (key: value), not text"},
	"policy-not-text":              {"1: policy: must be " + policyName + ", not a number"},
	"policy-null":                  {"1: policy: is null, must be " + policyName + "; fill it in or remove it"},
	"policy-number":                {"3: policy.exponential.base: must be a number, not text"},
	"policy-number-large":          {`3: policy.exponential.base: "1` + strings.Repeat("0", 59) + `…" is too large`},
	"policy-number-least": {
		"3: policy.exponential.base: must be at least 1, not 0.5",
		"4: policy.exponential.max_retries: must be at least 0, not -1",
	},
	"policy-number-negative": {"3: policy.exponential.base: must be at least 0, not -2"},
	"policy-number-odd":      {"3: policy.exponential.base: must be a number such as 2 or 1.5, not .inf"},
	"policy-number-quoted": {
		"3: policy.exponential.base: must be a number, not text; remove the quotes",
		"4: policy.exponential.max_retries: must be a number, not text; remove the quotes",
	},
	"policy-seconds": {
		"3: policy.sneakers.base: must be at least 0, not -15",
		"4: policy.sneakers.max_retries: must be a whole number, not 2.5",
	},
	"policy-seconds-large": {"3: policy.sneakers.base: 99999999999 is too large"},
	"policy-seconds-odd":   {"3: policy.sneakers.base: must be a number such as 2 or 1.5, not 1_000"},
	"policy-seconds-text":  {`3: policy.sneakers.base: invalid duration "15": 15 has no unit, such as s, m, h, d or w; write one such as 30s, 5m, 12h, 7d or 5 minutes`},
	"policy-settings":      {"2: policy.progressive.unit: unknown key; there are none here, remove it"},
	"policy-touch": {
		"3: table.touch.updated_at: the policy arctan writes the time of a failure there; write now or remove it",
		"5: policy.arctan.columns.attempts: the column attempts is taken by table.touch.attempts; remove one of them",
	},
	"policy-touch-planned": {
		"2: table.touch.last_attempt_time: the policy linear writes the time of a failure there; write now or remove it",
		"3: policy.linear.columns.next_attempt_time: the column next_attempt_time is taken by table.touch.next_attempt_time; remove one of them",
	},
	"policy-two":     {"1: policy: must name one policy, not 2"},
	"policy-unknown": {"1: policy: unknown policy fibonaci; did you mean fibonacci?"},
	"policy-unknown-setting": {
		"2: policy.fibonacci.units: unknown key; did you mean unit?",
		"2: policy.fibonacci.interval: unknown key; known here: columns, max_delay, unit",
		"2: policy.fibonacci.Unit: unknown key; did you mean unit?",
	},
	"policy-refresh-columns": {
		"1: table.attempts: the policy refresh counts in the column attempt_no already; remove table.attempts",
		"5: policy.refresh.columns.refresh_at: the column refresh_at is taken by table.touch.refresh_at; remove one of them",
	},
	"policy-unknown-settings": {"1: policy: unknown policy random; known: arctan, exponential, fibonacci, linear, list, none, progressive, refresh, sneakers"},
}

const policyName = "the name of a policy (arctan, exponential, fibonacci, linear, list, none, progressive, refresh, sneakers)"

const toldApart = "none needs failed records to be told from new ones, else each is tried again; " +
	"give statuses.error a value or condition of its own, or add statuses.dead"

func TestPolicies(t *testing.T) {
	c := mustLoad(t, "ok-policy-fibonacci.yaml")
	testkit.Equal(t, "fibonacci", c.Policy, policy("fibonacci", func(f *retry.Fibonacci) {
		f.Unit, f.MaxDelay = 5*time.Minute, 24*time.Hour
		f.Columns = mapping.Names{{"Failures", "failures"}, {"last failure", "last_failure"}}
	}))
	testkit.Equal(t, "on_dead", c.OnDead, config.OnDead{Kind: "exec", Settings: &exec.NotifySettings{Command: []string{"./tell.sh", "--loud"}}, Timeout: 5 * time.Second})
	testkit.Equal(t, "arctan", mustLoad(t, "ok-policy-arctan.yaml").Policy, policy("arctan", func(a *retry.Arctan) { a.Max = 12 * time.Hour }))
	testkit.Equal(t, "list", mustLoad(t, "ok-policy-list.yaml").Policy, policy("list", func(l *retry.List) {
		l.Intervals = []time.Duration{0, time.Minute, 5 * time.Minute}
	}))
	c = mustLoad(t, "ok-policy-sneakers.yaml")
	testkit.Equal(t, "sneakers", c.Policy, policy("sneakers", func(s *retry.Sneakers) { s.Base, s.MaxRetries = 15*time.Second, 3 }))
	testkit.Equal(t, "on_dead", c.OnDead, config.OnDead{Kind: "exec", Settings: &exec.NotifySettings{Command: []string{"./tell.sh"}}, Timeout: 30 * time.Second})
	testkit.Equal(t, "exponential", mustLoad(t, "ok-policy-exponential.yaml").Policy, policy("exponential", func(e *retry.Exponential) {
		e.Interval, e.Base, e.MaxRetries = time.Minute, 1.5, 0
		e.Columns = mapping.Names{
			{"AttemptCount", "attempt_count"}, {"LastAttemptTime", "last_attempt_time"},
			{"NextAttemptTime", "next_attempt_time"}, {"InRetry", "in_retry"},
		}
	}))
	none := policy("none", keep[*retry.None])
	testkit.Equal(t, "none", mustLoad(t, "ok-policy-none.yaml").Policy, none)
	testkit.Equal(t, "none with dead", mustLoad(t, "ok-policy-none-dead.yaml").Policy, none)
}

// Without any others there is progressive.
func TestPoliciesKnown(t *testing.T) {
	const text = "policy: fibonacci\ntiers: [{max_age: 1d, every: 5m}]\n"
	_, err := config.Load(strings.NewReader(text), "s.yaml", lookup, config.Known{})
	if err == nil || err.Error() != "s.yaml:1: policy: unknown policy fibonacci; known: progressive" {
		t.Errorf("got %v", err)
	}
	if _, err := config.Load(strings.NewReader(text), "s.yaml", lookup, all); err != nil {
		t.Error(err)
	}
}

func TestParsePolicy(t *testing.T) {
	short := policy("list", func(l *retry.List) { l.Intervals = []time.Duration{0, time.Minute, 5 * time.Minute} })
	usual, five := policy("fibonacci", keep[*retry.Fibonacci]), policy("fibonacci", func(f *retry.Fibonacci) { f.Unit = 5 * time.Minute })
	base := func(d time.Duration) config.Policy { return policy("sneakers", func(s *retry.Sneakers) { s.Base = d }) }
	for text, want := range map[string]config.Policy{
		"progressive":                      {Name: "progressive"},
		"none":                             policy("none", keep[*retry.None]),
		"fibonacci":                        usual,
		" fibonacci\n":                     usual,
		`"fibonacci"`:                      usual,
		"{fibonacci: {}}":                  usual,
		"fibonacci: {unit: 5m}":            five,
		"fibonacci:\n  unit: 5m":           five,
		"{list: {intervals: [0, 1m, 5m]}}": short,
		"list: [0, 1m, 5m]":                short,
		"sneakers: {base: 0.5}":            base(500 * time.Millisecond),
		"sneakers: {base: 1m}":             base(time.Minute),
		"arctan: {columns: {attempts: n}}": policy("arctan", func(a *retry.Arctan) { a.Columns[0][0] = "n" }),
	} {
		got, err := config.ParsePolicy(text, known...)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		testkit.Equal(t, text, got, want)
	}
}

func TestParsePolicyRefuses(t *testing.T) {
	const nothing = "neither the name of a policy nor one with settings; write fibonacci or 'fibonacci: {unit: 5m}'"
	for text, want := range map[string]string{
		"":                                 nothing,
		"~":                                nothing,
		"fibonacci: {unit: 5m":             nothing,
		"fibonacci: unit: 5m":              nothing,
		"a\n---\nb":                        nothing,
		"\x00":                             nothing,
		"&a [*a]":                          nothing,
		`"": {}`:                           "a key is missing before the colon; add it\nmust name one policy, not 0",
		"fibonaci":                         "unknown policy fibonaci; did you mean fibonacci?",
		"12":                               "must be " + policyName + ", not a number",
		"[fibonacci]":                      "must be " + policyName + ", not a list",
		"fibonacci: 5m":                    "fibonacci: must be a mapping (key: value), not text",
		"fibonacci: {unit: 0, max: 1h}":    "fibonacci.unit: must be more than 0\nfibonacci.max: unknown key; known here: columns, max_delay, unit",
		"list: []":                         "list: is an empty list; name at least one interval",
		"list: [0, -1m]":                   "list[1]: must be at least 0s, not -1m",
		"{list: [], fibonacci: {unit: 1}}": "must name one policy, not 2",
	} {
		got, err := config.ParsePolicy(text, known...)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v\nwant %s", text, err, want)
		}
		testkit.Equal(t, text, got, config.Policy{})
	}
}

// FuzzParsePolicy asserts that whatever is read becomes a policy that is known,
// with values that it takes, or an error that fits a terminal.
func FuzzParsePolicy(f *testing.F) {
	for _, text := range []string{
		"fibonacci", "list: [0, 1m, 5m]", "{list: {intervals: [0]}}", "fibonacci: {unit: 5m}", "sneakers: {base: 15, max_retries: 3}",
		"exponential: {base: 1.5, columns: {in_retry: InRetry}}", "&a [*a]", "!!str 5", "{a: &x [1], <<: *x}", "sneakers: {base: -1e400}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := config.ParsePolicy(text, known...)
		if err != nil {
			if p.Name != "" || strings.ContainsAny(err.Error(), "\x00\x1b") {
				t.Errorf("%+v, %q", p, err)
			}
			return
		}
		if p.Name == "progressive" && p.Settings == nil {
			return
		}
		s, ok := p.Settings.(retry.Settings)
		if !ok || s.Keeps().Name != p.Name {
			t.Fatalf("%q is not known", p.Name)
		}
		if _, err := retry.Policy(s); err != nil || len(s.Keeps().Columns) != len(retry.New(p.Name).Keeps().Columns) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
