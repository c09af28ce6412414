package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"backlog/backlog/mapping"
	"backlog/backlog/pattern"
	"backlog/tiers"
)

// A decoder holds what one Load has found out. Decoding never stops at an
// error: methods of [value] note it, return whatever they have, and the result
// is thrown away in the end. To decode a further part of the file, write a
// struct, a method of value that fills it, mostly with [value.object], and add
// the method to the keys of the part above.
type decoder struct {
	file   string
	lookup func(string) (string, bool)
	known  Known
	places map[string]*yaml.Node // by path, of its key or item; the file itself is ""
	errs   []*Error
}

// parse reads the only document in a text. An error joins one for each thing that is wrong.
func parse[T any](text []byte, file string, lookup func(string) (string, bool), known Known, read func(top value) T) (t T, err error) {
	d := &decoder{file: file, lookup: lookup, known: known, places: map[string]*yaml.Node{"": {Line: 1}}}
	if top, ok := d.top(text); ok {
		t = read(d.value(top, "", top))
	}
	if err := d.err(); err != nil {
		return *new(T), err
	}
	return t, nil
}

// place returns the place of the path. One that is not in the file has the place
// of what should hold it.
func (d *decoder) place(path string) *yaml.Node {
	for !d.has(path) {
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return d.places[path]
}

// has reports whether the file has the path.
func (d *decoder) has(path string) bool { return d.places[path] != nil }

// A value is a node of the YAML tree together with its place in the file.
type value struct {
	d    *decoder
	node *yaml.Node
	path string // such as tiers[2].every
}

// keys says how the values of a mapping are decoded. Other keys are errors.
type keys map[string]func(value)

// A field is one key of a mapping with its value.
type field struct {
	name string
	value
}

// value returns the node as a value at the path, which is found at the place.
func (d *decoder) value(n *yaml.Node, path string, place *yaml.Node) value {
	d.places[path] = place
	return value{d, n, path}
}

// fail notes a problem with v.
func (v value) fail(format string, args ...any) { v.d.failf(v.path, format, args...) }

func (v value) isMapping() bool { return v.node.Kind == yaml.MappingNode }
func (v value) isList() bool    { return v.node.Kind == yaml.SequenceNode }
func (v value) isScalar() bool  { return v.node.Kind == yaml.ScalarNode }
func (v value) isNull() bool    { return v.isScalar() && v.node.ShortTag() == "!!null" }
func (v value) isText() bool    { return v.isScalar() && v.node.ShortTag() == "!!str" }

// isBlank reports whether nothing is written after the key, which YAML takes
// for null.
func (v value) isBlank() bool { return v.isNull() && v.node.Value == "" }

// isQuoted reports whether the author marked a scalar as text.
func (v value) isQuoted() bool {
	return v.node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}

// has reports whether v, a mapping already decoded, has the key.
func (v value) has(key string) bool { return v.d.has(join(v.path, key)) }

var kinds = map[string]string{
	"!!map": "a mapping", "!!seq": "a list", "!!null": "null", "!!bool": "a boolean", "!!int": "a number", "!!float": "a number",
	"!!timestamp": "a date",
}

// kind says in words what v is.
func (v value) kind() string { return cmp.Or(kinds[v.node.ShortTag()], "text") }

// mismatch notes that v is not what it must be.
func (v value) mismatch(want string) {
	switch {
	case v.isBlank():
		v.fail("is empty, must be %s; fill it in or remove it", want)
	case v.isNull():
		v.fail("is null, must be %s; fill it in or remove it", want)
	default:
		v.fail("must be %s, not %s", want, v.kind())
	}
}

// object decodes a mapping whose keys are known.
func (v value) object(known keys) {
	for _, f := range v.fields() {
		if decode, ok := known[f.name]; ok {
			decode(f.value)
		} else {
			v.unknown(f, slices.Sorted(maps.Keys(known)))
		}
	}
}

// unknown notes that f is not among the known keys of v.
func (v value) unknown(f field, known []string) {
	line := v.d.places[f.path].Line
	switch {
	case v.isScrap(f.node):
		v.d.errorf(line, v.path, "%s", scrapKey)
	case !isWord(f.name):
		v.d.errorf(line, v.path, "unknown key, not shown as it is no word; known here: %s", strings.Join(known, ", "))
	case len(known) == 0:
		f.fail("unknown key; there are none here, remove it")
	default:
		f.fail("unknown key; %s", suggest(f.name, "known here", known))
	}
}

const scrapKey = "a key without a value; put a space after its colon, and quotes around a value with a comma in it"

// isScrap reports whether the key with the value n in v looks like a piece of a
// text that was cut at a comma, as in {database: mysql://me:pass,word@host}.
// Such a piece, or a key that is no word, can be a secret and is not shown.
func (v value) isScrap(n *yaml.Node) bool {
	return v.node.Style&yaml.FlowStyle != 0 && value{v.d, n, v.path}.isBlank()
}

// fields returns the keys of a mapping, each once and in the order of the
// file, with their values.
func (v value) fields() []field {
	if !v.isMapping() {
		v.mismatch("a mapping (key: value)")
		return nil
	}
	var list []field
	lines := make(map[string]int)
	for pair := range slices.Chunk(v.node.Content, 2) {
		name, ok := v.key(pair[0])
		if !ok {
			continue
		}
		path, line := join(v.path, name), pair[0].Line
		if first, twice := lines[name]; twice {
			if !isWord(name) || v.isScrap(pair[1]) {
				path = v.path
			}
			v.d.errorf(line, path, "duplicate key, first on line %d; remove one of them", first)
			continue
		}
		lines[name] = line
		list = append(list, field{name, v.d.value(pair[1], path, pair[0])})
	}
	return list
}

// key returns the text of a mapping's key.
func (v value) key(n *yaml.Node) (name string, ok bool) {
	switch k := (value{v.d, n, v.path}); {
	case k.isScalar() && n.Value == "":
		v.d.errorf(n.Line, v.path, "a key is missing before the colon; add it")
	case !k.isText():
		v.d.errorf(n.Line, v.path, "a key must be text, not %s; put it in quotes", k.kind())
	default:
		return n.Value, true
	}
	return "", false
}

// list returns the items of a list. Want says what it must be.
func (v value) list(want string) []value {
	if !v.isList() {
		v.mismatch(want)
		return nil
	}
	var items []value
	for i, n := range v.node.Content {
		items = append(items, v.d.value(n, v.path+"["+strconv.Itoa(i)+"]", n))
	}
	return items
}

// join returns the path of a key in the mapping at path.
func join(path, key string) string {
	key = mapping.Show(key)
	if path == "" {
		return key
	}
	return path + "." + key
}

// An Error is one thing that is wrong with a configuration.
type Error struct {
	File    string // as given to [Load]; "" where none is read
	Line    int    // from 1
	Key     string // path to the value, such as tiers[2].every; "" for the file as a whole
	Problem string // what is wrong and, after a semicolon, what would mend it
}

// Error returns "file:line: key: problem", without what there is not.
func (e *Error) Error() string {
	text := e.Problem
	if e.Key != "" && !strings.HasPrefix(text, e.Key+" ") {
		text = e.Key + ": " + text
	}
	if e.File != "" {
		text = fmt.Sprintf("%s:%d: %s", e.File, e.Line, text)
	}
	return text
}

// errorf notes a problem, once.
func (d *decoder) errorf(line int, path, format string, args ...any) {
	e := Error{d.file, line, path, fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(d.errs, func(o *Error) bool { return *o == e }) {
		d.errs = append(d.errs, &e)
	}
}

// failf notes a problem with the value at the path, which need not be in the
// file: the line is then the one of what should hold it.
func (d *decoder) failf(path, format string, args ...any) {
	d.errorf(d.place(path).Line, path, format, args...)
}

// misplaced notes a key that has no place in this file, if it is there.
func (d *decoder) misplaced(path, why string) {
	if d.has(path) {
		d.failf(path, "%s", why)
	}
}

// err returns the problems noted so far, joined in the order of the file, or nil.
func (d *decoder) err() error {
	slices.SortStableFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(d.place(a.Key).Column, d.place(b.Key).Column))
	})
	var joined []error
	for _, e := range d.errs {
		joined = append(joined, e)
	}
	return errors.Join(joined...)
}

