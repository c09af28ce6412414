package timeform

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A Cut splits the values of a column at a time. Those from then on are at or above
// Low. Where Gap is not nil, texts divide date and time of day by a space or by a T,
// which come one after the other within a day: then the values from Gap on that are below
// High are earlier, too. So a comparison with Low, or with High, is served by an index.
type Cut struct{ Low, Gap, High any }

// Split returns the cut at t, as exact as one comparison can be at the precision that the
// column shows.
func (f Form) Split(t time.Time) Cut {
	if c, _ := f.codec.(Calendar); c.anyDivider {
		return c.cut(ceil(leastWall(t, c.Zone), c.precision()))
	}
	return Cut{Low: f.Exact(t)}
}

// Since returns a cut for values for t or later. Values for less than a second before t may
// be among them, or for longer where a zone's clock was set back: the cut spares reading
// the others, Parse decides.
func (f Form) Since(t time.Time) Cut {
	if c, _ := f.codec.(Calendar); c.anyDivider {
		return c.cut(leastWall(t, c.Zone).Truncate(time.Second))
	}
	return Cut{Low: f.Lower(t)}
}

// Until returns a cut above every value for t or earlier. Values for up to two seconds
// after t may be below it, too, or for as long as the form's step. In a column of seconds, a text without these
// whose zone is a Z may be above it for a minute: the letter comes behind any second.
func (f Form) Until(t time.Time) Cut {
	if c, _ := f.codec.(Calendar); c.anyDivider {
		return c.cut(leastWall(t.Truncate(c.step()).Add(c.step()), c.Zone))
	}
	return Cut{Low: f.Beyond(t)}
}

// cut returns the cut at what the clock reads. What is zero at its end is left out: so a
// text without seconds is at or above it, too.
func (c Calendar) cut(wall time.Time) Cut {
	const day = "2006-01-02"
	var clock string
	switch {
	case wall.Nanosecond() > 0:
		clock = "15:04:05.999999999"
	case wall.Second() > 0:
		clock = "15:04:05"
	case wall.Hour() > 0 || wall.Minute() > 0:
		clock = "15:04"
	default:
		return Cut{Low: c.value(wall, day, "")}
	}
	return Cut{Low: c.value(wall, day+" "+clock, ""), Gap: c.value(wall, day+"T", ""), High: c.value(wall, day+"T"+clock, "")}
}

// A Range is of values at or above From and below To. A nil one has no end there.
type Range struct{ From, To any }

// Below returns ranges in which no value stands for t or later in the form: what is there
// is in another one, no date, or before 1990. Not all such values are there, but those of
// which the date is after t in one of the forms that [Detect] knows, or which is no date.
func (f Form) RangesBefore(t time.Time) []Range {
	list := []Range{{nil, f.Lower(First)}}
	c, _ := f.codec.(Calendar)
	if c.class != Text || c.Type != "" {
		return list
	}
	year, _, below := c.aroundYear(t)
	return append(list, Range{"20", "200"}, Range{year, below}) // 20.02.2026
}

// Above returns ranges likewise in which no value stands for t or earlier, nor for a time
// before 2101.
func (f Form) RangesAfter(t time.Time) []Range {
	switch c := f.codec.(type) {
	case unix:
		return []Range{{c.value(c.units(maxTime.Add(time.Second))), nil}}
	case julian:
		return []Range{{julianEnd, nil}}
	case Calendar:
		switch {
		case c.Type != "":
			return nil
		case c.class == Integer:
			return []Range{{int64(1e14), nil}}
		case c.class == Real:
			return []Range{{1e14, nil}}
		}
		_, from, _ := c.aroundYear(t)
		next := strconv.Itoa(t.In(c.Zone).Year() + 1)
		return []Range{{from, next}, {strconv.Itoa(End.Year()), nil}}
	}
	return nil
}

// A Misfit is a way in which texts are not of a form: they match all of Like and none
// of Unlike, as patterns in SQL.
type Misfit struct{ Like, Unlike []string }

// Misfits returns the ways that patterns can tell; there are none for columns that hold
// no texts.
func (f Form) Misfits() []Misfit {
	c, _ := f.codec.(Calendar)
	if c.class != Text || c.Type != "" {
		return nil
	}
	if isDigit(c.Head[len("2006")]) {
		return []Misfit{{Unlike: []string{anyText(c.Head) + "%"}}, {Like: []string{"____-%"}}}
	}
	if !c.anyDivider {
		return []Misfit{{Unlike: []string{anyText(c.Head[:len("2006-01-02")]) + "%"}}}
	}
	minute := anyText("2006-01-02_15:04")
	list := []Misfit{{Unlike: []string{minute + "%"}}}
	own := c.zonePatterns(minute)
	if c.Suffix != "" && !c.zoneOptional {
		return append(list, Misfit{Unlike: own})
	}
	for _, zoned := range []string{"%+%", "%-%", "%Z", "%UTC%"} {
		list = append(list, Misfit{Like: []string{minute + zoned}, Unlike: own})
	}
	return list
}

// zonePatterns returns the patterns of texts behind a head that name the zone of the form.
func (c Calendar) zonePatterns(head string) (list []string) {
	if c.Suffix == "" && !c.zoneOptional {
		return nil
	}
	t := First.In(c.Zone)
	list = []string{head + "%" + t.Format("-07:00") + "%", head + "%" + t.Format("-0700") + "%"}
	_, offset := t.Zone()
	if offset%3600 == 0 {
		list = append(list, head+"%"+t.Format("-07"))
	}
	if offset == 0 {
		list = append(list, head+"%-00%", head+"%Z", head+"%UTC%")
	}
	return list
}

// anyText is the pattern of texts in the layout, whatever their digits are.
func anyText(layout string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '_'
		}
		return r
	}, layout)
}

// aroundYear returns the year of t as text, and bounds of the texts that begin with it and have before, and
// behind, what the form has between year and month.
func (c Calendar) aroundYear(t time.Time) (year, above, below string) {
	year = t.In(c.Zone).Format("2006")
	next := c.Head[len("2006")]
	if isDigit(next) {
		return year, year + ":", year + "0"
	}
	return year, year + string(rune(next+1)), year + string(rune(next))
}
