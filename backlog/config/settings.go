package config

import (
	"cmp"
	"encoding"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/mapping"
	"backlog/tiers"
)

// settings decodes a mapping into the struct that s points to. Fields keep what
// they hold where the file does not have their key. Their tags say how they are
// written:
//
//	yaml:"url"             the key; a field without one is not of the file
//	yaml:"url,env"         texts whose variables are replaced, which no error shows
//	yaml:"sql,repeat"      a list that may have the same text twice
//	yaml:"id,names"        a list of names, which errors show
//	yaml:"base,seconds"    a duration that may be a number of seconds
//	yaml:"every,signed"    a duration that may be negative, of which its owner tells
//	required:"url: https…" a mapping without the key is refused, with this example
//	words:"GET POST"       a text is one of these; called:"method" if not the key names them
//	min:"1" max:"255"      bounds of a whole number, and why:"…"; min also of a duration
//	want:"a host or …"     a list in the words of errors; a single item will do
//	command:"./deliver.sh" a list of a program and its arguments, and an example
//	key:"header"           what a key is in a mapping of texts
//
// Items of a list can be of a type with UnmarshalText, which then is given
// numbers, too. Where s is a [Checker] its Check is called last.
func (v value) settings(s any, without ...string) {
	v.object(v.settingsOf(s, without))
	if v.isMapping() {
		v.check(s)
		v.require(s)
	}
}

// settingsOf returns the keys of the struct that s points to.
func (v value) settingsOf(s any, without []string) keys {
	known := make(keys)
	for _, f := range fieldsOf(s) {
		name, option, _ := strings.Cut(f.tag.Get("yaml"), ",")
		if !slices.Contains(without, name) {
			known[name] = func(v value) { v.field(f, name, option) }
		}
	}
	return known
}

// A tagged is a field of a struct of settings.
type tagged struct {
	field reflect.Value
	tag   reflect.StructTag
}

// fieldsOf returns the fields, of the struct that s points to, which the file may have.
func fieldsOf(s any) (list []tagged) {
	v := reflect.ValueOf(s).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Tag.Get("yaml") != "" {
			list = append(list, tagged{v.FieldByIndex(f.Index), f.Tag})
		}
	}
	return list
}

// field decodes v into a field of a struct.
func (v value) field(f tagged, name, option string) {
	field, tag := f.field, f.tag
	text := value.text
	if option == "env" {
		text = value.expanded
	}
	switch p := field.Addr().Interface().(type) {
	case *bool:
		*p = v.boolean()
	case *int:
		*p = v.within(tag)
	case *float64:
		*p = v.number()
	case *time.Duration:
		least, _ := tiers.ParseDuration(tag.Get("min"))
		switch option {
		case "seconds":
			*p = v.seconds()
		case "signed":
			*p, _ = v.duration()
		default:
			*p = v.durationFrom(least)
		}
	case *[]time.Duration:
		*p = nil
		for _, item := range v.list(tag.Get("want")) {
			*p = append(*p, item.durationFrom(0))
		}
	case *slog.Level:
		_ = p.UnmarshalText([]byte(v.oneOf(name, "debug", "info", "warn", "error"))) // or it was refused
	case **time.Location:
		*p = v.location()
	case *mapping.Names:
		v.columnNames(*p)
	case *mapping.Rule:
		*p = v.rule()
	case *mapping.Time:
		*p = v.timeColumn()
	case **mapping.Time:
		t := v.timeColumn()
		*p = &t
	case *[]mapping.Condition:
		*p = v.conditions()
	case *[]mapping.Assignment:
		*p = v.assignments()
	case *string:
		if words := strings.Fields(tag.Get("words")); option == "form" {
			*p = v.timeForm()
		} else if len(words) > 0 {
			*p = v.oneOf(cmp.Or(tag.Get("called"), name), words...)
		} else {
			*p = text(v)
		}
	case *map[string]string:
		*p = v.texts(tag.Get("key"), text)
	case *[]string:
		if example := tag.Get("command"); example != "" {
			*p = v.command(example)
		} else {
			*p = v.textList(tag.Get("want"), option, text)
		}
	case *map[string]any:
		*p = make(map[string]any)
		for _, f := range v.fields() {
			var scalar any
			if err := f.node.Decode(&scalar); err != nil || !f.isScalar() || f.isNull() {
				f.mismatch("a text, a number or true or false")
			}
			(*p)[f.name] = scalar
		}
	default:
		if _, word := p.(encoding.TextUnmarshaler); field.Kind() != reflect.Struct {
			v.items(field, tag)
		} else if word && v.isText() {
			v.unmarshal(p.(encoding.TextUnmarshaler))
		} else {
			v.settings(p)
		}
	}
}

