package config

import (
	"cmp"
	"time"

	"backlog/backlog/mapping"
	"backlog/tiers"
)

// ParseTiers parses tiers as the file writes them under the key tiers, or a mapping with that key
// alone. loc is the timezone of cron tiers without one. An error joins one for each problem.
func ParseTiers(text string, loc *time.Location) (*tiers.Schedule, error) {
	return parse([]byte(text), "", nil, Known{}, func(v value) (s *tiers.Schedule) {
		if v.isMapping() {
			v.object(keys{"tiers": func(v value) { s = v.tiers(loc, false) }})
		} else {
			s = v.d.value(v.node, "tiers", v.node).tiers(loc, false)
		}
		if s == nil {
			v.d.failf("tiers", "missing; a schedule needs at least one: %s", exampleOf(false))
		}
		return s
	})
}

// tiers decodes the list of tiers. loc is the timezone of cron tiers without one. withoutAges says
// that age does not matter, so that there must be a single tier.
func (v value) tiers(loc *time.Location, withoutAges bool) *tiers.Schedule {
	items := v.nonEmptyList("a list of tiers", "a schedule needs at least one: "+exampleOf(withoutAges))
	if withoutAges && len(items) > 1 {
		v.fail("has %d tiers; with the policy refresh one says how often to look: %s", len(items), exampleOf(withoutAges))
		return nil
	}
	schedule := new(tiers.Schedule)
	for _, item := range items {
		t, ok := item.tier(loc, withoutAges)
		if !ok {
			continue // its errors are reported
		}
		faultyKey, err := schedule.Add(t)
		if err != nil {
			v.d.failf(join(item.path, faultyKey), "%v", err)
		}
	}
	return schedule
}

// tier decodes one tier. It reports whether there were no errors, so that [tiers.Schedule.Add] can
// check the tier against the others.
func (v value) tier(loc *time.Location, withoutAges bool) (tiers.Tier, bool) {
	var t tiers.Tier
	before := len(v.d.errs)
	v.settings(&t)
	if withoutAges {
		v.completeOnlyTier(&t)
	} else if v.isMapping() && !v.has("max_age") {
		v.d.failf(join(v.path, "max_age"), "missing; say how old a record may be, such as max_age: 1d")
	}
	if t.Cron != "" && t.Location == nil {
		t.Location = loc
	}
	return t, len(v.d.errs) == before
}

// completeRefresh sets the defaults that differ under the policy refresh, and checks the rest of the
// file against that policy.
func (v value) completeRefresh(c *Config, p Refresher) {
	p.SetZone(c.Timezone)
	if key, err := p.CheckRule(); err != nil && !v.d.failed("policy") {
		v.d.failf("policy.refresh."+key, "%v", err)
	}
	if !v.d.has("statuses") {
		c.Table.New = mapping.State{}
		c.Table.Error = mapping.State{}
		c.Table.Success = mapping.State{}
		if !v.d.has("table.status") {
			c.Table.Status = ""
		}
	}
	if !v.d.has("table.inserted") {
		c.Table.Inserted = mapping.Time{}
	}
	switch c.Handler.Kind {
	case "redis":
		p.RequireUIDs()
	case "sql":
		v.d.failf("handler.sql", "is done with its outcome in one transaction, but the policy refresh writes the start of an attempt before; take exec, lines, http or redis")
	}
	limit := p.AttemptTimeout()
	switch {
	case limit <= 0: // reported already
	case !v.d.has("handler.timeout"):
		c.Handler.Timeout = limit
	case c.Handler.Timeout > limit:
		v.d.failf("handler.timeout", "%s is longer than the policy's timeout of %s, after which an attempt has failed; write %[2]s or less, or leave it out",
			tiers.FormatDuration(c.Handler.Timeout), tiers.FormatDuration(limit))
	}
	if p.NotifiesCustomer() && c.OnDead.Kind == "" {
		v.d.failf("policy.refresh.expr", "says that the customer is told, and nothing does it; add on_dead: {mail: …}, or remove the sentence")
	}
}

// completeOnlyTier completes the single tier of a policy for which age does not matter. The tier only
// says how often to look.
func (v value) completeOnlyTier(t *tiers.Tier) {
	v.d.rejectKey(join(v.path, "max_age"), "the policy refresh looks at rows of any age; remove it, as in tiers: [{every: 1m}]")
	t.MaxAge = anyAge
	if t.Name == "" && t.Every > 0 {
		t.Name = tiers.FormatDuration(t.Every)
	}
	t.Name = cmp.Or(t.Name, t.Cron)
}

// anyAge is older than any row.
const anyAge = 100 * 365 * 24 * time.Hour

// exampleOf returns tiers that could stand in the file.
func exampleOf(withoutAges bool) string {
	if withoutAges {
		return "tiers: [{every: 1m}]"
	}
	return "tiers: [{max_age: 1d, every: 5m}]"
}
