// Package server is leafd's HTTP side, and the only user of fasthttp: routes,
// bodies, the error table, health, metrics, and the connections' time-outs.
//
// A request for IDs takes the hot path (hot.go): a match on the raw request target,
// one call of the generator or the tag, and the decimal in the body. It takes no lock
// and allocates nothing. Every other request goes through a router.
//
// Nothing of a fasthttp.RequestCtx is retained after its handler has returned. The
// packages below get Config.Base as their context: a RequestCtx is cancelled as soon as
// a shutdown starts, while requests in flight are still to be answered.
package server
