package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/zkreg"
)

// Member is a daemon of a cluster: live, or missing as far as that can be seen.
type Member struct {
	Live     bool   `json:"live"`
	WorkerID *int64 `json:"worker_id,omitempty"`
	Node     string `json:"node,omitempty"`
	Address  string `json:"address,omitempty"`
	Found    string `json:"found"`
}

// CallRoll returns the members of the cluster of root s, those that are missing last. Missing are the
// holders of worker IDs that are not live while their pieces last; worker IDs below the greatest that
// have no entry, since ZooKeeper gave them out in order; and those of known, the addresses of before,
// at which no live daemon is. Each is asked over HTTP: one that answers runs, and is cut off from
// ZooKeeper. It returns the registry's error.
func CallRoll(ctx context.Context, dir *zkreg.Directory, s zkreg.Status, prober clock.Prober, known []string, wall func() clock.Millis) ([]Member, error) {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return nil, err
	}
	var back, missing []Member
	next, now := int64(0), wall()
	for _, e := range entries {
		if next < e.WorkerID {
			missing = append(missing, Member{WorkerID: new(next), Found: fmt.Sprintf("no entry for worker IDs %d to %d: daemons that had them are not back", next, e.WorkerID-1)})
		}
		next = e.WorkerID + 1
		w := views.InfoOf(e, now)
		switch m := memberOf(w, now); {
		case m.Live:
			back = append(back, m)
		case w.State != views.WorkerReleased && !w.Free(now):
			missing = append(missing, m)
		}
	}
	for _, address := range slices.Concat(known, s.Known) {
		shown := func(m Member) bool { return m.Address == address }
		if !slices.ContainsFunc(back, shown) && !slices.ContainsFunc(missing, shown) {
			missing = append(missing, Member{Address: address, Found: "live before, and not now"})
		}
	}
	ask(ctx, prober, missing, s.Cluster)
	return append(back, missing...), nil
}

// memberOf returns the holder of an entry. A Java Leaf is never in the live set.
func memberOf(w Worker, now clock.Millis) Member {
	m := Member{WorkerID: &w.ID, Node: w.Node, Address: w.Address, Live: w.State == views.WorkerLive || w.State == views.WorkerForeign && now.Sub(w.Timestamp) < time.Minute}
	m.Found = fmt.Sprintf("%s, last report %s", strings.ReplaceAll(w.State, "_", " "), w.Timestamp)
	if w.Limit > 0 {
		m.Found += fmt.Sprintf(", may issue up to %s", w.Limit)
	}
	return m
}

// HolderOf returns the daemon that has w, asked whether it runs.
func HolderOf(ctx context.Context, prober clock.Prober, w Worker, now clock.Millis) []Member {
	holder := []Member{memberOf(w, now)}
	ask(ctx, prober, holder, "")
	return holder
}

// ask adds to what was found what the daemons at the members' addresses say.
func ask(ctx context.Context, prober clock.Prober, members []Member, cluster string) {
	addresses := make([]string, len(members))
	for i, m := range members {
		addresses[i] = m.Address
	}
	samples := prober.Probe(ctx, addresses)
	for i := range members {
		switch m, sample := &members[i], samples[i]; {
		case m.Address == "": // none was asked
		case sample.Err != nil:
			m.Found += "; no leafd answers at its address"
		case sample.Cluster != "" && (cluster == "" || sample.Cluster == cluster):
			m.Found += fmt.Sprintf("; A DAEMON RUNS THERE, and issues as worker %d", sample.WorkerID)
		default:
			m.Found += "; a daemon runs there, and issues nothing for this cluster"
		}
	}
}

// KnownCluster returns an error where a daemon is known to belong to a cluster: by the record in one
// of dirs, or by what the daemons at addresses say. What can't be found out is an error too.
func KnownCluster(ctx context.Context, dirs []string, prober clock.Prober, addresses []string) error {
	belongs := func(at, cluster string, workerID int64, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("it is not known whether the daemon at %s belongs to a cluster: %w; leave it out where it is gone for good", at, err)
		case cluster != "":
			return fmt.Errorf("the daemon at %s belongs to cluster %s, as worker %d: start it, let it reach ZooKeeper, and it puts that cluster back. A new one in its place gives its worker IDs out again. "+
				"Only where every daemon of that cluster is gone for good: remove its data directory first", at, cluster, workerID)
		}
		return nil
	}
	for _, dir := range dirs {
		record, err := LocalRecord(dir)
		if err = belongs(dir, record.Cluster, record.WorkerID, err); err != nil {
			return err
		}
	}
	for _, s := range prober.Probe(ctx, addresses) {
		if err := belongs(s.Address, s.Cluster, s.WorkerID, s.Err); err != nil {
			return err
		}
	}
	return nil
}
