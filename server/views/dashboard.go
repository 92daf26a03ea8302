package views

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/leafd/leafd/server/reply"

	"github.com/valyala/fasthttp"
)

//go:embed web/page.html web/*.css web/*.js
var webFiles embed.FS

// dashboard is the page of GET / for browsers. It keeps:
//
//   - It is one response, with script and style inline.
//   - It runs only its own scripts, known by their hashes, and connects only to
//     the daemon that served it: the browser enforces both.
//   - What the daemon says becomes text, never HTML: with require-trusted-types-for
//     the browser refuses every way to turn a string into HTML.
type dashboard struct {
	page   []byte // immutable
	policy string // immutable; the Content-Security-Policy
}

// newDashboard assembles the page. web/page.html names its style and scripts as files,
// so that editors recognize them.
func newDashboard() (*dashboard, error) {
	page, err := webFiles.ReadFile("web/page.html")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	var styles, scripts []string
	var failed error
	part := regexp.MustCompile(`<link rel="stylesheet" href="([^"]+)">|<script src="([^"]+)"></script>`)
	page = part.ReplaceAllFunc(page, func(match []byte) []byte {
		names := part.FindSubmatch(match)
		element, name, hashes := "style", string(names[1]), &styles
		if name == "" {
			element, name, hashes = "script", string(names[2]), &scripts
		}
		content, err := webFiles.ReadFile(path.Join("web", name))
		if err != nil {
			failed = fmt.Errorf("dashboard: %w", err)
			return nil
		}
		*hashes = append(*hashes, hashSource(content))
		return bytes.Join([][]byte{[]byte("<" + element + ">"), content, []byte("</" + element + ">")}, nil)
	})
	if failed != nil {
		return nil, failed
	}
	policy := "default-src 'none'; script-src " + strings.Join(scripts, " ") + "; style-src " + strings.Join(styles, " ") +
		"; img-src data:; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'; " + policyOfAll
	return &dashboard{page: page, policy: policy}, nil
}

// hashSource identifies a script or style in a Content-Security-Policy.
func hashSource(content []byte) string {
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// root answers GET /: the dashboard for browsers, the list of endpoints for others.
func (s *Server) root(ctx *fasthttp.RequestCtx) error {
	ctx.Response.Header.Set(fasthttp.HeaderVary, fasthttp.HeaderAccept)
	if !reply.Accepts(&ctx.Request.Header, reply.TypeHTML) {
		return s.listEndpoints(ctx)
	}
	if err := s.checkHost(ctx); err != nil {
		return err
	}
	guardPage(ctx, s.dashboard.policy)
	return s.answerReady(ctx, reply.ContentHTML, s.dashboard.page)
}

// listEndpoints answers GET / with the list of endpoints.
func (s *Server) listEndpoints(ctx *fasthttp.RequestCtx) error {
	reply.NoStore(&ctx.Response, reply.ContentText)
	ctx.SetBodyString(endpoints)
	return nil
}
