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

// settings decodes a mapping into the struct that s points to. A field whose key is
// missing keeps its value. The tags of a field say how it is written:
//
//	yaml:"url"             the key; a field without one is not in the file
//	yaml:"url,env"         texts whose variables are expanded; errors do not show them
//	yaml:"sql,repeat"      a list that may have the same text twice
//	yaml:"id,names"        a list of names, which errors show
//	yaml:"base,seconds"    a duration that may be a number of seconds
//	yaml:"every,signed"    a duration that may be negative; its owner checks it
//	required:"url: https…" a mapping without the key is refused, with this example
//	words:"GET POST"       a text that is one of these; called:"method" names it in errors instead of the key
//	min:"1" max:"255"      bounds of a whole number, with why:"…" for errors; min also of a duration
//	want:"a host or …"     how errors describe a list; a single item is allowed, too
//	command:"./deliver.sh" a list of a program and its arguments, with an example
//	key:"header"           what errors call a key in a mapping of texts
//
// If the items of a list have a method UnmarshalText, it decodes words and numbers. If s is
// a [Checker], its Check is called last.
func (v value) settings(s any, without ...string) {
	v.object(v.settingsOf(s, without))
	if v.isMapping() {
		v.check(s)
		v.require(s)
	}
}

// settingsOf returns the keys of the struct that s points to, without the keys that are unknown here.
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

// A settingsField is a field of a struct of settings, with its tag.
type settingsField struct {
	field reflect.Value
	tag   reflect.StructTag
}

// fieldsOf returns the fields with a key of the struct that s points to.
func fieldsOf(s any) (list []settingsField) {
	v := reflect.ValueOf(s).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Tag.Get("yaml") != "" {
			list = append(list, settingsField{v.FieldByIndex(f.Index), f.Tag})
		}
	}
	return list
}

// field decodes v into a field of a struct. name is its key, option the second part of its yaml tag.
func (v value) field(f settingsField, name, option string) {
	field := f.field
	tag := f.tag
	text := value.text
	if option == "env" {
		text = value.expanded
	}
	switch p := field.Addr().Interface().(type) {
	case *bool:
		*p = v.boolean()
	case *int:
		*p = v.boundedInt(tag)
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
		words := strings.Fields(tag.Get("words"))
		switch {
		case option == "form":
			*p = v.timeForm()
		case len(words) > 0:
			*p = v.oneOf(cmp.Or(tag.Get("called"), name), words...)
		default:
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
		*p = v.scalars()
	default:
		word, isWord := p.(encoding.TextUnmarshaler)
		switch {
		case field.Kind() != reflect.Struct:
			v.items(field, tag)
		case isWord && v.isText():
			v.unmarshal(word)
		default:
			v.settings(p)
		}
	}
}

// scalars decodes a mapping of texts, numbers and booleans.
func (v value) scalars() map[string]any {
	all := make(map[string]any)
	for _, f := range v.fields() {
		var scalar any
		err := f.node.Decode(&scalar)
		if err != nil || !f.isScalar() || f.isNull() {
			f.mismatch("a text, a number or true or false")
		}
		all[f.name] = scalar
	}
	return all
}

// columnNames decodes a mapping from default names of columns to the names that the table has.
func (v value) columnNames(list mapping.Names) {
	known := make(keys)
	for i := range list {
		known[list[i][1]] = func(v value) { list[i][0] = v.text() }
	}
	v.object(known)
}

// rule decodes a recurrence rule, or the name of the column that has one for each row.
func (v value) rule() (r mapping.Rule) {
	if v.isMapping() {
		v.object(keys{"column": func(v value) { r.Column = v.text() }})
	} else {
		r.Text = v.text()
	}
	return r
}

// boundedInt returns a whole number within the bounds of the tag.
func (v value) boundedInt(tag reflect.StructTag) int {
	least, _ := strconv.Atoi(tag.Get("min"))
	n := v.integer(least)
	most, err := strconv.Atoi(tag.Get("max"))
	hasMax := err == nil
	if hasMax && n > most && !v.d.failed(v.path) {
		v.fail("%s", strings.TrimSuffix(fmt.Sprintf("must be at most %d, not %d; %s", most, n, tag.Get("why")), "; "))
	}
	return n
}

// textList decodes a text or a list of texts. Errors show them only if option is names.
func (v value) textList(want, option string, text func(value) string) []string {
	items := []value{v}
	if !v.isText() {
		items = v.nonEmptyList(want, nameOneOrRemove)
	}
	list := make([]string, len(items))
	seen := make(map[any]bool)
	for i, item := range items {
		list[i] = text(item)
		switch option {
		case "repeat": // may be listed twice
		case "names":
			item.rejectDuplicate(seen, list[i], mapping.Show(list[i])+" ")
		default:
			item.rejectDuplicate(seen, list[i], "")
		}
	}
	return list
}

// rejectDuplicate notes an error if x, an item of a list, has been seen before. shown precedes the error.
func (v value) rejectDuplicate(seen map[any]bool, x any, shown string) {
	if seen[x] && !v.d.failed(v.path) {
		v.fail("%sis listed twice; remove one", shown)
	}
	seen[x] = true
}

// items decodes one item or a list of different items, which may be empty, into the
// field. The items are whole numbers or have UnmarshalText.
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
			*p = item.boundedInt(tag)
			item.rejectDuplicate(seen, *p, strconv.Itoa(*p)+" ")
		case encoding.TextUnmarshaler:
			item.unmarshal(p)
		}
	}
	field.Set(list)
}

