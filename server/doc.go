// Package server is leafd's HTTP side, and the only user of fasthttp: routes,
// bodies, the error table, health, metrics, and the connections' time-outs.
//
// A request for IDs takes the hot path (hot.go): its own match on the raw
// request target, one call of the generator or the tag, the decimal in the body.
// It takes no lock and allocates nothing. Everything else goes through a router.
//
// Nothing of a fasthttp.RequestCtx is kept after its handler returned, and what
// lies below gets Config.Base as its context: a RequestCtx is seen as cancelled
// as soon as a shutdown starts, while requests in flight are still to be answered.
package server
