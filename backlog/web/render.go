package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/pattern"
	"backlog/backlog/watch"
	"backlog/tiers"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// templates are by the name of their page; statics the files that browsers keep, by the
// name that has their hash; hashed the way back.
var (
	templates = make(map[string]*template.Template)
	statics   = make(map[string][]byte)
	hashed    = make(map[string]string)
)

// prepare reads templates and statics. It takes some milliseconds, which only those who
// serve pages have to wait.
var prepare = sync.OnceFunc(func() {
	funcs := template.FuncMap{
		"num": inspect.Thousands, "clip": clip, "often": inspect.Often, "join": strings.Join, "has": slices.Contains[[]string],
		"first": first, "cut": inspect.Elide, "add": add, "times": times, "line": line, "age": age, "seconds": seconds,
		"percent": percent, "duration": tiers.FormatDuration,
	}
	layout := template.Must(template.New("layout.html").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html"))
	files, _ := templateFiles.ReadDir("templates")
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".html")
		templates[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+f.Name()))
	}
	files, _ = staticFiles.ReadDir("static")
	for _, f := range files {
		b, _ := staticFiles.ReadFile("static/" + f.Name())
		sum, ext := sha256.Sum256(b), path.Ext(f.Name())
		name := strings.TrimSuffix(f.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		statics[name], hashed[f.Name()] = b, name
	}
})

func add(a, b int) int { return a + b }

func times(a, b int) int { return a * b }

// first returns the first n of a list of anything, or all.
func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
}

// line is the first line of a text.
func line(s *string) string {
	t, _, _ := strings.Cut(strings.TrimSpace(clip(s)), "\n")
	return inspect.Elide(t, 160)
}

func age(s float64) string { return inspect.Shortly(inSeconds(s)) }

func seconds(s float64) string { return inSeconds(s).Round(time.Millisecond).String() }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 0, 64) + " %" }

func (v *visit) static() error {
	b, ok := statics[v.last]
	if !ok {
		return &Problem{http.StatusNotFound, "There is no such file."}
	}
	v.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	v.write(http.StatusOK, mime.TypeByExtension(path.Ext(v.last)), b)
	return nil
}

// A page is what a template is given.
type page struct {
	Name string // of the template
	Live bool   // the script keeps it fresh
	Data any
	*visit
}

// render sends a page. What cannot be printed, or turns the direction of writing, is made
// visible everywhere at once: no template has such characters.
func (v *visit) render(status int, p page) {
	p.visit = v
	var b bytes.Buffer
	if err := templates[p.Name].ExecuteTemplate(&b, "layout", p); err != nil {
		v.log.Error("a page failed", "path", v.path, "error", err)
		v.write(http.StatusServiceUnavailable, "text/plain; charset=utf-8", []byte("This page failed; the log says why.\n"))
		return
	}
	v.write(status, "text/html; charset=utf-8", visible(b.Bytes()))
}

func visible(b []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(b))
	for _, r := range string(b) {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			out.WriteRune(r)
		} else {
			q := strconv.QuoteRune(r)
			out.WriteString(q[1 : len(q)-1])
		}
	}
	return out.Bytes()
}

// maxText is what a page shows of a text.
const maxText = 3 << 10

// plain is the text of a value; a key is as a query has it.
func plain(x any) string {
	switch x := x.(type) {
	case *string:
		return *cmp.Or(x, new(""))
	case json.RawMessage:
		return keyText(x)
	}
	return fmt.Sprint(x)
}

func clip(x any) string {
	s := plain(x)
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + " …"
}

// A Moment is a time for people, in the zone of the configuration.
type Moment struct{ ISO, Text, Ago string }

// When returns the time, which is a time.Time or an inspect.Stamp; nil for none.
func (v *visit) When(at any) *Moment {
	t, ok := at.(time.Time)
	if !ok {
		t = time.Time(at.(inspect.Stamp))
	}
	if t.IsZero() {
		return nil
	}
	local := t.In(v.Now.zone())
	return &Moment{t.UTC().Format(time.RFC3339), local.Format("2006-01-02 15:04:05 MST"), inspect.FromNow(t, v.at)}
}

// Clock is the time of day.
func (v *visit) Clock(t inspect.Stamp) string {
	return time.Time(t).In(v.Now.zone()).Format("15:04:05")
}