// unmarshal decodes a word or a whole number from 1 on into p.
func (v value) unmarshal(p encoding.TextUnmarshaler) {
	if !v.isText() || decimal().MatchString(v.node.Value) {
		before := len(v.d.errs)
		v.integer(1)
		if len(v.d.errs) > before {
			return
		}
	}
	if err := p.UnmarshalText([]byte(v.node.Value)); err != nil {
		v.fail("%v", err)
	}
}

// texts decodes a mapping of texts. A key that does not look like a word may be a piece
// of a secret and is not shown. It may begin with a digit, which is why an underscore is
// put in front of it for the check.
func (v value) texts(key string, text func(value) string) map[string]string {
	all := make(map[string]string)
	for _, f := range v.fields() {
		line := v.d.places[f.path].Line
		switch {
		case v.isFragment(f.node):
			v.d.errorf(line, v.path, "%s", fragmentProblem)
		case !isWord("_" + f.name):
			v.d.errorf(line, v.path, "a key that is no %s, not shown as it may be secret; write Name: value", key)
		default:
			all[f.name] = text(f.value)
		}
	}
	return all
}

// command decodes a program with its arguments. Errors show the example of a program.
func (v value) command(example string) []string {
	if v.isText() {
		v.fail("must be a list, not text: no shell splits it; write one item for the program and one for each argument: [%s, --verbose]", example)
		return nil
	}
	items := v.nonEmptyList("a list: the program and its arguments", "name a program: ["+example+"]")
	args := make([]string, len(items))
	for i, item := range items {
		// An argument is text, even if it looks like a number.
		arg, ok := item.scalar()
		switch {
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

// require notes the required keys that v, a mapping already decoded, lacks.
func (v value) require(s any) {
	for _, f := range fieldsOf(s) {
		name, _, _ := strings.Cut(f.tag.Get("yaml"), ",")
		if example := f.tag.Get("required"); example != "" && !v.has(name) {
			v.fail("has no %s; add %s: %s", name, name, example)
		}
	}
}

// check has the settings s, decoded from v, check themselves if they are a [Checker].
func (v value) check(s any) {
	if c, ok := s.(Checker); ok {
		c.Check(func(field, problem string) {
			path := v.d.writtenPath(strings.TrimPrefix(v.path+"."+field, "."))
			if !v.d.failed(path) {
				v.d.failf(path, "%s", problem)
			}
		})
	}
}

// writtenPath returns the path as the file has it. A list of one item may be written as that
// item alone; the path of the item is then the path of the list.
func (d *decoder) writtenPath(path string) string {
	if !d.has(path) && strings.HasSuffix(path, "]") {
		return path[:strings.LastIndexByte(path, '[')]
	}
	return path
}

// Settings describe a kind of settings that a mapping can hold, such as exec.
type Settings struct {
	Name string

	// New returns a pointer to a struct with the defaults. If one of its fields has the
	// name of the kind as its key, all its keys are written in the mapping itself.
	// Otherwise they are written in a mapping under the name.
	New func() any

	Without []string // keys of the struct that are unknown here
}

// A Checker is a struct of settings that checks itself. Check is called when all of its fields
// are decoded.
type Checker interface {
	// Check calls fail for each problem. field is the path below the struct, such as allow[0]
	// or headers.Host. Problems of a field that could not be decoded are dropped, because
	// it is reported already.
	Check(fail func(field, problem string))
}

// Bounded is implemented by settings of a handler that takes a limited number of records at a time.
type Bounded interface {
	// InFlight returns the number. It is the default of [Handler.Concurrency] and its bound.
	InFlight() int
}

// An Acknowledger is the settings of a broker that takes back messages which are not
// acknowledged in time. [Handler.Timeout] must be five minutes shorter, because messages
// wait before they are handled.
type Acknowledger interface {
	// Unacknowledged returns how long the broker waits for an acknowledgement.
	Unacknowledged() time.Duration
}

// A Keeper is the settings of a policy that may keep state in the row. Policies whose settings
// are no Keeper keep none.
type Keeper interface {
	// Keeps returns the policy's name and columns.
	Keeps() mapping.Policy
}

// A Refresher is the settings of a policy that processes the same rows again and again, at
// times of its own. No row is too old for it.
type Refresher interface {
	// SetZone sets the zone of the policy's times of day. It is called before the others.
	SetZone(zone *time.Location)
	// CheckRule returns what is wrong with the policy's rule in that zone, and the rule's key.
	CheckRule() (key string, err error)
	// AttemptTimeout returns how long an attempt may take. It bounds [Handler.Timeout].
	AttemptTimeout() time.Duration
	// NotifiesCustomer reports whether the customer gets an email when the policy gives up,
	// which on_dead must send.
	NotifiesCustomer() bool
	// RequireUIDs is called if the handler's outcome comes later: the table must then keep the
	// UIDs of attempts.
	RequireUIDs()
}

// oneKind decodes a mapping with the settings of just one of the kinds and with the known
// keys, which all kinds have in common. missing is the problem of a mapping without a kind.
func (v value) oneKind(kinds []Settings, known keys, missing string) (name string, settings any) {
	v.fields()    // notes which keys there are: the kind decides which others are known
	var flat bool // the keys of the kind are in v itself
	for _, k := range kinds {
		known[k.Name] = func(v value) { v.fail("is beside %s; keep one of them", name) }
		if name != "" || !v.has(k.Name) {
			continue
		}
		name = k.Name
		settings = k.New()
		own := v.settingsOf(settings, k.Without)
		flat = own[name] != nil
		if !flat {
			own = keys{name: func(v value) { v.settings(settings, k.Without...) }}
		}
		maps.Copy(known, own)
	}
	if name == "" && v.isMapping() {
		v.fail("%s", missing)
	}
	v.object(known)
	if flat {
		v.check(settings)
	}
	return name, settings
}
