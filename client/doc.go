// Package client takes IDs from leafd daemons over HTTP, in batches fetched ahead in
// the background, so that most calls of Next touch no network:
//
//	c, err := client.New(client.Config{Addresses: []string{"http://10.0.0.5:8080", "http://10.0.0.6:8080"}})
//	orders := c.Snowflake("order")
//	id, err := orders.Next(ctx)
//
// It keeps:
//
//  1. An ID is handed out once: every ID of a response has one place in one
//     batch, and a place is taken by one atomic addition or under the lock.
//  2. No ID of a response is handed out before the response was read whole and
//     checked: as many IDs as were asked for, first-last a line, each an int64
//     from 0 in decimal, growing. A response that fails this is dropped whole.
//  3. A response is used once: a request is a POST, says no-store, and follows no
//     redirect; a response that has an Age header,
//     or begins with an ID that a recent one began with, comes from a cache and
//     is refused.
//  4. A retry is a new request. What the earlier one may still bring is never used.
//  5. At most Config.MaxAhead IDs of a source are fetched and not handed out. A
//     crash, or Close, loses no more than these; they are never used.
//  6. A snowflake ID is handed out at most Config.MaxAge after the request that
//     brought it was sent. Older ones are dropped.
//  7. A failure of the daemons reaches a caller only where waiting can't help: an
//     answer that means the same from every daemon (an unknown tag). All other
//     requests are tried again, at other daemons first, for as long as the
//     caller's context lasts.
//  8. Each source has the daemons in a random order of its own, and asks the
//     first of them that can be asked: a failure moves a request, and once its
//     home, the first, is back the source is there again. So daemons have equal
//     shares of the sources, after a rolling restart too. Each address of a name is a
//     daemon.
//
// With Config.Lease, Next makes snowflake IDs of a slice, by the rules B1 to B7 beside the types slice and borrower.
//
// IDs of one source grow while one daemon gives them, in the order in which Next
// returned where calls follow each other. IDs of several daemons interleave.
//
// The package imports the standard library only.
package client
