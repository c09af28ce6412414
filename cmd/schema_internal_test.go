package cmd

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"backlog/backlog/config"
	"backlog/backlog/mapping"
	"backlog/tiers"
)

const schemaFile = "../docs/schedule.schema.json"

// A schema is a part of a JSON Schema, of draft 7, which editors know.
type schema = map[string]any

var (
	someText   = schema{"type": "string", "pattern": `\S`}
	someScalar = schema{"type": []string{"string", "number", "boolean", "null"}}
	filled     = schema{"type": []string{"string", "number", "boolean"}}
	duration   = schema{"$ref": "#/definitions/duration"}
	timeColumn = schema{"$ref": "#/definitions/time"}
)

func oneOrMore(item schema, more schema) schema {
	list := schema{"type": "array", "minItems": 1, "uniqueItems": true, "items": item}
	maps.Copy(list, more)
	return schema{"anyOf": []any{item, list}}
}

func object(properties schema, more schema) schema {
	o := schema{"type": "object", "properties": properties, "additionalProperties": false}
	maps.Copy(o, more)
	return o
}

// columnsTo is a mapping of columns.
func columnsTo(value schema) schema {
	return schema{"type": "object", "minProperties": 1, "additionalProperties": value}
}

// structSchema is what the struct that s points to says by its tags (see config's
// value.settings), without some of its keys.
func structSchema(s any, without ...string) schema {
	properties, required := schema{}, []string{}
	v := reflect.ValueOf(s).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || slices.Contains(without, name) {
			continue
		}
		properties[name] = fieldSchema(v.FieldByIndex(f.Index).Addr().Interface(), option, f.Tag)
		if f.Tag.Get("required") != "" {
			required = append(required, name)
		}
	}
	more := schema{}
	if len(required) > 0 {
		more["required"] = required
	}
	return object(properties, more)
}

func fieldSchema(field any, option string, tag reflect.StructTag) schema {
	switch p := field.(type) {
	case *bool:
		return schema{"type": "boolean"}
	case *int:
		return wholeNumber(tag)
	case *float64:
		return schema{"type": "number", "minimum": 0}
	case *time.Duration:
		if option == "seconds" {
			return schema{"anyOf": []any{duration, schema{"type": "number", "minimum": 0}}}
		}
		return duration
	case *[]time.Duration:
		return schema{"type": "array", "items": duration}
	case *slog.Level:
		return schema{"enum": []string{"debug", "info", "warn", "error"}}
	case **time.Location:
		return someText
	case *mapping.Names:
		properties := schema{}
		for _, n := range *p {
			properties[n[1]] = someText
		}
		return object(properties, nil)
	case *mapping.Rule:
		return schema{"anyOf": []any{someText, object(schema{"column": someText}, nil)}}
	case *mapping.Time, **mapping.Time:
		return timeColumn
	case *[]mapping.Condition:
		return columnsTo(oneOrMore(someScalar, nil))
	case *[]mapping.Assignment:
		return columnsTo(someScalar)
	case *string:
		if words := strings.Fields(tag.Get("words")); len(words) > 0 {
			return schema{"enum": words}
		} else if option == "form" {
			return schema{"anyOf": []any{schema{"enum": []string{"native", "unix_s", "unix_ms", "unix_us", "julian"}}, schema{"type": "string", "pattern": "^text:."}}}
		}
		return someText
	case *map[string]string:
		return schema{"type": "object", "additionalProperties": someText}
	case *map[string]any:
		return schema{"type": "object", "additionalProperties": filled}
	case *[]string:
		if tag.Get("command") != "" {
			return schema{"type": "array", "minItems": 1, "items": filled}
		}
		return oneOrMore(someText, schema{"uniqueItems": option != "repeat"})
	}
	if t := reflect.TypeOf(field).Elem(); t.Kind() == reflect.Slice {
		item := wholeNumber(tag)
		if _, word := reflect.New(t.Elem()).Interface().(encoding.TextUnmarshaler); word {
			item = schema{"type": []string{"integer", "string"}}
		}
		return oneOrMore(item, schema{"minItems": 0})
	}
	inner := structSchema(field)
	if _, word := field.(encoding.TextUnmarshaler); word {
		return schema{"anyOf": []any{schema{"type": "string"}, inner}}
	}
	return inner
}

func wholeNumber(tag reflect.StructTag) schema {
	n := schema{"type": "integer", "minimum": 0}
	for _, bound := range []string{"min", "max"} {
		if i, err := strconv.Atoi(tag.Get(bound)); err == nil {
			n[bound+"imum"] = i
		}
	}
	return n
}

// kindsSchema is a mapping with the settings of just one of the kinds.
func kindsSchema(kinds []config.Settings, common schema) schema {
	var branches []any
	for _, k := range kinds {
		own := structSchema(k.New(), k.Without...)
		properties := maps.Clone(common)
		if p := own["properties"].(schema); p[k.Name] != nil {
			maps.Copy(properties, p)
		} else {
			properties[k.Name] = own
		}
		branches = append(branches, object(properties, schema{"required": []string{k.Name}}))
	}
	return schema{"oneOf": branches}
}

