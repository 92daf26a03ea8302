package views

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/resp"
)

// serveMetrics answers GET /metrics. Each format has its own scrapes.
func (s *Server) serveMetrics(ctx *fasthttp.RequestCtx) error {
	format := expfmt.NegotiateAccept(http.Header{"Accept": {string(ctx.Request.Header.Peek(fasthttp.HeaderAccept))}}, expfmt.DefaultAcceptedFormats()...)
	known, _ := s.scrapes.LoadOrStore(format, &kept[[]byte]{every: scrapeShare, pause: pauseFactor})
	scrapes, _ := known.(*kept[[]byte])
	return s.sharedText(ctx, string(format), func() ([]byte, error) {
		r, err := scrapes.get(s, s.generation(), func() ([]byte, error) { return scrape(s.cfg.Registry, format) })
		return r.value, err
	})
}

// scrapeShare is how old a scrape may be.
const scrapeShare = 100 * time.Millisecond

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

// Info returns the answer to an INFO of the Redis protocol; without counts, if it isn't whole.
func (s *Server) Info(whole bool) []byte {
	v := s.Snapshot()
	text, _ := v.text(fmt.Sprint("INFO ", whole), func() ([]byte, error) { return s.info(v, whole), nil }) // it has no error
	return text
}

// info makes the text of an INFO; without counts, if it isn't whole.
func (s *Server) info(v *Snapshot, whole bool) (b []byte) {
	_, failed := v.readiness(v.plain())
	b = fmt.Appendf(b, "# Server\r\nredis_version:%s\r\nserver_name:leafd\r\nleafd_version:%s\r\nredis_mode:standalone\r\nprocess_id:%d\r\nuptime_in_seconds:%d\r\n",
		resp.Compatible, v.Version, os.Getpid(), v.Uptime/1000)
	if failed == nil {
		b = append(b, "ready:1\r\n"...)
	} else {
		b = fmt.Appendf(b, "ready:0\r\nnot_ready:%s %s\r\n", failed.Redis(), failed.Message)
	}
	b = fmt.Appendf(b, "\r\n# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n", s.admission.Open(conn.Redis), s.cfg.MaxConns)
	loading := 0 // clients wait while it is 1
	if v.backend == nil {
		loading = 1
	}
	b = fmt.Appendf(b, "\r\n# Persistence\r\nloading:%d\r\n", loading)
	b = append(b, "\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"...)
	if !whole {
		return b
	}
	b = fmt.Appendf(b, "\r\n# Stats\r\nsnowflake_ids_issued:%d\r\nsegment_ids_issued:%d\r\n\r\n# Errorstats\r\n", v.Issued["snowflake"], v.Issued["segment"])
	for code, n := range s.RedisCounts {
		b = fmt.Appendf(b, "errorstat_%s:count=%d\r\n", code, n)
	}
	return b
}
