package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
)

// audit logs a change that was made: one line with audit=<action>, whatever the
// level of the log. before and after are what the change replaced and what it
// made; nil is left out. Every change by HTTP goes through here.
func (s *Server) audit(ctx *fasthttp.RequestCtx, action, tag string, before, after zerolog.LogObjectMarshaler) {
	// Without a level of its own no level set for the log drops it.
	e := s.cfg.Log.WithLevel(zerolog.NoLevel).Str(zerolog.LevelFieldName, zerolog.LevelInfoValue)
	e = from(e.Str("audit", action).Str("tag", tag), ctx).Str("who", "admin token")
	if before != nil {
		e = e.Object("before", before)
	}
	if after != nil {
		e = e.Object("after", after)
	}
	e.Msg("changed by HTTP")
}

// auditRefused logs an attempt that had no right to change anything. There can be
// thousands a second: only some are logged.
func (s *Server) auditRefused(ctx *fasthttp.RequestCtx, why string) {
	from(s.sampled.Warn().Str("audit", "refused"), ctx).Bytes("method", ctx.Method()).Bytes("path", ctx.Path()).Msg(why)
}

// from adds who sent the request: its address, what the kernel says of the
// process behind a unix socket, and the certificate that was verified.
func from(e *zerolog.Event, ctx *fasthttp.RequestCtx) *zerolog.Event {
	e = e.Stringer("client", ctx.RemoteAddr()).Stringer("surface", surfaceOf(ctx))
	if uid, pid, ok := unixPeer(ctx.Conn()); ok {
		e = e.Uint32("uid", uid).Int32("pid", pid)
	}
	if cert := clientCertificate(ctx.Conn()); cert != nil {
		e = e.Stringer("certificate", cert.Subject).Stringer("serial", cert.SerialNumber)
	}
	return e
}

// clientCertificate returns the verified certificate of a client; nil if it has none.
func clientCertificate(nc net.Conn) *x509.Certificate {
	c := beneath[*tls.Conn](nc)
	if c == nil {
		return nil
	}
	if chains := (*c).ConnectionState().VerifiedChains; len(chains) > 0 {
		return chains[0][0]
	}
	return nil
}

// beneath returns the connection of type T that nc is, or stands on; nil if there is
// none.
func beneath[T net.Conn](nc net.Conn) *T {
	for nc != nil {
		if c, ok := nc.(T); ok {
			return &c
		}
		next, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = next.NetConn()
	}
	return nil
}

// rowLog is a row of leaf_alloc in the log.
type rowLog segment.Row

// MarshalZerologObject implements zerolog.LogObjectMarshaler.
func (r rowLog) MarshalZerologObject(e *zerolog.Event) {
	e.Int64("max_id", r.MaxID).Int64("step", r.Step).Str("description", r.Description)
}
