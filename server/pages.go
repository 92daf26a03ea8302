package server

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
)

//go:embed templates/*.html
var templateFiles embed.FS

var templates = template.Must(template.ParseFS(templateFiles, "templates/*.html")) //nolint:gochecknoglobals // never written to

// shownPage is what a template shows.
type shownPage[T SegmentStatus | segment.Row] struct {
	Rows    []T
	Matched int // rows whose tag contains the part asked for
	LeftOut int // of these
}

// cachePage answers GET /cache, a page of the Java Leaf: the tags in memory, with that
// page's columns and a few more. ?tag=part shows the tags whose names contain that part.
func (s *Server) cachePage(ctx *fasthttp.RequestCtx) error {
	_, list, err := s.segmentStatus()
	if err != nil {
		return err
	}
	return writePage(s, ctx, "cache.html", list, func(t *SegmentStatus) string { return t.Tag })
}

// dbPage answers GET /db, a page of the Java Leaf: the rows of leaf_alloc, with that
// page's columns and the description. ?tag is as for /cache.
func (s *Server) dbPage(ctx *fasthttp.RequestCtx) error {
	b, err := s.ready()
	if err != nil {
		return err
	}
	if b.Admin == nil {
		return errModeDisabled
	}
	rows, err := s.rows.get(func() ([]segment.Row, error) {
		below, cancel := context.WithTimeout(s.base, adminTimeout)
		defer cancel()
		return b.Admin.List(below)
	})
	if err != nil {
		return s.storeError(err)
	}
	return writePage(s, ctx, "db.html", rows, func(r *segment.Row) string { return r.Tag })
}

func writePage[T SegmentStatus | segment.Row](s *Server, ctx *fasthttp.RequestCtx, name string, rows []T, tagOf func(*T) string) error {
	part := strings.ToLower(string(ctx.QueryArgs().Peek("tag")))
	// The pages run and load nothing, whatever the name of a tag is.
	ctx.Response.Header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return s.list(ctx, contentHTML, func() ([]byte, error) {
		var p shownPage[T]
		for i := range rows {
			if !strings.Contains(strings.ToLower(tagOf(&rows[i])), part) {
				continue
			}
			if p.Matched++; len(p.Rows) < pageRows {
				p.Rows = append(p.Rows, rows[i])
			}
		}
		p.LeftOut = p.Matched - len(p.Rows)
		var body bytes.Buffer
		if err := templates.ExecuteTemplate(&body, name, &p); err != nil {
			return nil, fmt.Errorf("writing the page %s: %w", name, err)
		}
		return body.Bytes(), nil
	})
}

// Size returns how many IDs the whole range has.
func (b SegmentBuffer) Size() int64 { return b.High - b.Low }
