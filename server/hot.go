package server

import (
	"bytes"
	"io"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
)

var (
	headerCacheControl = []byte(fasthttp.HeaderCacheControl) //nolint:gochecknoglobals // never written to
	valueNoStore       = []byte("no-store")                  //nolint:gochecknoglobals // never written to
)

const (
	contentText = "text/plain; charset=utf-8"
	contentJSON = "application/json"
	contentHTML = "text/html; charset=utf-8"

	allowIDs = "GET, HEAD, OPTIONS, POST"
)

// handle answers every request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer s.recovered(ctx)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	target := ctx.Request.Header.RequestURI()
	if target[0] != '/' {
		target = originForm(ctx)
	}
	m, rest := matchIDs(target)
	if m == noMode {
		s.slow(ctx)
		return
	}
	if err := s.serveIDs(ctx, m, rest); err != nil {
		s.fail(ctx, err)
	}
}

// originForm returns path and query of a request target in absolute form, as
// proxies send it.
func originForm(ctx *fasthttp.RequestCtx) []byte {
	target := bytes.Clone(ctx.URI().PathOriginal())
	if q := ctx.URI().QueryString(); len(q) > 0 {
		target = append(append(target, '?'), q...)
	}
	return target
}

// serveIDs answers a request for IDs. It keeps:
//
//	server.I1  An ID is requested only once nothing in the request can be refused any
//	    more, so that bad input consumes nothing.
//	server.I2  An ID is in one response at most: none is kept, and none is issued
//	    again when a client disconnects before it has read it.
//	server.I3  Every response with IDs says no-store: a cached ID is a duplicate.
func (s *Server) serveIDs(ctx *fasthttp.RequestCtx, m mode, rest []byte) error {
	get := ctx.IsGet()
	if !get && !ctx.IsHead() && !ctx.IsPost() {
		return s.refuseMethod(ctx, rest)
	}
	key, query, err := splitKey(rest)
	if err != nil {
		return err
	}
	b := s.backend.Load()
	if b == nil {
		return s.notStarted()
	}
	if (m == snowflakeMode && b.Snowflake == nil) || (m == segmentMode && b.Segments == nil) {
		return errModeDisabled
	}
	settings := s.live.Load()
	n, ok := parseCount(query, settings.maxBatch)
	if !ok {
		return errBadCount.with("n is given once, as a number from 1 to %d", settings.maxBatch)
	}
	if m == segmentMode {
		if stop := b.Stopped.Get(key); stop != nil {
			return stopped(stop)
		}
	}
	asJSON := wantsJSON(&ctx.Request.Header)
	if !get && ctx.IsHead() {
		return headIDs(ctx, b, m, key, asJSON)
	}
	if settings.rates != nil {
		if err := s.overload.charge(m, key, max(n, 1), clock.MonoOf(ctx.Time()), settings); err != nil {
			return err
		}
	}
	if n > 0 {
		return s.serveBatch(ctx, b, m, key, n, asJSON)
	}
	c, _ := ctx.Conn().(*conn)
	var id int64
	if m == snowflakeMode {
		id, err = b.Snowflake.NextAt(s.base, clock.MonoOf(ctx.Time()))
	} else if id, ok = b.Segments.Try(key, c.lastTag()); !ok {
		id, err = s.awaitRange(b, key, settings)
	}
	if err != nil {
		s.metrics.latency.refuse(ctx, m, false)
		return err
	}
	// The content type is fasthttp's default, contentText, but where JSON is asked for: a
	// number is that as it stands, and what clients of the Java Leaf read.
	if asJSON {
		ctx.Response.Header.SetContentType(contentJSON)
	}
	ctx.Response.Header.SetCanonical(headerCacheControl, valueNoStore) // server.I3
	setID(ctx, c, id)
	s.metrics.latency.one(ctx, m)
	return nil
}

// setID makes id the response's body, in the memory of its conn if it has one: fasthttp
// copies from it before it reads the next request.
func setID(ctx *fasthttp.RequestCtx, c *conn, id int64) {
	if c != nil {
		ctx.Response.SetBodyRaw(strconv.AppendInt(c.digits[:0], id, 10))
		return
	}
	var digits [maxDigits]byte
	ctx.Response.AppendBody(strconv.AppendInt(digits[:0], id, 10))
}

// refuseMethod answers OPTIONS, and refuses every other method.
func (s *Server) refuseMethod(ctx *fasthttp.RequestCtx, rest []byte) error {
	if _, _, err := splitKey(rest); err == errNotFound { //nolint:errorlint // splitKey returns it as it is
		return err
	}
	ctx.Response.Header.Set(fasthttp.HeaderAllow, allowIDs)
	if ctx.IsOptions() {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return nil
	}
	return errMethodNotAllowed
}

// notStarted is the answer while there is no backend.
func (s *Server) notStarted() error {
	if s.draining.Load() {
		return errDraining
	}
	return errStarting
}

// headIDs answers HEAD with the headers of a GET; it uses no ID.
func headIDs(ctx *fasthttp.RequestCtx, b *Backend, m mode, key []byte, asJSON bool) error {
	if m == segmentMode {
		if err := b.Segments.Check(key); err != nil {
			return err
		}
	}
	if asJSON {
		noStore(ctx, contentJSON)
	} else {
		noStore(ctx, contentText)
	}
	return nil
}

