// Package snowflake makes 63-bit IDs that grow with time and never repeat: a
// timestamp in milliseconds since an epoch, a worker ID that one process at a
// time holds, and a sequence within the millisecond. The scheme is Twitter's
// (2010); the default layout is bit for bit that of Meituan's Leaf
// (https://tech.meituan.com/2017/04/21/mt-leaf.html).
//
// A [Generator] is safe for concurrent use, takes no lock while the millisecond
// has IDs left, and keeps a [Fence]: it never issues an ID at or above the time
// that was recorded beforehand, so that a crash followed by a step of the
// clock can't repeat one.
//
// The package logs nothing and starts no goroutine.
package snowflake