// columnNames decodes a mapping from the default names of columns to others.
func (v value) columnNames(list mapping.Names) {
	known := make(keys)
	for i := range list {
		known[list[i][1]] = func(v value) { list[i][0] = v.text() }
	}
	v.object(known)
}

// rule decodes a recurrence rule, or the column that has one for each row.
func (v value) rule() (r mapping.Rule) {
	if v.isMapping() {
		v.object(keys{"column": func(v value) { r.Column = v.text() }})
	} else {
		r.Text = v.text()
	}
	return r
}

// within returns a whole number in the bounds of the tag.
func (v value) within(tag reflect.StructTag) int {
	least, _ := strconv.Atoi(tag.Get("min"))
	n := v.integer(least)
	if most, err := strconv.Atoi(tag.Get("max")); err == nil && n > most && !v.d.failed(v.path) {
		v.fail("%s", strings.TrimSuffix(fmt.Sprintf("must be at most %d, not %d; %s", most, n, tag.Get("why")), "; "))
	}
	return n
}

// textList returns a text or a list of them. Errors show only names.
func (v value) textList(want, option string, text func(value) string) []string {
	items := []value{v}
	if !v.isText() {
		items = v.filled(want, orRemoved)
	}
	list, seen := make([]string, len(items)), make(map[any]bool)
	for i, item := range items {
		list[i] = text(item)
		if option == "names" {
			item.once(seen, list[i], mapping.Show(list[i])+" ")
		} else if option != "repeat" {
			item.once(seen, list[i], "")
		}
	}
	return list
}

// once notes that x, the item of a list, is listed twice if it has been seen.
func (v value) once(seen map[any]bool, x any, shown string) {
	if seen[x] && !v.d.failed(v.path) {
		v.fail("%sis listed twice; remove one", shown)
	}
	seen[x] = true
}

// items decodes one item or a list of different ones, which may be empty, into
// the field: whole numbers, or what has UnmarshalText.
func (v value) items(field reflect.Value, tag reflect.StructTag) {
	items := []value{v}
	if !v.isScalar() || v.isNull() {
		items = v.list(tag.Get("want"))
	}
	list := reflect.MakeSlice(field.Type(), len(items), len(items))
	seen := make(map[any]bool)
	for i, item := range items {
		switch p := list.Index(i).Addr().Interface().(type) {
		case *int:
			*p = item.within(tag)
			item.once(seen, *p, strconv.Itoa(*p)+" ")
		case encoding.TextUnmarshaler:
			item.unmarshal(p)
		}
	}
	field.Set(list)
}

// unmarshal gives a whole number or a word to p.
func (v value) unmarshal(p encoding.TextUnmarshaler) {
	if !v.isText() || decimal().MatchString(v.node.Value) {
		before := len(v.d.errs)
		if v.integer(1); len(v.d.errs) > before {
			return
		}
	}
	if err := p.UnmarshalText([]byte(v.node.Value)); err != nil {
		v.fail("%v", err)
	}
}

// texts decodes a mapping of texts. A key that is no word, but for its
// beginning, may be a piece of a secret and is not shown.
func (v value) texts(key string, text func(value) string) map[string]string {
	all := make(map[string]string)
	for _, f := range v.fields() {
		switch line := v.d.places[f.path].Line; {
		case v.isScrap(f.node):
			v.d.errorf(line, v.path, "%s", scrapKey)
		case !isWord("_" + f.name):
			v.d.errorf(line, v.path, "a key that is no %s, not shown as it may be secret; write Name: value", key)
		default:
			all[f.name] = text(f.value)
		}
	}
	return all
}

// command decodes a program with its arguments. The example is a program that
// could stand here.
func (v value) command(example string) []string {
	if v.isText() {
		v.fail("must be a list, not text: no shell splits it; write one item for the program and one for each argument: [%s, --verbose]", example)
		return nil
	}
	items := v.filled("a list: the program and its arguments", "name a program: ["+example+"]")
	args := make([]string, len(items))
	for i, item := range items {
		// An argument is text, however much it looks like a number.
		switch arg, ok := item.scalar(); {
		case ok && arg.Null:
			item.fail("must be text, not null; put it in quotes")
		case ok && arg.Text == "" && i == 0:
			item.fail("is empty; name a program")
		default:
			args[i] = arg.Text
		}
	}
	return args
}

