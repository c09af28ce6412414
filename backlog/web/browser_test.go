package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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

// tab opens one in the browser.
func tab(t *testing.T) context.Context {
	t.Helper()
	parent := browser()
	if parent == nil {
		t.Skip("chromium is not there")
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(stop)
	return ctx
}

// serve serves a site.
func serve(t *testing.T, site http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(site)
	t.Cleanup(srv.Close)
	return srv
}

// logInAs shows the token in the form of the page.
func logInAs(token string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.SetValue(chromedp.CSS("#token"), token), chromedp.Submit(chromedp.CSS("#token")), chromedp.WaitVisible(chromedp.CSS("nav")))
}
