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

// The maps that parseTemplates fills. Browsers may keep a static file for ever, because its name has
// the hash of its content.
var (
	templates = make(map[string]*template.Template) // by the name of their page
	statics   = make(map[string][]byte)             // by hashed name
	hashed    = make(map[string]string)             // hashed names by plain name
)

// parseTemplates parses the templates and hashes the static files. It takes some milliseconds, so only
// processes that serve pages call it.
var parseTemplates = sync.OnceFunc(func() {
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
		sum := sha256.Sum256(b)
		ext := path.Ext(f.Name())
		name := strings.TrimSuffix(f.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		statics[name] = b
		hashed[f.Name()] = name
	}
})

func add(a, b int) int { return a + b }

func times(a, b int) int { return a * b }

// first returns the first n elements of a slice of any type, or all if there are fewer.
func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
}

// line returns the first line of a text, shortened.
func line(s *string) string {
	t, _, _ := strings.Cut(strings.TrimSpace(clip(s)), "\n")
	return inspect.Elide(t, 160)
}

func age(s float64) string { return inspect.Shortly(inSeconds(s)) }

func seconds(s float64) string { return inSeconds(s).Round(time.Millisecond).String() }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 0, 64) + " %" }

// static answers with a static file.
func (v *visit) static() error {
	b, ok := statics[v.last]
	if !ok {
		return &Problem{http.StatusNotFound, "There is no such file."}
	}
	v.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	v.write(http.StatusOK, mime.TypeByExtension(path.Ext(v.last)), b)
	return nil
}

// A page is the data of a template.
type page struct {
	Name string // of the template
	Live bool   // the script reloads it
	Data any
	*visit
}

// render sends a page. It escapes characters that are not printable or change the direction of text
// in the whole page at once, because no template has any.
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

// visible escapes what is not printable, but for tabs and ends of lines.
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

// maxText is how many bytes of a text a page shows.
const maxText = 3 << 10

// plain returns the text of a value. A key of a record is written as in a query.
func plain(x any) string {
	switch x := x.(type) {
	case *string:
		return *cmp.Or(x, new(""))
	case json.RawMessage:
		return keyText(x)
	}
	return fmt.Sprint(x)
}

// clip returns the text of a value, cut to maxText.
func clip(x any) string {
	s := plain(x)
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + " …"
}

// A Moment is a time for people. Text is in the zone of the configuration.
type Moment struct{ ISO, Text, Ago string }

// When returns the moment of a time.Time or an inspect.Stamp; nil for the zero time.
func (v *visit) When(at any) *Moment {
	t, ok := at.(time.Time)
	if !ok {
		t = time.Time(at.(inspect.Stamp))
	}
	if t.IsZero() {
		return nil
	}
	local := t.In(v.Now.zone())
	return &Moment{
		ISO:  t.UTC().Format(time.RFC3339),
		Text: local.Format("2006-01-02 15:04:05 MST"),
		Ago:  inspect.FromNow(t, v.at),
	}
}

// Clock returns the time of day.
func (v *visit) Clock(t inspect.Stamp) string {
	return time.Time(t).In(v.Now.zone()).Format("15:04:05")
}

func (n Now) zone() *time.Location { return cmp.Or(n.Zone, time.UTC) }

// Link returns the address of a page. query has names and values in turn; those with the value "" are
// left out.
func (v *visit) Link(path string, query ...string) string {
	return v.set.prefix + address(path, query...)
}

// address returns a path with a query, as for Link.
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

// CauseLink returns the address of the records that failed for a cause. If the table does not keep
// their errors, it is the first record's.
func (p page) CauseLink(c watch.Cause) string {
	switch {
	case !p.Now.LastErrors:
		return p.RecordLink(c.First)
	case slices.Contains(p.Now.Lanes(), "failed"):
		return p.Link("/records", "lane", "failed", "cause", c.Error)
	case slices.Contains(p.Now.Choices, "exhausted"): // the policy tries no record twice
		return p.Link("/records", "state", "exhausted", "cause", c.Error)
	}
	return p.Link("/records", "cause", c.Error)
}

// RecordLink returns the address of a record. Its key may be "".
func (v *visit) RecordLink(key any) string {
	return v.set.prefix + "/record?id=" + url.QueryEscape(plain(key))
}

// RetryLink returns the address that retries one record.
func (v *visit) RetryLink(key backlog.Key) string {
	return v.Link(Filter{ID: key.String()}.On("/retry"))
}

// PauseText returns until when the pause lasts, and why; or "".
func (v *visit) PauseText() string {
	if v.Now.Pause == nil {
		return ""
	}
	return v.Now.Pause.In(v.Now.zone())
}

// InAnHour returns the end that the form for a pause suggests.
func (v *visit) InAnHour() string { return v.at.Add(time.Hour).In(v.Now.zone()).Format(untilLayout) }

// Zone returns the name of the time zone.
func (v *visit) Zone() string { return v.at.In(v.Now.zone()).Format("MST") }

// Static returns the address of a static file.
func (v *visit) Static(name string) string { return v.set.prefix + "/static/" + hashed[name] }

// Here reports whether this page has the path or is below it.
func (v *visit) Here(path string) bool {
	return v.path == path || path != "/" && strings.HasPrefix(v.path, path+"/")
}

// Refreshed returns the address of this page when a browser is to load it again every so many seconds;
// 0: not again.
func (v *visit) Refreshed(seconds int) string {
	q := v.r.URL.Query()
	q.Del("refresh")
	if seconds > 0 {
		q.Set("refresh", strconv.Itoa(seconds))
	}
	u := &url.URL{Path: v.path, RawQuery: q.Encode()}
	return v.set.prefix + u.String()
}

// Every returns after how many seconds a browser without scripts loads the page again; 0: never.
func (p page) Every() int {
	n, err := strconv.Atoi(p.Query("refresh"))
	if err != nil || !p.Live {
		return 0
	}
	return min(max(n, 5), 3600)
}

// Query returns a parameter of the query.
func (v *visit) Query(name string) string { return v.r.URL.Query().Get(name) }

// Right returns what the visitor may do.
func (v *visit) Right() Right { return v.right }

// LoggedIn reports whether the visitor has any right.
func (v *visit) LoggedIn() bool { return v.right > None }

// MayAct reports whether the pages offer actions to the visitor.
func (v *visit) MayAct() bool { return v.right == Full && v.set.Actions && v.Now.Role != Viewer }

// json sends an answer of the API. Whole numbers that JavaScript would round become strings.
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
		isWhole := part[0] != '"' && !bytes.ContainsAny(part, ".eE")
		isSmall := err == nil && -1<<53 <= n && n <= 1<<53
		if !isWhole || isSmall {
			return part
		}
		return []byte(strconv.Quote(string(part)))
	})
}

// With returns the page with other data, for a nested template.
func (p page) With(data any) page {
	p.Data = data
	return p
}

// keyText returns a key in JSON as it is written in a query.
func keyText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	json.Compact(&b, raw) // no error: it was decoded
	return b.String()
}
