//go:build long

// Package webtest opens pages in a real Chromium, for tests.
package webtest

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience only ends a test that hangs.
const patience = time.Minute

// programs are the names that Chromium has.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// Browser is a Chromium of a test's own, without a window.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// Open starts a browser that ends with the test. It skips the test with -short.
func Open(t testing.TB) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	at := slices.IndexFunc(programs, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
	require.GreaterOrEqual(t, at, 0, "none of %v is in PATH: make deps-long installs Chromium", programs)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(programs[at]),
		chromedp.DisableGPU,
		chromedp.NoSandbox, // not available to root
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"), // as a server of names under attack answers
		chromedp.WSURLReadTimeout(patience),
	)
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("ending the browser: %v", err)
		}
		end()
		endAlloc()
		chromedp.FromContext(ctx).Allocator.Wait()
	})
	require.NoError(t, chromedp.Run(ctx))
	return &Browser{t: t, ctx: ctx}
}

// View is how a page is looked at.
type View struct {
	Width, Height int64
	Dark          bool
}

// String names a view for a subtest.
func (v View) String() string {
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	return fmt.Sprintf("%d px, %s", v.Width, scheme)
}

// Page is one page, with its errors.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu         sync.Mutex
	complaints []string // mu protects
	asked      []string // mu protects; URLs of all requests
}

// watch logs each violation of a page's policy; it runs before the page's scripts.
const watch = `addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI));`

// Page opens url in a new tab.
func (b *Browser) Page(url string, view View) *Page {
	b.t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	b.t.Cleanup(end)
	p := &Page{t: b.t, ctx: ctx}
	chromedp.ListenTarget(ctx, p.record)
	p.run(network.Enable(), runtime.Enable(), cdplog.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watch).Do(ctx)
		return err
	}))
	p.Look(view)
	p.run(chromedp.Navigate(url))
	return p
}

// record records the browser's events about the page.
func (p *Page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			for _, arg := range e.Args {
				p.complaints = append(p.complaints, fmt.Sprintf("console %s: %s%s", e.Type, arg.Value, arg.Description))
			}
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level != cdplog.LevelVerbose && e.Entry.Level != cdplog.LevelInfo {
			p.complaints = append(p.complaints, fmt.Sprintf("log %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		p.complaints = append(p.complaints, "dialog: "+e.Message)
	}
}

// Complaints returns what the browser has complained of since it was last asked:
// errors and warnings of the console, exceptions, violations of the policy, dialogs.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.complaints
	p.complaints = nil
	return all
}

// Strangers returns the URLs of requests that went to another host than host.
func (p *Page) Strangers(host string) []string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var strangers []string
	require.NotEmpty(p.t, p.asked)
	for _, asked := range p.asked {
		u, err := url.Parse(asked)
		require.NoError(p.t, err)
		if u.Scheme != "data" && u.Host != host {
			strangers = append(strangers, asked)
		}
	}
	return strangers
}

// Asked returns how many requests the page has made.
func (p *Page) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func (p *Page) run(actions ...chromedp.Action) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, actions...))
}
