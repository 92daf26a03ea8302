package doctor

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// theClock is the cause of what is refused for the clock.
const theClock = "the clock"

// cause names what a Fail comes from, where other checks can fail of the same; "" where it
// stands for itself.
func cause(r Result) string {
	var errno syscall.Errno
	late := errors.Is(r.Err, context.DeadlineExceeded)
	is := func(checks ...string) bool { return slices.Contains(checks, r.Check) }
	directory := is("data-dir", "data-sync", "data-lock", "marks", "segments", "record")
	registry := is("zookeeper", "zk-node", "zk-ids", "zk-rights", "peers")
	switch {
	case errors.Is(r.Err, worker.ErrClockRefused), is("layout"):
		return theClock
	case errors.Is(r.Err, syscall.EADDRINUSE): // it has all of them, as a rule
		return "the process that has the port"
	case directory && errors.As(r.Err, &errno):
		return "the data directory: " + errno.Error()
	case directory && late:
		return "the data directory"
	case registry && (late || errors.Is(r.Err, worker.ErrUnreachable)):
		return "ZooKeeper"
	case registry && errors.Is(r.Err, worker.ErrNoCluster):
		return "no cluster"
	case registry && errors.Is(r.Err, zkreg.ErrDenied):
		return "our rights"
	}
	return ""
}

// skipFollowing leaves of the Fails that have one cause the first, and makes the others Skips.
// results are in the order in which a start meets them.
func skipFollowing(results []Result) {
	first := map[string]string{} // the check, by cause
	for i := range results {
		r := &results[i]
		cause := cause(*r)
		if r.Status != Fail || cause == "" {
			continue
		}
		check, known := first[cause]
		if !known {
			first[cause] = r.Check
			continue
		}
		found := "because of " + check
		if cause == theClock { // the offset, and which check found it, matter
			found += ": " + r.Found
		}
		*r = Result{Check: r.Check, Status: Skip, Found: found}
	}
}