// scalar returns any scalar. Blank is no way to say null: it looks unfinished.
func (v value) scalar() (mapping.Value, bool) {
	switch {
	case !v.isScalar():
		v.mismatch("a single value")
	case v.isBlank():
		v.fail("is empty; write null if NULL is meant")
	case v.isNull():
		return mapping.Value{Null: true}, true
	default:
		return mapping.Value{Text: v.node.Value, Quoted: v.isQuoted()}, true
	}
	return mapping.Value{}, false
}

// text returns a scalar that is text and not blank.
func (v value) text() string {
	switch {
	case v.isText() && strings.TrimSpace(v.node.Value) != "":
		return v.node.Value
	case v.isText():
		v.fail("is empty; fill it in or remove it")
	case v.isScalar() && !v.isNull():
		v.fail("must be text, not %s; put it in quotes", v.kind())
	default:
		v.mismatch("text")
	}
	return ""
}

// orRemoved is what would mend most lists without items.
const orRemoved = "name at least one or remove it"

// filled returns the items of a list that must have some; cure is what would mend one
// without.
func (v value) filled(want, cure string) []value {
	items := v.list(want)
	if v.isList() && len(items) == 0 {
		v.fail("is an empty list; %s", cure)
	}
	return items
}

var variable = pattern.Lazily(`\$\$\{|\$\{(?:[A-Za-z_][A-Za-z0-9_]*\})?`)

