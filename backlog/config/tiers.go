package config

import (
	"time"

	"backlog/tiers"
)

// tiers decodes the list of tiers. Cron tiers without a timezone of their own
// are in loc. Where age does not matter there is only one.
func (v value) tiers(loc *time.Location, ageless bool) *tiers.Schedule {
	items := v.list("a list of tiers")
	switch {
	case v.isList() && len(items) == 0:
		v.fail("is an empty list; a schedule needs at least one: %s", exampleOf(ageless))
	case ageless && len(items) > 1:
		v.fail("has %d tiers; with the policy refresh one says how often to look: %s", len(items), exampleOf(ageless))
		return nil
	}
	schedule := new(tiers.Schedule)
	for _, item := range items {
		if t, ok := item.tier(loc, ageless); !ok {
			continue
		} else if key, err := schedule.Add(t); err != nil {
			v.d.failf(join(item.path, key), "%v", err)
		}
	}
	return schedule
}

// tier decodes one tier and reports whether it is worth a look by
// [tiers.Schedule.Add], which knows what goes together.
func (v value) tier(loc *time.Location, ageless bool) (tiers.Tier, bool) {
	var t tiers.Tier
	before := len(v.d.errs)
	v.settings(&t)
	if ageless {
		v.ageless(&t)
	} else if v.isMapping() && !v.has("max_age") {
		v.d.failf(join(v.path, "max_age"), "missing; say how old a record may be, such as max_age: 1d")
	}
	if t.Cron != "" && t.Location == nil {
		t.Location = loc
	}
	return t, len(v.d.errs) == before
}
