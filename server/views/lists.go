package views

import (
	"bytes"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/fair"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
)

// Bounds of the answers with a size that depends on how many tags or workers there are.
const (
	// pageRows is how many rows a page has, and the largest limit that a client may name.
	pageRows = 1000
	// maxLists is how many of these answers are made at once, on each surface: two of
	// them left a machine of two processors none for IDs. maxCommon bounds those that are
	// the same for all clients, which are nearly always made already.
	maxLists  = 1
	maxCommon = 2
	// pauseFactor is how many times as long as a list took to be read or made, none is made after it.
	pauseFactor = 4
	// leastPause is how long a turn is blocked at least after its use: what is there already is sent as often
	// as each client could read it, and would leave nothing of the machine.
	leastPause = 4 * time.Millisecond
	// maxUnreadLists is how many bytes of these answers wait for their clients, on each
	// surface: less where Config.Memory is little.
	maxUnreadLists = 64 << 20
)

// lists are the turns at answers from whole lists, of a surface. They keep:
//
//  1. At most maxLists such answers are made at once, beside maxCommon of those that are the same for all
//     clients, and made once. A request beyond them waits for its turn, adminTimeout at most: people would
//     rather wait than ask again. After use a turn is blocked for four times its length, 4 ms to 30 s, so
//     that lists take less than half of one processor, however many ask: the processors are there for IDs.
//     Operators have turns of their own, on the admin surface. The turns of what is the same for all come
//     soon, also to a crowd, and while others ask for answers that take long to make.
//  2. No such answer has more than pageRows rows; a cursor tells where the next
//     page begins.
//  3. What a large answer takes is counted until its client has taken it or its
//     connection has ended, which Config.WriteTimeout bounds. Beyond maxUnreadLists, and
//     maxUnreadBatches for IDs, one that isn't read makes room for another, or that is refused (fair.Resource): a client
//     that doesn't read takes memory
//     from no other. What is the same for all clients is one text, and another each second
//     at most. A connection has one answer at a time, and connBuffer of the kernel each way.
//  4. What is ready made needs no such turn.
type lists struct{ own, common *fair.Turns }

// inTurn runs use in its turn.
func (s *Server) inTurn(ctx *fasthttp.RequestCtx, turns *fair.Turns, use func() error) error {
	if !conn.Of(ctx.Conn()).Take(turns, s.ids.AddressOf(ctx), 1, adminTimeout, s.ending) {
		select {
		case <-s.ending:
			return reply.ErrDraining
		default:
		}
		s.ids.Shed(ids.ShedLists)
		return reply.ErrOverloaded.With("too many ask for lists at once")
	}
	began := time.Now()
	defer func() {
		time.AfterFunc(max(leastPause, min(pauseFactor*time.Since(began), mostPause)), func() { turns.Give(1) })
	}()
	return use()
}

// list answers with what build makes from a whole list.
func (s *Server) list(ctx *fasthttp.RequestCtx, contentType string, build func(v *Snapshot) ([]byte, error)) error {
	return s.inTurn(ctx, s.lists[conn.SurfaceOf(ctx.Conn())].own, func() error {
		text, err := build(s.Snapshot())
		if err != nil {
			return err
		}
		return s.answer(ctx, contentType, text)
	})
}

// common answers with what build makes of a Snapshot under name, for all that ask for it.
func (s *Server) common(ctx *fasthttp.RequestCtx, contentType, name string, build func(v *Snapshot) ([]byte, error)) error {
	return s.sharedText(ctx, contentType, func() ([]byte, error) {
		v := s.Snapshot()
		return v.text(name, func() ([]byte, error) { return build(v) })
	})
}

// sharedText answers with what find returns, which other requests are given too, and which is not changed afterwards.
func (s *Server) sharedText(ctx *fasthttp.RequestCtx, contentType string, find func() ([]byte, error)) error {
	return s.inTurn(ctx, s.lists[conn.SurfaceOf(ctx.Conn())].common, func() error {
		text, err := find()
		if err != nil {
			return err
		}
		reply.NoStore(&ctx.Response, contentType)
		ctx.Response.SetBodyRaw(text)
		return nil
	})
}

// answerReady answers with text that is ready made. To send it costs more than an ID: it takes a turn as requests that arrive
// together do, without a pause.
func (s *Server) answerReady(ctx *fasthttp.RequestCtx, contentType string, text []byte) error {
	conn.Of(ctx.Conn()).NextTurn()
	reply.NoStore(&ctx.Response, contentType)
	ctx.Response.SetBodyRaw(text)
	return nil
}

// listOf is list for what is the same for all without a query.
func (s *Server) listOf(ctx *fasthttp.RequestCtx, contentType string, build func(v *Snapshot) ([]byte, error)) error {
	if len(ctx.URI().QueryString()) > 0 {
		return s.list(ctx, contentType, build)
	}
	return s.common(ctx, contentType, string(ctx.Path()), build)
}

// answer answers with text, which may be large.
func (s *Server) answer(ctx *fasthttp.RequestCtx, contentType string, text []byte) error {
	ctx.SetStatusCode(http.StatusOK)
	reply.NoStore(&ctx.Response, contentType)
	if len(text) <= ids.InlineBytes {
		ctx.Response.SetBodyRaw(text)
		return nil
	}
	c := conn.Of(ctx.Conn())
	bytesOf := s.unread[c.Surface()]
	if err := s.ids.Hold(c, bytesOf, s.ids.AddressOf(ctx), len(text)); err != nil {
		return err
	}
	ctx.Response.SetBodyStream(&unread{bytes.NewReader(text), c, bytesOf}, len(text))
	return nil
}

// unread is the text of an answer, which is counted until it is closed.
type unread struct {
	*bytes.Reader
	c  *conn.Conn
	of *fair.Resource
}

// Close counts the text no more. fasthttp calls it once, written or not.
func (u *unread) Close() error {
	u.c.LetGo(u.of)
	return nil
}

// page is the part of a list that a request asks for.
type page struct {
	after string // the cursor: what the page begins after; "": this is the first
	limit int
}

// pageOf reads ?after and ?limit; reply.ErrBadRequest.
func pageOf(ctx *fasthttp.RequestCtx) (page, error) {
	p := page{limit: pageRows}
	if given := ctx.QueryArgs().PeekMulti("limit"); len(given) > 0 {
		n, ok := ids.ParseCount(given[0], pageRows)
		if len(given) > 1 || !ok {
			return p, reply.ErrBadRequest.With("limit is given once, as a number from 1 to %d", pageRows)
		}
		p.limit = n
	}
	given := ctx.QueryArgs().PeekMulti("after")
	if len(given) > 1 {
		return p, reply.ErrBadRequest.With("after is given once")
	}
	if len(given) == 1 {
		p.after = string(given[0])
	}
	return p, nil
}