// expanded returns a text in which each ${NAME} is replaced by the variable's
// value and each $${ by a literal ${. Any other $ stays, and values are not
// expanded again. Errors show names of variables, nothing else of the text and no
// values.
func (v value) expanded() string {
	before := len(v.d.errs)
	text := v.text()
	if text != "" && !strings.Contains(text, "${") {
		return text // the rule, and it needs no pattern
	}
	out := variable().ReplaceAllStringFunc(text, func(m string) string {
		name := strings.Trim(m, "${}")
		switch value, ok := v.d.lookup(name); {
		case m == "$${":
			return "${"
		case name == "":
			v.fail("a ${ that begins no ${NAME}; write $${ if the characters themselves are meant")
		case ok:
			return value
		default:
			v.fail("the environment variable %s is not set; set it, or write $${ if the characters themselves are meant", name)
		}
		return ""
	})
	if out == "" && len(v.d.errs) == before {
		v.fail("is empty once its variables are replaced; set them or remove it")
	}
	return out
}

// oneOf returns the text if it is among the words; what names it in an error.
func (v value) oneOf(what string, words ...string) string {
	text := v.text()
	if slices.Contains(words, text) {
		return text
	}
	if text != "" {
		v.fail("unknown %s %s; %s", what, mapping.Show(text), suggest(text, "known", words))
	}
	return ""
}

func (v value) boolean() bool {
	if v.isScalar() && v.node.ShortTag() == "!!bool" {
		return strings.EqualFold(v.node.Value, "true")
	}
	v.mismatch("true or false")
	return false
}

var (
	decimal  = pattern.Lazily(`^-?(0|[1-9][0-9]*)$`)
	fraction = pattern.Lazily(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
)

// numeral returns a number that has the pattern and is not less than least; like
// is what such a number is called.
func numeral[N int | float64](v value, pattern *regexp.Regexp, parse func(string) (N, error), least N, want, like string) N {
	switch is := v.isScalar() && pattern.MatchString(v.node.Value); {
	case is && v.isQuoted():
		v.fail("must be a number, not text; remove the quotes")
	case !is && v.kind() == "a number":
		v.fail("must be %s, not %s", like, mapping.Show(v.node.Value))
	case !is:
		v.mismatch(want)
	default:
		n, err := parse(v.node.Value)
		if n < least {
			v.fail("must be at least %v, not %s", least, mapping.Show(v.node.Value))
		} else if err != nil {
			v.fail("%s is too large", mapping.Show(v.node.Value))
		}
		return n
	}
	return 0
}

// integer returns a whole number that is not less than least.
func (v value) integer(least int) int {
	return numeral(v, decimal(), strconv.Atoi, least, "a whole number", "a whole number")
}

// number returns a number that is not negative.
func (v value) number() float64 {
	parse := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	return numeral(v, fraction(), parse, 0, "a number", "a number such as 2 or 1.5")
}

// seconds returns a duration that is not negative and may be written as a
// number of seconds.
func (v value) seconds() time.Duration {
	if v.kind() != "a number" {
		return v.durationFrom(0)
	}
	ns := v.number() * float64(time.Second)
	if ns >= math.MaxInt64 {
		v.fail("%s is too large", mapping.Show(v.node.Value))
		return 0
	}
	return time.Duration(ns)
}

// duration returns a duration of any sign.
func (v value) duration() (time.Duration, bool) {
	if !v.isScalar() || v.isNull() {
		v.mismatch("a duration such as 30s, 5m, 12h or 7d")
		return 0, false
	}
	d, err := tiers.ParseDuration(v.node.Value)
	if len(v.node.Value) > 100 {
		err = errors.New(mapping.Show(v.node.Value) + " is no duration")
	}
	if err != nil {
		v.fail("%v; write one such as 30s, 5m, 12h, 7d or 5 minutes", err)
	}
	return d, err == nil
}

// durationFrom returns a duration that is not less than least.
func (v value) durationFrom(least time.Duration) time.Duration {
	d, ok := v.duration()
	if ok && d < least {
		v.fail("must be at least %s, not %s", tiers.FormatDuration(least), tiers.FormatDuration(d))
	}
	return d
}

// location returns a time zone, UTC if there is an error.
func (v value) location() *time.Location {
	name := v.text()
	loc, err := time.LoadLocation(name) // of "": UTC
	if err != nil {
		v.fail("unknown timezone %s; write a name such as Europe/Berlin, or UTC", mapping.Show(name))
		return time.UTC
	}
	return loc
}

// rate returns a rate such as 10/s in events per second.
func (v value) rate() float64 {
	if !v.isScalar() || v.isNull() {
		v.mismatch("a rate such as 10/s")
		return 0
	}
	n, per, err := tiers.ParseRate(v.node.Value)
	if err != nil {
		v.fail("%s %v, or remove it for no limit", mapping.Show(v.node.Value), err)
		return 0
	}
	return n / per.Seconds()
}

// suggest names the word that was probably meant or, if none is near, all of
// them after the label.
func suggest(got, label string, words []string) string {
	if best := mapping.Near(got, words); best != "" {
		return "did you mean " + best + "?"
	}
	return label + ": " + strings.Join(words, ", ")
}

// isWord reports whether s is like the name of a key. It is no regular
// expression, because that would be compiled at every start.
func isWord(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return (first == '_' || unicode.IsLetter(first)) && mapping.Show(s) == s && !strings.ContainsAny(s, ":/+")
}
