package config_test

import "testing"

// TestStatusThatNoStateUses: a filter may be on a column that is called status, or named as
// the status column, where no state is a value of it.
func TestStatusThatNoStateUses(t *testing.T) {
	const rest = "database: sqlite:a.db\nhandler: {exec: [./h.sh]}\n"
	for _, text := range []string{
		"table: {name: t, where: {status: active}}\nstatuses: {new: {when: {done: null}}, success: {set: {done: now}}, error: keep}\ntiers: [{max_age: 1d, every: 1m}]\n",
		"table: {name: t, status: status, where: {status: active}}\nstatuses: {new: {when: {done: null}}, success: {set: {done: now}}, error: keep}\ntiers: [{max_age: 1d, every: 1m}]\n",
		"table: {name: t, status: status, where: {status: active}}\npolicy: {refresh: {every: 1h, timeout: 10m}}\ntiers: [{every: 1m}]\n",
	} {
		c := loadText(t, rest+text)
		if w := c.Table.Where; len(w) != 1 || w[0].Column != "status" {
			t.Errorf("%s: got the filter %+v", text, w)
		}
	}
}
