//go:build long

package webtest

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Look changes how the page is looked at.
func (p *Page) Look(v View) {
	p.t.Helper()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.run(
		emulation.SetDeviceMetricsOverride(v.Width, v.Height, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	)
}

// Eval returns the value of an expression in the page's script.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	var v T
	p.run(chromedp.Evaluate(expression, &v))
	return v
}

// Text returns the text of the element that a selector finds, as it is shown.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, `(document.querySelector(`+strconv.Quote(selector)+`) || {innerText: "there is none"}).innerText`)
}

// Await waits until an expression is true.
func (p *Page) Await(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	var v bool
	for !v {
		if err := chromedp.Run(ctx, chromedp.Evaluate("!!("+expression+")", &v)); err != nil {
			require.NoError(p.t, err, "%s; the page shows:\n%s", expression, p.Text("body"))
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// AwaitText waits until the text of the element that a selector finds has part.
func (p *Page) AwaitText(selector, part string) {
	p.t.Helper()
	p.Await(fmt.Sprintf(`document.querySelector(%q)?.innerText.includes(%q)`, selector, part))
}

// Type puts the focus on an element and types text.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.run(chromedp.Focus(selector, chromedp.ByQuery), chromedp.KeyEvent(text))
}

// Click clicks on an element.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.run(chromedp.Click(selector, chromedp.ByQuery))
}

// Overflow returns by how many pixels the page is wider than the window.
func (p *Page) Overflow() int {
	p.t.Helper()
	return Eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
}

// Cut returns the elements of the page of which a part is out of the window, or hidden by
// another element's edge.
func (p *Page) Cut() []string {
	p.t.Helper()
	return Eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => {
		if (e.closest("svg, .sr, .skip, thead, input, .buffer") || !e.getClientRects().length) return false;
		return e.getBoundingClientRect().right > innerWidth + 0.5 || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline";
	}).map((e) => e.tagName + " " + e.innerText.slice(0, 60))`)
}

//go:embed contrast.js
var contrast string

// Faint returns the texts with a contrast below WCAG's AA: 4.5, or 3 for large ones.
func (p *Page) Faint() []string {
	p.t.Helper()
	return Eval[[]string](p, contrast)
}
