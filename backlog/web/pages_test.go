package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"backlog/backlog/web"
	"backlog/internal/testkit"
)

// A history that has just begun says since when, and one that has not says so. A page lists few ticks unless all are asked
// for.
func TestYoungHistory(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, nil)
	full := logIn(t, site, fullToken)
	body := func(path string) string { return visit(site, "GET", path, nil, full).Body.String() }
	if strings.Contains(body("/"), "Nothing is known") {
		t.Error("a whole history is called young")
	}
	f.begun = noon.Add(-5 * time.Hour)
	if page := body("/"); !strings.Contains(page, `Nothing is known of the time before <time datetime="2026-03-05T07:00:00Z">`) || strings.Count(page, `:00</time></th>`) != 6 {
		t.Errorf("a young history: %s", page)
	}
	f.begun = noon.Add(time.Hour)
	if page := body("/"); !strings.Contains(page, "There is none yet: the state folder has no passes.") || strings.Contains(page, `class="chart"`) {
		t.Errorf("no history: %s", page)
	}
	if few, all := strings.Count(body("/schedule"), `<th scope="row">`), strings.Count(body("/schedule?ticks=all"), `<th scope="row">`); few != 3+20 || all != 3+288 {
		t.Errorf("%d and %d rows", few, all)
	}
}

// pagesOf are the addresses of everything that people look at.
func pagesOf(f *fake) []string {
	id := url.QueryEscape(f.records[0].ID.String())
	return []string{
		"/", "/?refresh=30", "/passes", "/passes?tier=1d&limit=2", "/passes/" + number(f.now.Picture.Passes()[0].N), "/passes/" + number(f.now.Picture.Passes()[2].N), "/causes", "/causes?sort=last",
		"/records", "/records?lane=failed&cause=mailbox&retried=1&conflicts=2", "/record?id=" + id, "/schedule", "/schedule?for=30d", "/login", "/nothing",
	}
}

func TestPages(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, func(s *web.Settings) { s.Actions = true })
	full, read := logIn(t, site, fullToken), logIn(t, site, readToken)
	for _, path := range pagesOf(f) {
		w := visit(site, "GET", path, nil, full)
		if path == "/login" {
			continue
		}
		if path != "/nothing" && w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		checkPage(t, path, w.Body.String())
		if body := w.Body.String(); strings.Contains(body, fullToken) || strings.Contains(body, readToken) || strings.Contains(body, full.Value) {
			t.Errorf("%s has a token or a session", path)
		}
		if body := visit(site, "GET", path, nil, read).Body.String(); strings.Contains(body, "/retry") || strings.Contains(body, "/pause") {
			t.Errorf("%s: who may only read is offered an action", path)
		}
		if h := visit(site, "HEAD", path, nil, full); h.Body.Len() > 0 || h.Code != w.Code {
			t.Errorf("HEAD %s: %d, %d bytes", path, h.Code, h.Body.Len())
		}
	}
	for path, want := range map[string][]string{
		"/":                              {"Working.", "12,403 pending, 40 failed. Next: 1d at 12:05:00.", "Counted 14s ago", "beyond", "exhausted", "at &#34;30 3 * * *&#34; in UTC", "under way"},
		"/?refresh=60":                   {"The last 24 hours: 12,403 pending now, at most 12,403; 40 failed now, at most 40; attempts: 560 succeeded, 210 failed, 70 other; outages: 3h.", `<text x="40" y="22" text-anchor="end">12,403</text>`, `>09:00</time></th><td class="n">1,090</td><td class="n">30</td><td class="n">3</td><td class="n">24</td><td class="n">9</td><td>1h</td><td class="besides">3 rejected</td>`, "Attempts each day"},
		"/schedule?for=1d":               {`href="/schedule?for=1d&amp;ticks=all#ticks">All 288 ticks</a>`},
		"/records":                       {`class="retry"`, `<span class="badge">retry</span>`, "550 mailbox is full</td>", "Order 4000", "after=81799"},
		"/records?retried=1&conflicts=2": {"Put back: 1.", "2 had been changed"},
		"/record?id=81701":               {"550 mailbox is full\nand more", "260", "it stays where it is"},
		"/schedule":                      {"every: 1h", "- {name: &#34;year&#34;, max_age: 365d, cron: &#34;30 3 * * *&#34;, timezone: UTC}", "<s>1d</s> by 7d"},
		"/schedule?for=30d":              {"Only the first 1,000 ticks"},
		"/export/crontab":                {"once --due"},
		"/export/systemd":                {"ExecStart"},
		"/causes":                        {"mailbox # is full", "79 %", "lane=failed", "the newest 10,000 failed records", ">812<"},
	} {
		body := visit(site, "GET", path, nil, full).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not have %q:\n%s", path, text, body)
			}
		}
	}
	for path, want := range map[string]int{
		"/records?band=none": 400, "/records?lane=x": 400, "/records?state=pending": 400, "/records?limit=x": 400, "/records?limit=99999999999999999999": 200, "/records?band=beyond": 200,
		"/records?limit=-4": 200, "/record": 400, "/record?id=none": 404, "/passes/none": 404, "/passes/": 404, "/causes?sort=x": 400, "/schedule?for=x": 400,
		"/schedule?for=9000d": 200, "/export/x": 404, "/plot/x": 404, "/records/../": 404, "//": 404,
	} {
		if w := visit(site, "GET", path, nil, full); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	for _, name := range regexp.MustCompile(`/static/[a-z]+\.[0-9a-f]+\.(css|js)`).FindAllString(visit(site, "GET", "/", nil, full).Body.String(), -1) {
		w := visit(site, "GET", name, nil)
		testkit.Equal(t, name, w.Code, 200)
		testkit.Contains(t, name+": Cache-Control", w.Header().Get("Cache-Control"), "immutable")
		if w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: got no Content-Type: %v", name, w.Header())
		}
		if strings.HasSuffix(name, "js") && w.Body.Len() > 4<<10 {
			t.Errorf("%s: got %d bytes of script, want at most 4 KiB", name, w.Body.Len())
		}
	}
	f.asked = nil
	visit(site, "GET", "/records?limit=100000&band=7d&lane=fresh&state=dead&cause=a+b&q=%2e%2e&after=x", nil, full)
	if want := (web.Filter{Band: "7d", Lane: "fresh", State: "dead", Cause: "a b", ID: "..", After: "x", Limit: 200}); len(f.asked) != 1 || f.asked[0] != want {
		t.Errorf("asked for %+v", f.asked)
	}
}