func policySchema(known []config.Settings) schema {
	words, long := []string{"progressive"}, schema{"progressive": object(schema{}, nil)}
	for _, k := range known {
		if _, err := config.ParsePolicy(k.Name, known...); err == nil {
			words = append(words, k.Name)
		}
		settings := structSchema(k.New())
		if p := settings["properties"].(schema); p["intervals"] != nil {
			if k.Name == "list" {
				maps.Copy(p["intervals"].(schema), schema{"minItems": 1, "maxItems": 100})
			}
			settings = schema{"anyOf": []any{settings, p["intervals"]}}
		}
		long[k.Name] = settings
	}
	slices.Sort(words)
	return schema{"anyOf": []any{schema{"enum": words}, object(long, schema{"minProperties": 1, "maxProperties": 1})}}
}

func stateSchema(name string) schema {
	long := structSchema(new(mapping.State))
	long["required"] = []string{map[bool]string{true: "when", false: "set"}[name == "new"]}
	return schema{"anyOf": []any{oneOrMore(someScalar, nil)["anyOf"].([]any)[0], oneOrMore(someScalar, nil)["anyOf"].([]any)[1], long}}
}

// configSchema is what a configuration may look like. Whether its parts contradict each
// other is for the program to say.
func configSchema() schema {
	known := knownSettings()
	states := schema{}
	for _, s := range new(mapping.Mapping).States() {
		states[s.Name] = stateSchema(s.Name)
	}
	handler := func() schema { return structSchema(new(config.Handler))["properties"].(schema) }
	workers := slices.DeleteFunc(slices.Clone(known.Handlers), func(k config.Settings) bool { return slices.Contains([]string{"sql", "redis", "amqp"}, k.Name) })
	properties := structSchema(new(config.Config))["properties"].(schema)
	maps.Copy(properties, schema{
		"name":      schema{"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
		"table":     structSchema(new(mapping.Mapping)),
		"statuses":  object(states, nil),
		"handler":   kindsSchema(known.Handlers, handler()),
		"on_dead":   kindsSchema(known.OnDead, structSchema(new(config.OnDead))["properties"].(schema)),
		"on_outage": kindsSchema(known.OnDead, structSchema(new(config.OnDead))["properties"].(schema)),
		"rate":      schema{"type": "string", "pattern": `^\s*[0-9.]+\s*/\s*[A-Za-z]+\s*$`},
		"policy":    policySchema(known.Policies),
		"timezone":  someText,
		"source":    kindsSchema(known.Sources, schema{}),
		"worker": kindsSchema(known.Workers, schema{
			"handler": kindsSchema(workers, schema{"concurrency": handler()["concurrency"]}), "concurrency": schema{"type": "integer", "minimum": 1},
		}),
		"tiers": schema{"type": "array", "minItems": 1, "items": schema{"$ref": "#/definitions/tier"}},
	})
	for _, k := range known.Observers {
		properties[k.Name] = structSchema(k.New(), k.Without...)
	}
	aged := schema{"required": []string{"max_age"}}
	only := func(keys ...string) schema { return schema{"propertyNames": schema{"enum": keys}} }
	refresh := schema{"required": []string{"policy"}, "properties": schema{"policy": schema{"type": "object", "required": []string{"refresh"}}}}
	tier := structSchema(new(tiers.Tier))
	maps.Copy(tier, schema{
		"oneOf":        []any{schema{"required": []string{"every"}}, schema{"required": []string{"cron"}}},
		"dependencies": schema{"timezone": []string{"cron"}, "offset": []string{"every"}},
	})
	root := object(properties, schema{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"title":   "Configuration of backlog",
		"type":    []string{"object", "array"}, "minItems": 1, "items": schema{"allOf": []any{schema{"$ref": "#/definitions/tier"}, aged}},
		"if":   schema{"required": []string{"worker"}},
		"then": only("worker", "shutdown_timeout", "log", "metrics"),
		"else": schema{
			"if":   schema{"required": []string{"source"}},
			"then": only("source", "handler", "on_dead", "rate", "abort_after", "timezone", "shutdown_timeout", "log", "metrics"),
			"else": schema{
				"required": []string{"tiers"},
				"if":       refresh,
				"then":     schema{"properties": schema{"tiers": schema{"maxItems": 1, "items": schema{"not": aged}}}},
				"else":     schema{"properties": schema{"tiers": schema{"items": aged}}},
			},
		},
		"definitions": schema{
			"tier": tier,
			"time": schema{"anyOf": []any{someText, structSchema(new(mapping.Time))}},
			"duration": schema{"anyOf": []any{schema{"const": 0}, schema{"type": "string", "pattern": `^\s*(0|([0-9.]+\s*[A-Za-zµμ]+\s*)+|[A-Za-z]+ly|([Ee]very|[Aa]n?)\s.*[A-Za-z]|P[0-9A-Z.]+)\s*$`}},
				"description": "such as 30s, 5m, 12h, 7d, 1d12h or 5 minutes"},
		},
	})
	return root
}

// explained puts the words of the example's comments beside the settings there.
func explained(t *testing.T, root schema) {
	t.Helper()
	example, err := os.ReadFile("../schedule.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type level struct {
		indent int
		key    string
	}
	var path []level
	setting := regexp.MustCompile(`^([# ]*)([a-z_]+):(?:.*?\s\s+# (?:for instance: )?(.+))?`)
	told := 0
	for text := range strings.Lines(string(example)) {
		m := setting.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if m == nil {
			continue
		}
		indent := len(m[1])
		if strings.HasSuffix(m[1], "# ") {
			indent -= 2 // an optional setting stands where it would without the mark
		}
		if strings.HasPrefix(m[1], "#   ") {
			indent -= 4 // so does another way to write a part
		}
		for len(path) > 0 && path[len(path)-1].indent >= indent {
			path = path[:len(path)-1]
		}
		path = append(path, level{indent, m[2]})
		if m[3] == "" {
			continue
		}
		at := []schema{root}
		for _, l := range path {
			at = settingsAt(at, l.key)
		}
		for _, s := range at {
			if told++; s["$ref"] != nil { // beside which nothing counts
				ref := s["$ref"]
				delete(s, "$ref")
				s["allOf"] = []any{schema{"$ref": ref}}
			}
			s["description"] = m[3]
		}
	}
	if told < 20 {
		t.Errorf("only %d settings are explained", told)
	}
}

// settingsAt returns the schemas of the key in mappings, in whatever form they are written.
func settingsAt(mappings []schema, key string) (all []schema) {
	for _, m := range mappings {
		if p, ok := m["properties"].(schema); ok && p[key] != nil {
			own := maps.Clone(p[key].(schema)) // it may be shared with others
			p[key] = own
			all = append(all, own)
		}
		for _, form := range []string{"oneOf", "anyOf"} {
			for _, f := range anys(m[form]) {
				all = append(all, settingsAt([]schema{f}, key)...)
			}
		}
	}
	return all
}

func anys(list any) (all []schema) {
	l, _ := list.([]any)
	for _, x := range l {
		all = append(all, x.(schema))
	}
	return all
}

// The file is what the structs say that the configuration is decoded into; -update renews it.
func TestSchemaIsOfTheStructs(t *testing.T) {
	root := configSchema()
	explained(t, root)
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(schemaFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is of other structs (%v): go test ./cmd -run Schema -update", schemaFile, err)
	}
}

// Each mapping of the schema has the keys that the configuration knows there.
func TestSchemaKnowsEachKey(t *testing.T) {
	asked := 0
	var walk func(s schema, path, open, end string, kinds []string)
	walk = func(s schema, path, open, end string, kinds []string) {
		var names []string
		for _, f := range anys(s["oneOf"]) {
			if r, _ := f["required"].([]string); f["properties"] != nil && len(r) > 0 {
				names = append(names, r[0])
			}
		}
		for _, form := range []string{"oneOf", "anyOf"} {
			for _, f := range anys(s[form]) {
				walk(f, path, open, end, names)
			}
		}
		properties, ok := s["properties"].(schema)
		if !ok {
			return
		}
		beside := ""
		if len(kinds) > 0 {
			beside = s["required"].([]string)[0] + ": 1, "
		}
		_, err := config.Load(strings.NewReader(open+"{"+beside+`"?": 1}`+end), "", func(string) (string, bool) { return "", true }, knownSettings())
		known := append(slices.Collect(maps.Keys(properties)), kinds...)
		slices.Sort(known)
		known = slices.Compact(known)
		want := "unknown key, not shown as it is no word; known here: " + strings.Join(known, ", ")
		if path == "policy" {
			want = `unknown policy "?"; known: ` + strings.Join(known, ", ")
		}
		if path == "worker.handler" {
			return // a handler whose timeout and half of whose kinds are refused
		}
		if !says(err, path, want) {
			t.Errorf("%s: the schema has %v, but the program says\n%v", path, known, err)
		}
		asked++
		for key, p := range properties {
			walk(p.(schema), strings.TrimPrefix(path+"."+key, "."), open+"{"+strings.TrimPrefix(beside, key+": 1, ")+key+": ", "}"+end, nil)
		}
	}
	root := configSchema()
	walk(root, "", "", "", nil)
	definitions := root["definitions"].(schema)
	walk(definitions["tier"].(schema), "tiers[0]", "{tiers: [", "]}", nil)
	walk(definitions["time"].(schema), "table.inserted", "{table: {inserted: ", "}}", nil)
	if asked < 30 {
		t.Errorf("only %d mappings", asked)
	}
}

// says reports whether one of the joined errors is the problem at the path.
func says(err error, path, problem string) bool {
	if e := (*config.Error)(nil); errors.As(err, &e) && e.Key == path && e.Problem == problem {
		return true
	}
	joined, ok := err.(interface{ Unwrap() []error })
	return ok && slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return says(e, path, problem) })
}