// require reports the required keys that v, a mapping already decoded, lacks.
func (v value) require(s any) {
	for _, f := range fieldsOf(s) {
		name, _, _ := strings.Cut(f.tag.Get("yaml"), ",")
		if example := f.tag.Get("required"); example != "" && !v.has(name) {
			v.fail("has no %s; add %s: %s", name, name, example)
		}
	}
}

// check asks the owner of the settings in v, which are decoded, what is wrong
// with them.
func (v value) check(s any) {
	if c, ok := s.(Checker); ok {
		c.Check(func(field, problem string) {
			path := v.d.written(strings.TrimPrefix(v.path+"."+field, "."))
			if !v.d.failed(path) {
				v.d.failf(path, "%s", problem)
			}
		})
	}
}

// written returns the path as the file has it: an item's is the list's where
// that is written as one item.
func (d *decoder) written(path string) string {
	if !d.has(path) && strings.HasSuffix(path, "]") {
		return path[:strings.LastIndexByte(path, '[')]
	}
	return path
}

// Settings are one of the kinds that a mapping can hold, such as exec.
type Settings struct {
	Name string

	// New returns a pointer to a struct with the defaults. If one of its fields
	// has the kind's name for a key, all its keys stand in the mapping itself,
	// else in one of their own below the name.
	New func() any

	Without []string // keys of the struct that are unknown here
}

// A Checker is a struct of settings that says what is wrong with itself. It is asked when all
// of its fields are decoded.
type Checker interface {
	// Check calls fail for each problem. A field is named by its path below the struct, such
	// as allow[0] or headers.Host. One that could not be decoded is reported already, and
	// not reported twice.
	Check(fail func(field, problem string))
}

// A Bounded is the settings of a handler that takes only so many records at a time.
type Bounded interface {
	// InFlight returns how many. [Handler.Concurrency] becomes that where the file does not
	// say it or says more.
	InFlight() int
}

// An Acknowledger is the settings of a broker that takes back what is not acknowledged in
// time. [Handler.Timeout] must end five minutes earlier, as messages wait before they are
// handled.
type Acknowledger interface {
	// Unacknowledged returns that time.
	Unacknowledged() time.Duration
}

// A Keeper is the settings of a policy that may keep something in the row. One without it
// keeps nothing.
type Keeper interface {
	// Keeps returns the policy's name and columns.
	Keeps() mapping.Policy
}

// A Refresher is the settings of a policy that processes the same rows again and again: they
// say when, and no row is too old for it.
type Refresher interface {
	// In sets the zone of the policy's times of day. It is called before the others.
	In(zone *time.Location)
	// Problem returns what is wrong in that zone, and the key it belongs to.
	Problem() (key string, err error)
	// Limit returns what an attempt may take. It bounds [Handler.Timeout].
	Limit() time.Duration
	// TellsCustomer reports whether the policy has a sentence for the customer when it gives
	// up, which on_dead must send.
	TellsCustomer() bool
	// HandsOver is called where the handler is answered later: the table must keep the
	// UIDs of attempts.
	HandsOver()
}

// oneKind decodes a mapping with the settings of just one of the kinds, and with
// keys that are common to all. Nothing is the problem with a mapping that has none.
func (v value) oneKind(kinds []Settings, known keys, nothing string) (name string, settings any) {
	v.fields() // for the places: the kind that is there says which keys are known
	var flat bool
	for _, k := range kinds {
		known[k.Name] = func(v value) { v.fail("is beside %s; keep one of them", name) }
		if name != "" || !v.has(k.Name) {
			continue
		}
		name, settings = k.Name, k.New()
		own := v.settingsOf(settings, k.Without)
		if flat = own[name] != nil; !flat {
			own = keys{name: func(v value) { v.settings(settings, k.Without...) }}
		}
		maps.Copy(known, own)
	}
	if name == "" && v.isMapping() {
		v.fail("%s", nothing)
	}
	v.object(known)
	if flat {
		v.check(settings)
	}
	return name, settings
}
