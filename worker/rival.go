package worker

import (
	"context"
	"fmt"

	"github.com/leafd/leafd/clock"
)

// errRival returns an error where another life tells that it issues in the cluster and under
// the worker ID of me, whose life began to issue at since (0: not yet). That rests on no
// registry: it is what can still be seen where two have one worker ID all the same, as on two
// ZooKeepers with one cluster's data. It keeps:
//
//	worker.U5  A life that finds another one in its place ends: in the registry (confirm,
//	    ErrFenced), or by what a peer tells. Of two lives that tell each other one worker
//	    ID it is the one that began later, by what both tell of that; at the same time, the
//	    one with the greater owner. A life that does not issue yet begins last. So one of
//	    them goes on. No other rule relies on this.
//	worker.A5  One answer ends nothing: the peer is asked again at once, and has to say the
//	    same again. A life that was displaced, or whose lease is over, tells no worker ID.
//
// Nothing checks that the peer tells the truth. A forger, who answers at an address in the
// live set (ZooKeeper's word), or sits on the way to one, can keep the daemons that ask it
// from issuing snowflake IDs for as long as it goes on. It makes no ID repeat, and costs no
// worker ID and no data directory. Verified peers (--tls-client-ca) need a certificate.
func (w *Worker) errRival(ctx context.Context, me Record, since clock.Millis, samples []clock.Sample) error {
	for _, s := range samples {
		if !isRival(s, me, since) {
			continue
		}
		again := w.probe(ctx, []string{s.Address}) // worker.A5
		if len(again) == 1 && again[0].Owner == s.Owner && isRival(again[0], me, since) {
			return fmt.Errorf("the daemon at %s, owner %s, has issued as worker %d of the same cluster since %s", s.Address, s.Owner, me.WorkerID, s.Since)
		}
	}
	return nil
}

// isRival tells whether the peer has the worker ID of me and goes before it (worker.U5).
func isRival(s clock.Sample, me Record, since clock.Millis) bool {
	if s.Err != nil || s.Since == 0 || s.Owner == "" || s.Owner == me.Owner || me.Cluster == "" || s.Cluster != me.Cluster || s.WorkerID != me.WorkerID {
		return false
	}
	return since == 0 || s.Since < since || s.Since == since && s.Owner < me.Owner
}
