// Package loadtest asks for IDs as fast as it can, or at a given rate, measures how long the
// answers took, and checks whether the IDs keep leafd's promises. `leafd bench`, the soak, the
// measurements of fairness, the migration and chaos ask with it.
//
// Without a rate the loop is closed: each client asks again once it has its
// answer. What it measures is how much the daemon takes; a daemon that stalls is
// asked less, so that the latencies flatter it.
//
// With a rate the loop is open: request k has its turn k/rate after the start,
// whether or not the daemon has answered the ones before, and its latency counts
// from that turn. A request that missed its turn while all clients waited for
// answers is sent as soon as one is free, and counted from its turn all the same:
// a stall of a second shows as what it is to callers that had to wait (no
// "coordinated omission").
//
// Each client is a goroutine with a Conn of its own, which it reads with
// fasthttp's parser: a client with a pool would cost more than leafd's side of a
// request does, so that on one machine it would measure itself.
package loadtest
