package views

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"strings"
	"unicode"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
)

//go:embed templates/*.html
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"plain": plain}).ParseFS(templateFiles, "templates/*.html")) //nolint:gochecknoglobals // never written to

// plain replaces what would hide a part of a tag or a description on a page, or turn it
// round: anything that can write to the table may have written it.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if segment.Hidden(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// shownPage is what a template shows.
type shownPage[T segment.Status | segment.Row] struct {
	Rows []T
	More bool // rows of tags that contain the part asked for follow
}

// cachePage answers GET /cache, a page of the Java Leaf: the tags in memory, with that
// page's columns and a few more. ?tag=part shows the tags that have that part in their names.
func (s *Server) cachePage(ctx *fasthttp.RequestCtx) error {
	b, err := s.segmentBackend()
	if err != nil {
		return err
	}
	return writePage(s, ctx, "cache.html", func(part string) (p shownPage[segment.Status], err error) {
		rows, more := b.Segments.Page("", part, pageRows)
		return shownPage[segment.Status]{Rows: rows, More: more > 0}, nil
	})
}

// dbPage answers GET /db, a page of the Java Leaf: the rows of leaf_alloc, with that
// page's columns and the description. ?tag is as for /cache.
func (s *Server) dbPage(ctx *fasthttp.RequestCtx) error {
	b, err := s.segmentBackend()
	if err != nil {
		return err
	}
	return writePage(s, ctx, "db.html", func(part string) (p shownPage[segment.Row], err error) {
		below, cancel := context.WithTimeout(s.cfg.Base, adminTimeout)
		defer cancel()
		rows, err := b.Admin.Page(below, "", part, pageRows+1)
		if err != nil {
			return p, s.storeError(ctx, err)
		}
		shown := min(len(rows), pageRows)
		return shownPage[segment.Row]{Rows: rows[:shown], More: len(rows) > shown}, nil
	})
}

func writePage[T segment.Status | segment.Row](s *Server, ctx *fasthttp.RequestCtx, name string, read func(part string) (shownPage[T], error)) error {
	part := string(ctx.QueryArgs().Peek("tag"))
	guardPage(ctx, pagePolicy)
	return s.listOf(ctx, reply.ContentHTML, func(*Snapshot) ([]byte, error) {
		p, err := read(part)
		if err != nil {
			return nil, err
		}
		var body bytes.Buffer
		if err := templates.ExecuteTemplate(&body, name, &p); err != nil {
			return nil, fmt.Errorf("writing the page %s: %w", name, err)
		}
		return body.Bytes(), nil
	})
}

// pagePolicy is for pages that run and load nothing, regardless of the name of a tag.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; " + policyOfAll

// policyOfAll ends the policy of every page: no page of another site shows it inside of itself,
// to have a user click there, and it leads nowhere.
const policyOfAll = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guardPage sets what every page carries.
func guardPage(ctx *fasthttp.RequestCtx, policy string) {
	ctx.Response.Header.Set(fasthttp.HeaderContentSecurityPolicy, policy)
	ctx.Response.Header.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	ctx.Response.Header.Set(fasthttp.HeaderReferrerPolicy, "no-referrer")
}