// noStore sets the content type, and forbids to cache the response.
func noStore(ctx *fasthttp.RequestCtx, contentType string) {
	ctx.Response.Header.SetContentType(contentType)
	ctx.Response.Header.SetCanonical(headerCacheControl, valueNoStore)
}

// inlineBytes is the size up to which a batch is copied into the response's own
// buffer, which lives as long as its connection.
const inlineBytes = 4 << 10

// pooledBytes is the size up to which each of a batch's buffers is reused.
const pooledBytes = 1 << 20

// batch is the text of one response's IDs. A large one is the response's body stream, so that
// its buffer returns to the pool once it is written: memory grows with the responses
// being written, not with connections.
type batch struct {
	s       *Server
	text    []byte
	read    int   // of text
	counted int64 // in the gate of unread batches (server.P3)
}

// batchIDs are the IDs of a batch until they are its text.
type batchIDs struct{ ids []int64 }

// textBytes is at least what the text of n IDs takes.
func textBytes(n int, asJSON bool) int {
	if asJSON {
		return len(`{"ids":[]}`) + n*(maxDigits+len(`"",`))
	}
	return n * (maxDigits + 1)
}

// serveBatch answers with n IDs, one a line or as JSON.
func (s *Server) serveBatch(ctx *fasthttp.RequestCtx, b *Backend, m mode, key []byte, n int, asJSON bool) error {
	if err := s.overload.enter(b, m, n, s.live.Load()); err != nil {
		s.metrics.latency.refuse(ctx, m, n > 1)
		return err
	}
	defer s.overload.leave(m, n)
	out, ok := s.batches.Get().(*batch)
	if !ok {
		out = &batch{s: s}
	}
	if err := out.fill(b, m, key, n, asJSON); err != nil {
		s.metrics.latency.refuse(ctx, m, n > 1)
		out.release()
		return err
	}
	if asJSON {
		noStore(ctx, contentJSON)
	} else {
		noStore(ctx, contentText)
	}
	if n == 1 {
		s.metrics.latency.one(ctx, m)
	} else {
		s.metrics.latency.many(ctx, m, n)
	}
	if out.counted == 0 {
		ctx.Response.AppendBody(out.text)
		out.release()
		return nil
	}
	ctx.Response.SetBodyStream(out, len(out.text))
	return nil
}

// fill makes the text of n IDs, and counts it where it is large (server.P3), before any ID is
// used (server.O1).
func (b *batch) fill(from *Backend, m mode, key []byte, n int, asJSON bool) error {
	s := b.s
	if size := textBytes(n, asJSON); size > inlineBytes {
		if !s.overload.unread[unreadBatches].Enter(int64(size), maxUnreadBatches) {
			s.overload.shed[shedUnread].Inc()
			return errOverloaded.with("%d MiB of IDs are not read yet", maxUnreadBatches>>20)
		}
		b.counted = int64(size)
		b.text = slices.Grow(b.text, size)
	}
	list, ok := s.batchIDs.Get().(*batchIDs)
	if !ok {
		list = new(batchIDs)
	}
	if cap(list.ids) < n {
		list.ids = make([]int64, n)
	}
	ids := list.ids[:n]
	var err error
	if m == snowflakeMode {
		err = from.Snowflake.NextN(s.base, ids)
	} else {
		err = from.Segments.NextN(s.base, key, ids)
	}
	if err != nil {
		return err
	}
	if asJSON {
		b.json(ids)
	} else {
		b.lines(ids)
	}
	if 8*cap(list.ids) <= pooledBytes {
		s.batchIDs.Put(list)
	}
	return nil
}

// lines writes the IDs, one a line.
func (b *batch) lines(ids []int64) {
	for _, id := range ids {
		b.text = append(strconv.AppendInt(b.text, id, 10), '\n')
	}
}

// json writes the IDs as strings: JavaScript's numbers end at 2^53.
func (b *batch) json(ids []int64) {
	b.text = append(b.text, `{"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			b.text = append(b.text, ',')
		}
		b.text = append(strconv.AppendInt(append(b.text, '"'), id, 10), '"')
	}
	b.text = append(b.text, ']', '}')
}

// Read is io.Reader, for fasthttp's interface; WriteTo is what it calls.
func (b *batch) Read(p []byte) (int, error) {
	if b.read == len(b.text) {
		return 0, io.EOF
	}
	n := copy(p, b.text[b.read:])
	b.read += n
	return n, nil
}

// WriteTo writes what is left in one go.
func (b *batch) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.text[b.read:])
	b.read += n
	return int64(n), err
}

// Close releases the buffers. fasthttp calls it once, written or not.
func (b *batch) Close() error {
	b.release()
	return nil
}

func (b *batch) release() {
	b.s.overload.unread[unreadBatches].Leave(b.counted)
	if cap(b.text) > pooledBytes {
		return
	}
	b.text, b.read, b.counted = b.text[:0], 0, 0
	b.s.batches.Put(b)
}
