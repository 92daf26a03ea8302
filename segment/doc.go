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
// that any other has used, and the table is moved forward. Without one a daemon refuses
// what lies below the values that it has seen itself.
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
// They are kept in span.go, fetch.go and wait.go, and tests try to break each.
//
//	marked-before-use  A range is used only after HighWater.Raise(tag, Hi) returned nil, so that
//	    a restart knows of every ID that may have been handed out; with a Guard
//	    after its write too, high-mark-decides in guarded.go.
//	never-below-seen  A range that starts below the highest value ever seen for its tag (the
//	    mark, every range of our own, every max_id that a pass over the table
//	    has shown, every high mark read) is never used. That value is the floor given to
//	    Store.Fetch, and what comes back is checked against it again.
//	-  A published range never changes, and each offset into it is handed out
//	    at most once: the atomic add is on the offset, not on the ID, so that
//	    overshooting a range near the end of int64 can't wrap into a repeat.
//	-  An IDRange lies within one published range and is taken from it by one
//	    add, as a single ID is: so it shares no ID with any other call, and costs the
//	    same however many it has.
//	-  At most one fetch of a tag is in flight.
//	-  The hot path takes no lock, allocates nothing, and touches neither
//	    Store, HighWater nor the clock.
//
// # The end of a service
//
// Keep returns what is left of the ranges, and Adopt has another service go on with
// it: rest.go has the invariants.
//
// # Tags that go and come back
//
// A tag is unknown once two passes over the table agree that its row is gone (load.go
// has the invariants); what was left of its range in memory is
// dropped (a gap). When the row comes back the
// tag starts again, with the highest value that was ever seen for it as floor: a
// row recreated below it is moved forward where there is a Guard, and refused
// (ErrRegressed) until max_id is raised where there is none.
// What this process saw but never used is remembered until the process ends;
// HighWater remembers what it used for good.
//
// # Figures
//
// Status and Used tell how many IDs of a tag were handed out, at what rate,
// and how long what is in memory lasts. They cost the hot path nothing: a range
// itself records how far it is used. counters.go has the invariants.
// A goroutine of Run looks at the tags in use every second, for the rates.
//
// The package logs nothing: it calls Config.Notify at every change of state.
package segment
