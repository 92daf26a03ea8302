// Package segment hands out small, growing 64-bit IDs, per tag, from ranges
// that it takes out of a table that many processes share.
//
// It is the segment mode of Meituan's Leaf ("Leaf: Meituan's distributed ID
// generation system", tech.meituan.com/2017/04/21/mt-leaf.html) on the Java
// Leaf's own table leaf_alloc, so that both can run on one table at once: a
// fetch adds a step to the row's max_id in one transaction and owns
// [max_id-step, max_id). One gap of the article is closed here: a table that went
// backwards (restored, failed over to a lagging replica, set back by hand) repeats
// nothing. With a Guard, which all daemons on the table share, no daemon uses a range
// that any other has used; without one, no range that this daemon has used. The table is moved forward.
//
// A Service keeps two buffers a tag. Serving an ID is one atomic add on the
// current range; when a tenth of it is used the next one is fetched in the
// background, so that clients don't notice a slow database, or one that is down
// for a while. A segment that lasts under 15 minutes doubles the step of the next
// fetch, one that lasts over 30 minutes halves it, never below the table's own; and
// a fetch asks for several times what requests wait for.
//
// # Invariants
//
// Those of a fetch stand in fetch.go, of the queue in queue.go, of a store that is away in outage.go, of the Guard in guarded.go,
// of look-ups in find.go, and of deleted tags in table.go. Beside them:
//
//   - A published range never changes, and each offset into it is handed out
//     at most once: the atomic add is on the offset, not on the ID, so that
//     overshooting a range near the end of int64 can't wrap into a repeat.
//   - An IDRange lies within one published range and is taken from it by one
//     add, as a single ID is: so it shares no ID with any other call, and costs the
//     same however many it has.
//   - At most one fetch of a tag is in flight.
//   - The hot path takes no lock, allocates nothing, and touches neither
//     Store, HighWater nor the clock.
//   - Nothing passes over the table: a tag is looked up when it is first asked for, and memory holds what is used.
//   - Nothing is kept over a stop: a restart leaves gaps.
//
// # Tags without a row
//
// A tag without a row is gone once there is a deletion mark, in the Guard or on this disk. Without one the table may have been
// swapped, restored or emptied by mistake: what is in memory is served to its end, then requests get ErrUnknownTag, and Troubles
// tells ErrRowMissing until the row is back or the mark is left.
//
// # Figures
//
// Tag.Status and Service.Used tell how many IDs of a tag were handed out, at what rate,
// and how long what is in memory lasts. They cost the hot path nothing: a range
// itself records how far it is used.
//
// The package logs nothing: it calls Config.Notify at every event.
package segment
