package views

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"
)

// serveMetrics answers GET /metrics. Each format has its own scrapes.
func (s *Server) serveMetrics(ctx *fasthttp.RequestCtx) error {
	format := expfmt.NegotiateAccept(http.Header{"Accept": {string(ctx.Request.Header.Peek(fasthttp.HeaderAccept))}}, expfmt.DefaultAcceptedFormats()...)
	return s.common(ctx, string(format), func() ([]byte, error) {
		return s.text(string(format), textShare, func() ([]byte, error) { return scrape(s.cfg.Registry, format) })
	})
}

// scrape returns all metrics.
func scrape(from prometheus.Gatherer, format expfmt.Format) ([]byte, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering metrics: %w", err)
	}
	var page bytes.Buffer
	enc := expfmt.NewEncoder(&page, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return nil, fmt.Errorf("encoding metrics: %w", err)
		}
	}
	return page.Bytes(), nil
}
