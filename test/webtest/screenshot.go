//go:build long

package webtest

import (
	"os"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Screenshot writes the whole page as a PNG.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	var picture []byte
	p.run(chromedp.Evaluate(`scrollTo(0, 0)`, nil), chromedp.FullScreenshot(&picture, 100))
	require.NoError(p.t, os.WriteFile(path, picture, 0o644))
}
