package cmd

import (
	"testing"

	"backlog/backlog/amqp"
	"backlog/backlog/config"
	"backlog/backlog/mapping"
)

// Outcomes of another work on the table end the daemon, as those of another table do: dropped,
// their records would be handled again.
func TestDispatchOfEachWork(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range []string{"", "mail", "sms"} {
		cfg := &config.Config{Database: "sqlite:backlog.db", Name: name, Table: mapping.Mapping{Name: "BACKLOG"}.WithDefaults()}
		d := newDispatch(t.Context(), cfg, amqp.NewDispatchSettings(), nil)
		if other, taken := seen[d.Table]; taken {
			t.Errorf("the works %q and %q have the outcomes of %s", name, other, d.Table)
		}
		seen[d.Table] = name
	}
}
