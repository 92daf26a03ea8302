package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
)

// audit logs a change that was made as one line with audit=<action>, at every log
// level. before and after are the old and new values; nil is left out. Every change by
// HTTP is logged here.
func (s *Server) audit(ctx *fasthttp.RequestCtx, action, tag string, before, after zerolog.LogObjectMarshaler) {
	// A line without a level is not dropped by any log level.
	e := s.cfg.Log.WithLevel(zerolog.NoLevel).Str(zerolog.LevelFieldName, zerolog.LevelInfoValue)
	e = from(traced(e.Str("audit", action).Str("tag", tag), ctx), ctx.Conn()).Interface("who", ctx.UserValue(callerKey))
	if before != nil {
		e = e.Object("before", before)
	}
	if after != nil {
		e = e.Object("after", after)
	}
	e.Msg("changed by HTTP")
}

// auditRefused logs an unauthorized attempt. There can be thousands a second, so they
// are sampled.
func (s *Server) auditRefused(ctx *fasthttp.RequestCtx, why string) {
	from(traced(s.sampled.Warn().Str("audit", "refused"), ctx), ctx.Conn()).Bytes("method", ctx.Method()).Bytes("path", ctx.Path()).Msg(why)
}

// from adds the sender of a request: the address, user and process of a unix socket's
// peer, and the verified certificate.
func from(e *zerolog.Event, nc net.Conn) *zerolog.Event {
	e = e.Stringer("client", nc.RemoteAddr()).Stringer("surface", surfaceOf(nc))
	if uid, pid, ok := unixPeer(nc); ok {
		e = e.Uint32("uid", uid).Int32("pid", pid)
	}
	if cert := clientCertificate(nc); cert != nil {
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
	if certs := (*c).ConnectionState().PeerCertificates; len(certs) > 0 { // none is there that VerifyConnection refused
		return certs[0]
	}
	return nil
}

// beneath returns the connection of type T that nc is or wraps; nil if there is none.
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
