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

// A decoder holds the state of one Load. Decoding never stops at an error: methods
// of [value] note it and return what they have, and the result is discarded in the
// end. To decode a further part of the file, write a struct and a method of value
// that fills it, usually with [value.object], and add the method to the keys of the
// mapping that holds the part.
type decoder struct {
	file   string
	lookup func(string) (string, bool)
	known  Known
	places map[string]*yaml.Node // the node of the key or the item, by path; the path of the file is ""
	errs   []*Error
}

// parse decodes the only document of a text. An error joins one for each problem.
func parse[T any](
	text []byte, file string, lookup func(string) (string, bool), known Known, decode func(top value) T,
) (t T, err error) {
	d := &decoder{file: file, lookup: lookup, known: known, places: map[string]*yaml.Node{"": {Line: 1}}}
	if top, ok := d.top(text); ok {
		t = decode(d.value(top, "", top))
	}
	if err := d.err(); err != nil {
		return *new(T), err
	}
	return t, nil
}

// place returns the place of the path. If the file does not have it, that is the place of
// the mapping or list that should hold it.
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

// value returns the node as a value at the path, and notes that its place is place.
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

// isBlank reports whether nothing is written after the key, which YAML reads as null.
func (v value) isBlank() bool { return v.isNull() && v.node.Value == "" }

// isQuoted reports whether a scalar is written as text, by quotes or as a block.
func (v value) isQuoted() bool {
	return v.node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}

// has reports whether v, a mapping already decoded, has the key.
func (v value) has(key string) bool { return v.d.has(join(v.path, key)) }

var kinds = map[string]string{
	"!!map": "a mapping", "!!seq": "a list", "!!null": "null", "!!bool": "a boolean", "!!int": "a number", "!!float": "a number",
	"!!timestamp": "a date",
}

// kind names the kind of v in words.
func (v value) kind() string { return cmp.Or(kinds[v.node.ShortTag()], "text") }

// mismatch notes that v has the wrong kind. want says what it must be.
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
	case v.isFragment(f.node):
		v.d.errorf(line, v.path, "%s", fragmentProblem)
	case !isWord(f.name):
		v.d.errorf(line, v.path, "unknown key, not shown as it is no word; known here: %s", strings.Join(known, ", "))
	case len(known) == 0:
		f.fail("unknown key; there are none here, remove it")
	default:
		f.fail("unknown key; %s", suggest(f.name, "known here", known))
	}
}

const fragmentProblem = "a key without a value; put a space after its colon, and quotes around a value with a comma in it"

// isFragment reports whether the key with the value n in v looks like a piece of
// a text that was cut at a comma, as in {database: mysql://me:pass,word@host}. Such a
// piece, or a key that is no word, may be a secret and is not shown.
func (v value) isFragment(n *yaml.Node) bool {
	return v.node.Style&yaml.FlowStyle != 0 && value{v.d, n, v.path}.isBlank()
}

// fields returns the keys of a mapping with their values, in the order of the file. A
// duplicate key is an error and left out.
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
		path := join(v.path, name)
		line := pair[0].Line
		if first, twice := lines[name]; twice {
			if !isWord(name) || v.isFragment(pair[1]) {
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
	k := value{v.d, n, v.path}
	switch {
	case k.isScalar() && n.Value == "":
		v.d.errorf(n.Line, v.path, "a key is missing before the colon; add it")
	case !k.isText():
		v.d.errorf(n.Line, v.path, "a key must be text, not %s; put it in quotes", k.kind())
	default:
		return n.Value, true
	}
	return "", false
}

// list returns the items of a list. want says what v must be.
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
	Problem string // what is wrong and, after a semicolon, how to correct it
}

// Error returns "file:line: key: problem", without the parts that are empty.
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

// errorf notes a problem. The same one is noted only once.
func (d *decoder) errorf(line int, path, format string, args ...any) {
	e := Error{d.file, line, path, fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(d.errs, func(o *Error) bool { return *o == e }) {
		d.errs = append(d.errs, &e)
	}
}

// failf notes a problem with the value at the path. If the file does not have that, the line
// is the one of the mapping or list that should hold it.
func (d *decoder) failf(path, format string, args ...any) {
	d.errorf(d.place(path).Line, path, format, args...)
}

// rejectKey notes a problem with the path if the file has it. why says that it does not belong there.
func (d *decoder) rejectKey(path, why string) {
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

// scalar returns any scalar. A blank is an error, not null, because it looks unfinished.
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

// nameOneOrRemove says how to correct most empty lists.
const nameOneOrRemove = "name at least one or remove it"

// nonEmptyList returns the items of a list that must have some. cure says how to correct an
// empty one.
func (v value) nonEmptyList(want, cure string) []value {
	items := v.list(want)
	if v.isList() && len(items) == 0 {
		v.fail("is an empty list; %s", cure)
	}
	return items
}

var variable = pattern.Lazily(`\$\$\{|\$\{(?:[A-Za-z_][A-Za-z0-9_]*\})?`)

// expanded returns a text in which each ${NAME} is replaced by the value of the
// environment variable, and each $${ by a literal ${. Any other $ stays, and values
// are not expanded again. Errors show the names of variables and nothing else of the
// text.
func (v value) expanded() string {
	before := len(v.d.errs)
	text := v.text()
	if text != "" && !strings.Contains(text, "${") {
		return text // the usual case, for which the pattern need not be compiled
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

// oneOf returns the text if it is one of the words. what names it in errors.
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

// A numberFormat says how a number is written.
type numberFormat[N int | float64] struct {
	pattern *regexp.Regexp
	parse   func(string) (N, error)
	want    string // what v must be
	example string // what a number must be that does not have the pattern
}

// parseNumber returns a number in the format that is not less than least.
func parseNumber[N int | float64](v value, format numberFormat[N], least N) N {
	matches := v.isScalar() && format.pattern.MatchString(v.node.Value)
	switch {
	case matches && v.isQuoted():
		v.fail("must be a number, not text; remove the quotes")
	case !matches && v.kind() == "a number":
		v.fail("must be %s, not %s", format.example, mapping.Show(v.node.Value))
	case !matches:
		v.mismatch(format.want)
	default:
		n, err := format.parse(v.node.Value)
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
	format := numberFormat[int]{
		pattern: decimal(),
		parse:   strconv.Atoi,
		want:    "a whole number",
		example: "a whole number",
	}
	return parseNumber(v, format, least)
}

// number returns a number that is not negative.
func (v value) number() float64 {
	format := numberFormat[float64]{
		pattern: fraction(),
		parse:   func(text string) (float64, error) { return strconv.ParseFloat(text, 64) },
		want:    "a number",
		example: "a number such as 2 or 1.5",
	}
	return parseNumber(v, format, 0)
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

// suggest names the word that was probably meant. If none is near, it lists all words after
// the label.
func suggest(got, label string, words []string) string {
	if best := mapping.Near(got, words); best != "" {
		return "did you mean " + best + "?"
	}
	return label + ": " + strings.Join(words, ", ")
}

// isWord reports whether s looks like the name of a key. It is not a regular expression,
// because that would have to be compiled at every start.
func isWord(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return (first == '_' || unicode.IsLetter(first)) && mapping.Show(s) == s && !strings.ContainsAny(s, ":/+")
}
