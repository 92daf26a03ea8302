// Package ids serves IDs, by HTTP and in the Redis protocol, with one way to an ID for both: the caller
// (callers.go), what it asks (uri.go), where the IDs come from and what they are charged to (issue.go, overload.go).
//
// A request for IDs by HTTP takes the hot path (hot.go): a match on the raw request target,
// one call of the generator or the tag, and the decimal in the body. It takes no lock
// and allocates nothing. Every other request is given to Server.Rest.
//
// Nothing of a fasthttp.RequestCtx is retained after its handler has returned. The
// packages below get Config.Base as their context: a RequestCtx is cancelled as soon as
// a shutdown starts, while requests in flight are still to be answered.
package ids
