package inspect

import (
	"fmt"
	"strings"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// Verdict sums up what worker.Decide would have a daemon with a local record do, by what ZooKeeper
// has.
type Verdict string

// The verdicts, for programs.
const (
	Agrees       Verdict = "agrees"        // it reports, or resumes
	Lost         Verdict = "lost"          // ZooKeeper lost what it had acknowledged
	Copied       Verdict = "copied"        // another life of this instance has written there
	Taken        Verdict = "taken"         // another instance has the worker ID
	Released     Verdict = "released"      // given back, by its daemon or by an operator
	Ended        Verdict = "ended"         // its piece ends too soon, or has ended
	Claiming     Verdict = "claiming"      // a claim was not confirmed yet
	NoWorkerID   Verdict = "no_worker_id"  // the record has none of a cluster
	NoCluster    Verdict = "no_cluster"    // there is none yet
	OtherCluster Verdict = "other_cluster" // the root is another cluster's
	NotKnown     Verdict = "not_known"
)

// Judge returns what the daemon of record r and the settings zk does, or would do at its start, about what
// was found, and the same for people.
func Judge(r worker.Record, zk zkreg.Config, found worker.Snapshot, at worker.Moment) (Verdict, string) {
	e := found.Entry
	root, forever := zk.Places()
	if err := worker.CheckRoot(r, root, forever); err != nil {
		return OtherCluster, err.Error()
	}
	at.Strange = r.Strange(zk.Servers)
	if found.Root != nil && r.Cluster != "" && found.Root.Cluster != r.Cluster {
		return OtherCluster, fmt.Sprintf("the root is of another cluster, %s: see that --zk and --zk-root are right", found.Root.Cluster)
	}
	found.Granted = 0 // our session is not the daemon's
	const copied = "written by a process that this data directory doesn't know: there is a copy of the directory, or this one is a copy"
	starts := "a start claims another worker ID, or this one again"
	if at.Running {
		starts = "the daemon ends this life, and claims another worker ID"
	}
	switch worker.Decide(r, found, at) {
	case worker.Await:
		return NoCluster, "there is no cluster yet: leafd cluster status says more"
	case worker.Refuse:
		return OtherCluster, fmt.Sprintf("nothing is at the root, and the record knows it at %s alone: see that --zk is right", strings.Join(r.Servers, ","))
	case worker.Release:
		return Released, "given back at the last stop, which ZooKeeper does not know yet: a start writes that first"
	case worker.MakeRoot, worker.Repair, worker.NoteLoss, worker.PutBack:
		return Lost, fmt.Sprintf("ZooKeeper has lost what it had acknowledged: the daemon puts worker ID %d back while its limit lies ahead", r.WorkerID)
	case worker.Forget:
		return Lost, fmt.Sprintf("ZooKeeper has lost what it had acknowledged, and worker ID %d can't be put back any more: %s", r.WorkerID, starts)
	case worker.SetAside:
		return Copied, copied
	case worker.GiveUp, worker.Fence:
		switch {
		case e.Instance != r.Instance:
			return Taken, fmt.Sprintf("worker ID %d is another's: node %q has it, instance %s; %s", r.WorkerID, e.Node, e.Instance, starts)
		case e.State == worker.StateReleased:
			return Released, fmt.Sprintf("released by an operator: a new daemon takes it from %s on; %s", e.Bound(), starts)
		default:
			return Copied, copied
		}
	case worker.RunOut:
		return Ended, fmt.Sprintf("the piece ends too soon for a report to prolong it: the daemon goes on to %s, and claims a new one", r.AckedLimit)
	case worker.Enroll:
		switch {
		case r.State == "":
			return NoWorkerID, "the record has no worker ID of a cluster: a start claims one"
		case r.State == worker.RecordClaiming:
			return Claiming, fmt.Sprintf("worker ID %d is claimed, and nothing is issued under it yet", r.WorkerID)
		case e != nil && !r.Holds(*e):
			return Taken, fmt.Sprintf("given back, and node %q has worker ID %d now: a start claims another one", e.Node, r.WorkerID)
		case r.State == worker.RecordActive:
			return Ended, fmt.Sprintf("its limit has passed, or passes soon: a start claims a new piece of worker ID %d, or another worker ID", r.WorkerID)
		default:
			return Released, "given back at the last stop: a start claims it again where it is free, or another one"
		}
	default:
		return Agrees, "agrees with the local record"
	}
}