// TestLinksLeadToStatesOfTheTable looks at where a cause and the bands lead in tables that have
// other states.
func TestLinksLeadToStatesOfTheTable(t *testing.T) {
	for _, x := range []struct {
		choices          []string
		cause            string
		exhausted, lanes bool
	}{
		{[]string{"fresh", "failed", "exhausted", "unreadable"}, "lane=failed", true, true},
		{[]string{"fresh", "exhausted", "unreadable"}, "state=exhausted", true, false},
		{[]string{"fresh", "unreadable"}, "/records?cause=550", false, false},
	} {
		f := newFake(t, "")
		f.now.Choices = x.choices
		f.now.Counts.Exhausted = 0
		site := newSite(t, f, nil)
		get := func(path string) string { return ask(site, readToken, "GET", path, "").Body.String() }
		if page := get("/causes"); !strings.Contains(page, x.cause) {
			t.Errorf("%v: no link of a cause has %s:\n%s", x.choices, x.cause, page)
		}
		if page := get("/"); strings.Contains(page, "state=exhausted\">exhausted") != x.exhausted {
			t.Errorf("%v: want a band of exhausted records %v:\n%s", x.choices, x.exhausted, page)
		}
		if page := get("/records"); strings.Contains(page, `id="lane"`) != x.lanes {
			t.Errorf("%v: want lanes %v:\n%s", x.choices, x.lanes, page)
		}
	}
}

// checkPage parses a page and looks at what every page must have.
func checkPage(t *testing.T, path, body string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	count, ids := make(map[string]int), make(map[string]bool)
	var labelled, labels []string
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		count[n.Data]++
		for _, a := range n.Attr {
			switch {
			case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
				t.Errorf("%s: <%s> has %s", path, n.Data, a.Key)
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("%s: the id %s is there twice", path, a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			case a.Key == "aria-labelledby" || a.Key == "aria-describedby":
				labelled = append(labelled, a.Val)
			case a.Key == "for":
				labels = append(labels, a.Val)
			}
		}
		needs := "" // the attribute that the element must have
		switch n.Data {
		case "th":
			needs = "scope"
		case "img":
			needs = "alt"
		case "select", "textarea":
			needs = "id" // for its label
		case "input":
			if attr(n, "type") != "hidden" {
				needs = "id"
			}
		}
		if needs != "" && attr(n, needs) == "" {
			t.Errorf("%s: <%s> lacks %s", path, n.Data, needs)
		}
	}
	for _, name := range []string{"h1", "main", "nav"} {
		testkit.Equal(t, path+": number of <"+name+">", count[name], 1)
	}
	testkit.Equal(t, path+": captions, of as many tables", count["caption"], count["table"])
	for _, id := range append(labelled, labels...) {
		if !ids[id] {
			t.Errorf("%s: nothing has the id %s", path, id)
		}
	}
}

func attr(n *html.Node, name string) string {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return ""
	}
	return n.Attr[i].Val
}