func (n Now) zone() *time.Location { return cmp.Or(n.Zone, time.UTC) }

// Link returns the address of a page; query are names and values, of these the empty ones
// are left out.
func (v *visit) Link(path string, query ...string) string {
	return v.set.prefix + address(path, query...)
}

func address(path string, query ...string) string {
	q := make(url.Values)
	for pair := range slices.Chunk(query, 2) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// CauseLink is the address of the records that failed so or, where the table does not keep
// their errors, of the first of them.
func (p page) CauseLink(c watch.Cause) string {
	switch {
	case !p.Now.LastErrors:
		return p.RecordLink(c.First)
	case slices.Contains(p.Now.Lanes(), "failed"):
		return p.Link("/records", "lane", "failed", "cause", c.Error)
	case slices.Contains(p.Now.Choices, "exhausted"): // nothing is tried twice
		return p.Link("/records", "state", "exhausted", "cause", c.Error)
	}
	return p.Link("/records", "cause", c.Error)
}

// RecordLink is the address of a record. Its key may be empty.
func (v *visit) RecordLink(key any) string {
	return v.set.prefix + "/record?id=" + url.QueryEscape(plain(key))
}

// RetryLink is where a record alone is retried.
func (v *visit) RetryLink(key backlog.Key) string {
	return v.Link(Filter{ID: key.String()}.On("/retry"))
}

// PauseText says until when there is a pause, and why; "" without one.
func (v *visit) PauseText() string {
	if v.Now.Pause == nil {
		return ""
	}
	return v.Now.Pause.In(v.Now.zone())
}

// InAnHour is the end that a pause is offered.
func (v *visit) InAnHour() string { return v.at.Add(time.Hour).In(v.Now.zone()).Format(untilForm) }

// Zone is the name of the time zone.
func (v *visit) Zone() string { return v.at.In(v.Now.zone()).Format("MST") }

// Static is the address of a file that browsers keep.
func (v *visit) Static(name string) string { return v.set.prefix + "/static/" + hashed[name] }

// Here reports whether a page, or what is below it, is this one.
func (v *visit) Here(path string) bool {
	return v.path == path || path != "/" && strings.HasPrefix(v.path, path+"/")
}

// Refreshed is this page's address, loaded again every so many seconds.
func (v *visit) Refreshed(seconds int) string {
	q := v.r.URL.Query()
	if q.Del("refresh"); seconds > 0 {
		q.Set("refresh", strconv.Itoa(seconds))
	}
	return v.set.prefix + (&url.URL{Path: v.path, RawQuery: q.Encode()}).String()
}

// Every is how often a browser without script loads the page again; 0: never.
func (p page) Every() int {
	n, err := strconv.Atoi(p.Query("refresh"))
	if err != nil || !p.Live {
		return 0
	}
	return min(max(n, 5), 3600)
}

// Query returns a parameter of the address.
func (v *visit) Query(name string) string { return v.r.URL.Query().Get(name) }

// Right is what the visitor may.
func (v *visit) Right() Right { return v.right }

// LoggedIn reports whether the visitor is known.
func (v *visit) LoggedIn() bool { return v.right > None }

// MayAct reports whether the visitor is offered actions.
func (v *visit) MayAct() bool { return v.right == Full && v.set.Actions && v.Now.Role != Viewer }

// json sends what the API says. Whole numbers that a script would round are texts.
func (v *visit) json(status int, x any) error {
	b, err := json.Marshal(x)
	if err == nil {
		v.write(status, "application/json", append(exact(b), '\n'))
	}
	return err
}

var jsonNumbers = pattern.Lazily(`"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*`)

// exact puts quotes around whole numbers beyond 2^53.
func exact(b []byte) []byte {
	return jsonNumbers().ReplaceAllFunc(b, func(part []byte) []byte {
		n, err := strconv.ParseInt(string(part), 10, 64)
		if part[0] == '"' || bytes.ContainsAny(part, ".eE") || err == nil && -1<<53 <= n && n <= 1<<53 {
			return part
		}
		return []byte(strconv.Quote(string(part)))
	})
}

// With returns the page with other data, for a template within it.
func (p page) With(data any) page {
	p.Data = data
	return p
}

// keyText is the text of a key in JSON, as a query has it.
func keyText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	json.Compact(&b, raw) // it was decoded
	return b.String()
}
