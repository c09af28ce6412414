package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"backlog/backlog/web"
)

// browser is the one of the package; each test has a tab. It is nil where there is none.
var browser = sync.OnceValue(func() context.Context {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(time.Minute))
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, stop := chromedp.NewContext(ctx)
		if err := chromedp.Do(ctx); err != nil {
			panic(err)
		}
		closeBrowser = func() { stop(); cancel() }
		return ctx
	}
	return nil
})

var closeBrowser = func() {}

func TestMain(m *testing.M) {
	status := m.Run()
	closeBrowser()
	os.Exit(status)
}

// A tab is one of the browser's. What its console or policy complains of fails the test, and
// each request to another host.
type tab struct {
	*testing.T
	ctx context.Context
}

func openTab(t *testing.T) tab {
	t.Helper()
	if browser() == nil {
		t.Skip("chromium is not there")
	}
	ctx, cancel := chromedp.NewContext(browser(), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(stop)
	b := tab{t, ctx}
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *cdplog.EventEntryAdded:
			t.Errorf("the browser reports: %s %s", ev.Entry.Text, ev.Entry.URL)
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the console has: %v", ev.Type)
		case *runtime.EventExceptionThrown:
			t.Errorf("a script failed: %v", ev.ExceptionDetails)
		case *network.EventRequestWillBeSent:
			if u, _ := url.Parse(ev.Request.URL); u.Scheme != "data" && u.Hostname() != "127.0.0.1" {
				t.Errorf("a request leads elsewhere: %s", ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(b, cdplog.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	return b
}

func call[P, R any](b tab, cmd cdp.Command[P, R], params P) R {
	b.Helper()
	r, err := chromedp.Call(b.ctx, cmd, params)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	for i, step := range steps {
		if err := chromedp.Do(b.ctx, step); err != nil {
			b.Fatalf("step %d: %v", i, err)
		}
	}
}

func eval[T any](b tab, script string) T {
	b.Helper()
	x, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return x
}

// click clicks, and waits for the page that has the other element.
func (b tab) click(on, then string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(on)))
	b.await(then)
}

// await waits for an element. The browser may be between two pages, without scripts.
func (b tab) await(selector string) {
	b.Helper()
	for b.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(b.ctx, time.Second) // an evaluation that a new page overtakes has no answer
		there, _ := chromedp.Run(ctx, chromedp.Evaluate[bool]("document.readyState === 'complete' && !!document.querySelector(`"+selector+"`)"))
		if cancel(); there {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	b.Fatalf("there is no %s", selector)
}

func (b tab) scheme(name string) {
	b.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// logIn shows the token in the form of the page.
func (b tab) logIn(address string) {
	b.Helper()
	b.do(chromedp.Navigate(address+"/login"), chromedp.SetValue(chromedp.CSS("#token"), fullToken))
	b.click("main button", "nav")
}

func serve(t *testing.T, site http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(site)
	t.Cleanup(srv.Close)
	return srv.URL
}

// faults are what a page must not have: texts without contrast, and sideways scroll.
const faults = `(() => {
  const list = [], root = document.documentElement;
  if (root.scrollWidth > innerWidth) list.push('scrolls sideways: ' + root.scrollWidth + ' of ' + innerWidth);
  const rgb = s => s.match(/[\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.map(x => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    const e = n.parentElement;
    if (!n.data.trim() || !e.checkVisibility() || e.closest('.unseen, svg, script, option')) continue;
    let at = e, under;
    do { under = rgb(getComputedStyle(at).backgroundColor); at = at.parentElement; } while (under[3] === 0 && at);
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(under)].sort((x, y) => y - x), contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) list.push(contrast.toFixed(2) + ': ' + n.data.trim().slice(0, 40));
  }
  return list;
})()`

func TestBrowserLooks(t *testing.T) {
	f := newFake(t, "")
	f.records = f.records[:8]
	f.now.Pause = nil
	address := serve(t, newSite(t, f, func(s *web.Settings) { s.Actions = true }))
	b := openTab(t)
	b.logIn(address)
	pass := "/passes/" + number(f.now.Picture.Passes()[1].N)
	for _, path := range []string{"/", "/passes", pass, "/causes", "/records", "/record?id=81701", "/schedule?for=3h"} {
		b.do(chromedp.Navigate(address + path))
		for _, look := range []struct {
			width  int64
			scheme string
		}{{320, "light"}, {640, "dark"}} { // 640 is 1,280 at 200 %
			b.scheme(look.scheme)
			b.do(chromedp.EmulateViewport(look.width, 800))
			for _, fault := range eval[[]string](b, faults) {
				t.Errorf("%s, %d wide, %s: %s", path, look.width, look.scheme, fault)
			}
		}
		for _, n := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
			if n.Ignored || n.Role == nil || n.Name == nil {
				continue
			}
			role := strings.Trim(string(n.Role.Value), `"`)
			if named := []string{"link", "button", "textbox", "combobox", "image", "region", "table", "navigation"}; slices.Contains(named, role) && len(n.Name.Value) <= 2 {
				t.Errorf("%s: a %s has no name", path, role)
			}
		}
	}
	for scheme, want := range map[string]string{"light": "rgb(219, 234, 254) rgb(30, 58, 138)", "dark": "rgb(30, 58, 138) rgb(219, 234, 254)"} {
		b.scheme(scheme)
		b.do(chromedp.Navigate(address + "/records"))
		got := eval[string](b, `(s => s.backgroundColor + ' ' + s.color)(getComputedStyle(document.querySelector('tr.retry td')))`)
		if word := eval[string](b, `document.querySelector('tr.retry .badge').textContent`); got != want || word != "retry" {
			t.Errorf("%s: a row in retry is %s with %q, want %s", scheme, got, word, want)
		}
	}
	b.do(chromedp.Navigate(address + "/schedule?for=2h"))
	before := eval[string](b, `document.getElementById('yaml').value`)
	b.click("button.main", "img.plot")
	if after := eval[string](b, `document.getElementById('yaml').value`); after != before || !strings.Contains(eval[string](b, `document.body.textContent`), "Ticks of the next 2h") {
		t.Errorf("after a simulation the form has %q, before it had %q", after, before)
	}
	if got := eval[string](b, `(async () => { const i = document.querySelector('img.plot'), c = document.createElement('canvas').getContext('2d'); await i.decode(); c.drawImage(i, 0, 0); return c.getImageData(5, 5, 1, 1).data.join() })()`); got != "0,84,150,255" {
		t.Errorf("a plot's colour is %s", got)
	}
}

// Without scripts every page and both steps of the actions work.
func TestBrowserWithoutScripts(t *testing.T) {
	f := newFake(t, "")
	address := serve(t, newSite(t, f, func(s *web.Settings) { s.Actions = true }))
	b := openTab(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.logIn(address)
	for _, name := range []string{"passes", "causes", "records", "schedule"} {
		b.click(`nav a[href="/`+name+`"]`, `nav a[href="/`+name+`"][aria-current]`)
	}
	b.click("button.main", "img.plot")
	b.do(chromedp.Navigate(address + "/records?lane=failed"))
	b.click("main > .acts button", "input[name=expect]")
	b.click("button.main", ".notice.good")
	if len(f.retried) != 1 || f.retried[0].Lane != "failed" {
		t.Errorf("retried %v", f.retried)
	}
	b.click("tr.retry button", "input[name=expect]")
	b.click("button.main", ".notice.good")
	if len(f.retried) != 2 || f.retried[1].ID != "81701" {
		t.Errorf("retried %v", f.retried)
	}
	for range 2 {
		b.do(chromedp.Navigate(address + "/"))
		b.click("section[aria-labelledby=act] button", "button.main")
		b.click("button.main", "h1.sentence")
	}
	if len(f.paused) != 2 || f.paused[0] == nil || f.paused[1] != nil {
		t.Errorf("paused %v", f.paused)
	}
	b.click(".tools form button", "#token")
}

// A number moves, and focus and scroll stay; two instances on one host know their visitors;
// Tab reaches everything in order, and is seen.
func TestBrowserLives(t *testing.T) {
	f, other := newFake(t, ""), newFake(t, "")
	address, second := serve(t, newSite(t, f, nil)), serve(t, newSite(t, other, nil))
	b := openTab(t)
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `const wait = setInterval; window.setInterval = (f, t) => wait(f, t / 25); const clock = Date.now; window.ahead = 0; Date.now = () => clock() + ahead`})
	b.logIn(address)
	b.logIn(second)
	b.do(chromedp.Navigate(address+"/"), chromedp.WaitVisible(chromedp.CSS("#hold")))
	if at := eval[string](b, `location.pathname`); at != "/" {
		t.Errorf("after a login elsewhere on the host the first one is at %s", at)
	}
	eval[string](b, `(() => { window.kept = document.querySelector('.bands a'); kept.focus(); scrollTo(0, 137); return '' })()`)
	counted := func(pending int, where, text string) {
		t.Helper()
		f.mu.Lock()
		counts := *f.now.Counts
		counts.Pending, f.now.Counts = pending, &counts
		f.mu.Unlock()
		if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](fmt.Sprintf(`document.querySelector('%s').textContent.includes('%s')`, where, text))); err != nil {
			t.Fatal(err)
		}
	}
	counted(98765, "h1", "98,765")
	if said := eval[string](b, `document.getElementById('said').textContent`); said != "" {
		t.Errorf("within 30 s the live region says %q", said)
	}
	counted(98764, "h1", "98,764") // before the clock: what is there then is said
	eval[string](b, `(() => { ahead = 30000; return '' })()`)
	counted(98764, "#said", "98,764")
	counted(98763, "h1", "98,763")
	if said := eval[string](b, `document.getElementById('said').textContent`); !strings.Contains(said, "98,764") {
		t.Errorf("30 s have not passed again, and the live region says %q", said)
	}
	if !eval[bool](b, `document.activeElement === kept && kept.isConnected && scrollY === 137`) {
		t.Error("focus or scroll have moved")
	}
	eval[string](b, `(() => { document.activeElement.blur(); scrollTo(0, 0); document.getElementById('hold').click(); return '' })()`)
	if text := eval[string](b, `document.getElementById('hold').textContent`); text != "Resume updates" {
		t.Errorf("after a click on pause it says %q", text)
	}
	b.do(chromedp.Navigate(address + "/"))
	var seen []string
	for range eval[int](b, `document.querySelectorAll('a[href]:not([hidden]), button:not([hidden]), input, select, textarea, [tabindex="0"]').length`) {
		b.do(chromedp.KeyEvent(kb.Tab))
		seen = append(seen, eval[string](b, `(e => (e.checkVisibility() && getComputedStyle(e).outlineStyle !== 'none' ? '' : 'unseen ') + (e.textContent.trim() || e.id || e.tagName).slice(0, 30))(document.activeElement)`))
	}
	want := []string{"Skip to the content", "backlog", "Overview", "Passes", "Causes", "Records", "Schedule", "Pause updates", "Log out"}
	if len(seen) < 20 || !slices.Equal(seen[:len(want)], want) || strings.Contains(fmt.Sprint(seen), "unseen") {
		t.Errorf("Tab leads to %q", seen)
	}
}
