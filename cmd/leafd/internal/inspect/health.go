package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/zkreg"
)

// AskReadiness asks each live daemon that tells an address whether it is ready, all at once.
func AskReadiness(ctx context.Context, dir *zkreg.Directory, client *peerclock.Client) ([]views.Summary, error) {
	live, err := liveWorkers(ctx, dir)
	if err != nil {
		return nil, err
	}
	addresses := make([]string, len(live))
	for i, w := range live {
		addresses[i] = w.Address
	}
	daemons := make([]views.Summary, len(live))
	for i, a := range client.Fetch(ctx, addresses, views.SummaryPath, views.SummaryBytes) {
		daemons[i] = views.SummaryOf(views.PeerAnswer{Address: addresses[i], Body: a.Body, Err: a.Err})
		daemons[i].WorkerID, daemons[i].Node = &live[i].ID, cmp.Or(live[i].Node, daemons[i].Node)
	}
	return daemons, nil
}

// ParentOf is the state of the znode of the worker IDs, for programs, and what is wrong with it.
func ParentOf(s zkreg.Status) (state, wrong string) {
	switch {
	case s.Parent == 0:
		return "absent", "ABSENT: the next daemon that comes notes the loss"
	case s.Root.Parent == s.Parent:
		return "recorded", ""
	case s.Root.Parent == 0:
		return "not_recorded", "not recorded yet: leafd cluster init records it, or a daemon's start"
	default:
		return "other", "ANOTHER ONE than the recorded: the next daemon that comes notes the loss"
	}
}

// NotGood says what is not good about a cluster; nothing where all is.
func NotGood(s zkreg.Status, daemons []views.Summary, now clock.Millis) []string {
	bad := []string{}
	if state, words := ParentOf(s); state != "recorded" {
		bad = append(bad, "the znode of the worker IDs is "+words)
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
	for _, kind := range []struct{ status, words string }{{views.NotReady, "/readyz fails at"}, {views.NoAnswer, "no answer came from"}} {
		if n := len(failing[kind.status]); n > 0 {
			bad = append(bad, fmt.Sprintf("%s %d of %d live daemons: %s", kind.words, n, s.Live, strings.Join(failing[kind.status], ", ")))
		}
	}
	return bad
}
