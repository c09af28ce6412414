package timeform

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A Cut splits the values of a column at a time. Values for that time or later are at or above
// Low. If Gap is not nil there is an exception: texts have a space or a T between date and time of
// day, and within one day all those with a space come before those with a T. Then values from
// Gap on but below High are also earlier than the time. An index serves comparisons with Low and
// with High.
type Cut struct{ Low, Gap, High any }

// Split returns the cut at t, as exact as the precision of the column allows.
func (f Form) Split(t time.Time) Cut {
	if c, _ := f.codec.(Calendar); c.anyDivider {
		return c.cut(ceil(leastWall(t, c.Zone), c.precision()))
	}
	return Cut{Low: f.Exact(t)}
}

// Since returns a cut below all values for t or later. A value for less than a second before t may
// be above it too, and for longer where the clock of a zone was set back. The cut only reduces how
// many rows are read: Parse decides.
func (f Form) Since(t time.Time) Cut {
	if c, _ := f.codec.(Calendar); c.anyDivider {
		return c.cut(leastWall(t, c.Zone).Truncate(time.Second))
	}
	return Cut{Low: f.Lower(t)}
}

// Until returns a cut above all values for t or earlier. A value may be below it too if it is for up
// to two seconds after t, or up to one step of the form. There is one exception: in a column with
// seconds, a text without seconds but with the zone Z may be above the cut for a minute, because
// the letter comes after all digits.
func (f Form) Until(t time.Time) Cut {
	if c, _ := f.codec.(Calendar); c.anyDivider {
		return c.cut(leastWall(t.Truncate(c.step()).Add(c.step()), c.Zone))
	}
	return Cut{Low: f.Beyond(t)}
}

// cut returns the cut at what the clock shows. It leaves out zeros at the end, so that a text
// without seconds is at or above the cut too.
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

// A Range has the values at or above From and below To. nil means that there is no limit.
type Range struct{ From, To any }

// RangesBefore returns ranges of values below the bound for t that cannot be times before t in this
// form. They are in another form, are not dates, or are before 1990. The ranges do not contain all
// such values. They contain those that are after t in another form that [Detect] knows, and those
// that are not dates.
func (f Form) RangesBefore(t time.Time) []Range {
	list := []Range{{nil, f.Lower(First)}}
	c, _ := f.codec.(Calendar)
	if c.class != Text || c.Type != "" {
		return list
	}
	year, _, below := c.aroundYear(t)
	return append(list, Range{"20", "200"}, Range{year, below}) // 20.02.2026
}

// RangesAfter returns ranges of values above the bound for t that cannot be times after t in this
// form, like [Form.RangesBefore]. Nor can they be times before 2101.
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

// A Misfit is a way in which a text does not have a form: it matches all patterns of Like and none
// of Unlike. They are patterns of SQL's LIKE.
type Misfit struct{ Like, Unlike []string }

// Misfits returns the ways that patterns can detect. There are none for columns that do not hold
// texts.
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

// zonePatterns returns patterns of texts that begin with the pattern head and have the zone of the form.
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

// anyText returns the pattern of all texts in the layout.
func anyText(layout string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '_'
		}
		return r
	}, layout)
}

// aroundYear returns the year of t as text, and bounds of the texts that begin with this year. Those
// above the first bound have a character after the year that comes after the one of the form; those
// below the second have one that comes before it.
func (c Calendar) aroundYear(t time.Time) (year, above, below string) {
	year = t.In(c.Zone).Format("2006")
	next := c.Head[len("2006")]
	if isDigit(next) {
		return year, year + ":", year + "0"
	}
	return year, year + string(rune(next+1)), year + string(rune(next))
}
