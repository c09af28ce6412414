package cmd

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backlog/backlog/advise/propose"
	"backlog/backlog/amqp"
	"backlog/backlog/inspect"
	"backlog/backlog/reader"
	"backlog/backlog/table/doctor"
	"backlog/backlog/watch"
)

// answers are what commands print with --json.
var answers = map[string]any{
	"once": watch.Pass{}, "once --dry-run": recordsJSON{}, "status": watch.Overview{}, "explain": inspect.Sheet{},
	"list": struct {
		Records []inspect.Entry `json:"records"`
		Next    *string         `json:"next"`
	}{}, "retry": retryJSON{}, "discard": reader.Discarded{}, "attempt": reader.Attempt{},
	"check --sample": doctor.Sample{}, "schedule": []inspect.Tick{}, "retry --errors": amqp.RedriveReport{},
	"advise": propose.Advice{},
	// The outermost names of these stand in the code, where scripts hold them fast.
	"pause": struct {
		Pause *watch.Pause `json:"pause"`
	}{},
	"check": struct {
		OK     bool              `json:"ok"`
		Checks []inspect.Finding `json:"checks"`
		Policy any               `json:"policy"`
	}{},
	"status of a source": struct {
		Queues []amqp.QueueStatus `json:"queues"`
	}{},
	"resolve": struct {
		UID     string `json:"uid"`
		Outcome string `json:"outcome"`
		Applied bool   `json:"applied"`
	}{},
	"version": struct {
		Version  string `json:"version"`
		SQLite   string `json:"sqlite"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{},
}

var jsonRow = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| ([^|]*) \\| [^|]+ \\|$")

// The page lists every field of the answers, and no other.
func TestJSONPage(t *testing.T) {
	page, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string][]string)
	for _, m := range jsonRow.FindAllStringSubmatch(string(page), -1) {
		for command := range strings.SplitSeq(m[2], ", ") {
			for field := range strings.SplitSeq(m[1], ", ") {
				told[command] = append(told[command], strings.Trim(field, "`"))
			}
		}
	}
	for command, answer := range answers {
		has := fieldsOf(reflect.TypeOf(answer), "", true)
		for _, field := range has {
			if !slices.Contains(told[command], field) {
				t.Errorf("%s has %s, of which the page says nothing", command, field)
			}
		}
		for _, field := range told[command] {
			if !slices.Contains(has, field) {
				t.Errorf("%s has no %s, which the page tells of", command, field)
			}
		}
		delete(told, command)
	}
	for command := range told {
		t.Errorf("the page tells of %q", command)
	}
}

// fieldsOf returns the names in the JSON of a type, those of another answer left out.
func fieldsOf(t reflect.Type, path string, top bool) (list []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	for _, a := range answers {
		if !top && reflect.TypeOf(a) == t {
			return nil
		}
	}
	if m, ok := reflect.New(t).Interface().(json.Marshaler); ok {
		b, _ := m.MarshalJSON()
		var names map[string]any
		if json.Unmarshal(b, &names) == nil {
			for name := range names {
				list = append(list, path+"."+name)
			}
		}
		return list
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "reminded": // kept in the state folder, not printed
		case f.Anonymous && name == "":
			list = append(list, fieldsOf(f.Type, path, true)...)
		case f.IsExported() && name != "-" && name != "":
			name = strings.TrimPrefix(path+"."+name, ".")
			list = append(append(list, name), fieldsOf(f.Type, name, false)...)
		}
	}
	return list
}
