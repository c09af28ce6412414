package table_test

import (
	"context"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// TestMySQLInit makes a table that passes can work, by two who have asked at
// once, with every kind of policy.
func TestMySQLInit(t *testing.T) {
	for name, p := range map[string]*backlog.Policy{"none": nil, "counted": fibonacci(), "planned": planning(3, 0)} {
		plain, rawURL := newMySQL(t)
		defer plain.Close()
		m := plainMapping()
		if p != nil {
			m = retryMapping(p)
		}
		m.Touch = []mapping.Assignment{{Column: "touched", Value: text("now")}}
		steps, err := missing(context.Background(), rawURL, m, noon)
		if err != nil {
			t.Fatal(name, err)
		}
		for range 2 {
			if err := create(context.Background(), rawURL, steps); err != nil {
				t.Fatal(name, err)
			}
		}
		if steps, err := missing(context.Background(), rawURL, m, noon); len(steps) > 0 || err != nil {
			t.Errorf("%s: after init there are still missing: %q, %v", name, steps, err)
		}
		execMySQL(t, plain, "INSERT INTO BACKLOG (date_inserted) VALUES ('2026-02-10 11:00:00'), ('2026-02-10 11:00:00')")
		s, err := proveMySQL(t, rawURL, m)
		if err != nil {
			t.Fatal(name, err)
		}
		wantGoodPlans(t, name, s)
		settleOne(t, name, s)
	}
}
