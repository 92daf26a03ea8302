package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// Daemon is a live daemon, by its entry and as GET /api/summary of its address has it.
type Daemon = server.Summary

// AskReadiness asks each live daemon that tells an address whether it is ready, all at once.
func AskReadiness(ctx context.Context, dir *zkreg.Directory, client *peerclock.Client) ([]Daemon, error) {
	peers, err := livePeers(ctx, dir, worker.Record{})
	if err != nil {
		return nil, err
	}
	addresses := make([]string, len(peers))
	for i, p := range peers {
		addresses[i] = p.Address
	}
	daemons := make([]Daemon, len(peers))
	for i, a := range client.Fetch(ctx, addresses, server.SummaryPath, server.SummaryBytes) {
		daemons[i] = server.SummaryOf(server.PeerAnswer{Address: addresses[i], Body: a.Body, Err: a.Err})
		daemons[i].WorkerID, daemons[i].Node = peers[i].WorkerID, cmp.Or(peers[i].node, daemons[i].Node)
	}
	return daemons, nil
}

// NotGood says what is not good about a cluster; nothing where all is.
func NotGood(s zkreg.Status, parent string, daemons []Daemon, now clock.Millis) []string {
	bad := []string{}
	if s.Parent == 0 || s.Parent != s.Root.Parent {
		bad = append(bad, "the znode of the worker IDs is "+parent)
	}
	if s.Floor > now {
		bad = append(bad, fmt.Sprintf("closed: ZooKeeper has lost data, and gives out no worker ID before %s to a daemon that did not have it; start every daemon that had one, then leafd cluster open ends that", s.Floor))
	}
	if s.Live == 0 && s.Entries > 0 {
		bad = append(bad, "no daemon is live")
	}
	failing := map[string][]string{}
	for _, d := range daemons {
		failing[d.Status] = append(failing[d.Status], d.Address)
	}
	for _, kind := range []struct{ status, words string }{{server.NotReady, "not ready"}, {server.NoAnswer, "without an answer"}} {
		if n := len(failing[kind.status]); n > 0 {
			bad = append(bad, fmt.Sprintf("%d of %d live daemons %s: %s", n, s.Live, kind.words, strings.Join(failing[kind.status], ", ")))
		}
	}
	return bad
}
