package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"backlog/backlog"
	"backlog/backlog/inspect"
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
		"num": func(n any) string { return thousands(n) }, "clip": clip, "often": inspect.Often, "join": strings.Join,
		"line": func(s *string) string {
			t, _, _ := strings.Cut(strings.TrimSpace(clip(s)), "\n")
			return inspect.Cut(t, 160)
		},
		"age": func(s float64) string { return inspect.Shortly(time.Duration(s * float64(time.Second))) },
		"seconds": func(s float64) string {
			return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
		},
		"percent": func(f float64) string { return strconv.FormatFloat(100*f, 'f', 0, 64) + " %" }, "duration": tiers.FormatDuration,
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
	Name  string // of the template
	Title string
	Live  bool // the script keeps it fresh
	Data  any

	*visit
	Now Now
}

// render sends a page. What cannot be printed, or turns the direction of writing, is made
// visible everywhere at once: no template has such characters.
func (v *visit) render(status int, p page) {
	p.visit = v
	if v.right > None {
		p.Now = v.backlog.Now()
	}
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

func clip(text any) string {
	var s string
	switch x := text.(type) {
	case string:
		s = x
	case *string:
		if x == nil {
			return ""
		}
		s = *x
	case json.RawMessage:
		s = id(x)
	case interface{ String() string }:
		s = x.String()
	}
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + " …"
}

func thousands(n any) string {
	switch x := n.(type) {
	case int64:
		return inspect.Thousands(int(x))
	case int:
		return inspect.Thousands(x)
	case *int:
		return inspect.Thousands(*x)
	}
	return ""
}

// A Moment is a time for people, in the zone of the configuration.
type Moment struct{ ISO, Text, Ago string }

// When returns the time, nil for none.
func (p page) When(at any) *Moment {
	var t time.Time
	switch x := at.(type) {
	case time.Time:
		t = x
	case *time.Time:
		t = *x
	case inspect.Stamp:
		t = time.Time(x)
	}
	if t.IsZero() {
		return nil
	}
	local := t.In(p.Now.zone())
	return &Moment{t.UTC().Format(time.RFC3339), local.Format("2006-01-02 15:04:05 MST"), inspect.FromNow(t, p.at)}
}

// Clock is the time of day.
func (p page) Clock(t inspect.Stamp) string { return time.Time(t).In(p.Now.zone()).Format("15:04:05") }

func (n Now) zone() *time.Location { return cmp.Or(n.Zone, time.UTC) }

// Link returns the address of a page; query are names and values, of these the empty ones
// are left out.
func (p page) Link(path string, query ...string) string {
	return p.set.prefix + address(path, query...)
}

func address(path string, query ...string) string {
	q := make(url.Values)
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			q.Set(query[i], query[i+1])
		}
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// RecordLink is the address of a record. Its key may be empty.
func (p page) RecordLink(key any) string {
	text, ok := key.(string)
	if k, is := key.(backlog.Key); is {
		text = k.String()
	} else if raw, is := key.(json.RawMessage); !ok && is {
		text = id(raw)
	}
	return p.set.prefix + "/record?id=" + url.QueryEscape(text)
}

// RetryLink is where a record alone is retried.
func (p page) RetryLink(key backlog.Key) string {
	return p.Link(Filter{ID: key.String()}.address("/retry"))
}

// Zone is the name of the time zone.
func (p page) Zone() string { return p.at.In(p.Now.zone()).Format("MST") }

// AxisEnd and AxisText are places at the foot of a timeline.
func (p page) AxisEnd(height int) int  { return height - 22 }
func (p page) AxisText(height int) int { return height - 6 }

// Static is the address of a file that browsers keep.
func (p page) Static(name string) string { return p.set.prefix + "/static/" + hashed[name] }

// Here reports whether a page, or what is below it, is this one.
func (p page) Here(path string) bool {
	return p.path == path || path != "/" && strings.HasPrefix(p.path, path+"/")
}

// Refreshed is this page's address, loaded again every so many seconds.
func (p page) Refreshed(seconds int) string {
	q := p.r.URL.Query()
	if q.Del("refresh"); seconds > 0 {
		q.Set("refresh", strconv.Itoa(seconds))
	}
	return p.set.prefix + (&url.URL{Path: p.path, RawQuery: q.Encode()}).String()
}

// Every is how often a browser without script loads the page again; 0: never.
func (p page) Every() int {
	n, err := strconv.Atoi(p.r.URL.Query().Get("refresh"))
	if err != nil || !p.Live {
		return 0
	}
	return min(max(n, 5), 3600)
}

// LoggedIn reports whether the visitor is known, and ends a session by /logout.
func (p page) LoggedIn() bool { return p.right > None }

// MayAct reports whether the visitor is offered actions.
func (p page) MayAct() bool { return p.right == Full && p.set.Actions && p.Now.Role != Viewer }

// json sends what the API says. Whole numbers that a script would round are texts.
func (v *visit) json(status int, x any) error {
	b, err := json.Marshal(x)
	if err == nil {
		v.write(status, "application/json", append(exact(b), '\n'))
	}
	return err
}

// exact puts quotes around whole numbers beyond 2^53.
func exact(b []byte) []byte {
	var out bytes.Buffer
	for i := 0; i < len(b); {
		j := i + 1
		switch c := b[i]; {
		case c == '"':
			for ; b[j] != '"'; j++ {
				if b[j] == '\\' {
					j++
				}
			}
			j++
		case c == '-' || '0' <= c && c <= '9':
			for j < len(b) && bytes.IndexByte([]byte("0123456789+-.eE"), b[j]) >= 0 {
				j++
			}
			if n, err := strconv.ParseInt(string(b[i:j]), 10, 64); bytes.IndexAny(b[i:j], ".eE") < 0 && (err != nil || n > 1<<53 || n < -1<<53) {
				out.WriteString(strconv.Quote(string(b[i:j])))
				i = j
				continue
			}
		}
		out.Write(b[i:j])
		i = j
	}
	return out.Bytes()
}

// A Tab is a link to a page, which may be this one.
type Tab struct {
	Link, Name string
	Here       bool
}

// Tab returns one of the main pages.
func (p page) Tab(path, name string) Tab { return Tab{p.Link(path), name, p.Here(path)} }

// Who is the visitor as pages and the log name it.
func (v *visit) Who() string { return v.right.String() }

// With returns the page with other data, for a template within it.
func (p page) With(data any) page {
	p.Data = data
	return p
}
