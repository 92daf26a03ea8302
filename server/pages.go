package server

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
)

//go:embed templates/*.html
var templateFiles embed.FS

var templates = template.Must(template.ParseFS(templateFiles, "templates/*.html")) //nolint:gochecknoglobals // never written to

// cachePage answers GET /cache, a page of the Java Leaf: the tags in memory.
func (s *Server) cachePage(ctx *fasthttp.RequestCtx) error {
	list, err := s.segmentStatus()
	if err != nil {
		return err
	}
	return writePage(ctx, "cache.html", list)
}

// dbPage answers GET /db, a page of the Java Leaf: the rows of leaf_alloc.
func (s *Server) dbPage(ctx *fasthttp.RequestCtx) error {
	b, err := s.ready()
	if err != nil {
		return err
	}
	if b.Admin == nil {
		return errModeDisabled
	}
	below, cancel := context.WithTimeout(s.base, adminTimeout)
	defer cancel()
	rows, err := b.Admin.List(below)
	if err != nil {
		return s.storeError(err)
	}
	return writePage(ctx, "db.html", rows)
}

func writePage[T SegmentStatus | segment.Row](ctx *fasthttp.RequestCtx, name string, rows []T) error {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, rows); err != nil {
		return fmt.Errorf("writing the page %s: %w", name, err)
	}
	ctx.Response.SetBodyRaw(page.Bytes())
	noStore(ctx, contentHTML)
	// The pages run nothing and load nothing, whatever a tag is named.
	ctx.Response.Header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return nil
}
