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

// AskReadiness returns a summary for each worker ID that a daemon has to serve now: one that is live, or that was not released
// and may issue IDs still. Each live daemon is asked at its address, all at once. The status of the others is the state of
// their entry. It returns the registry's error.
func AskReadiness(ctx context.Context, dir Directory, client *peerclock.Client, now clock.Millis) ([]views.Summary, error) {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return nil, err
	}
	var daemons []views.Summary
	var asked []string
	for _, e := range entries {
		switch w := views.InfoOf(e, now); {
		case w.State == views.WorkerLive && w.Address == "": // whether it is ready isn't known, which is no reason to say so
			daemons = append(daemons, views.Summary{WorkerID: &w.ID, Node: w.Node, Status: views.NoAnswer, Message: "it tells no address to ask it at"})
		case w.State == views.WorkerLive:
			asked = append(asked, w.Address)
			daemons = append(daemons, views.Summary{WorkerID: &w.ID, Node: w.Node, Address: w.Address, Status: w.State})
		case w.State == views.WorkerDamaged:
			daemons = append(daemons, views.Summary{WorkerID: &w.ID, Status: w.State, Message: "its entry can't be read"})
		case w.State != views.WorkerReleased && w.Limit > now:
			daemons = append(daemons, views.Summary{WorkerID: &w.ID, Node: w.Node, Address: w.Address, Status: w.State, Message: fmt.Sprintf("it may issue IDs up to %s", w.Limit)})
		}
	}
	answers := client.Fetch(ctx, asked, views.SummaryPath, views.SummaryBytes)
	for i, d := range daemons {
		if d.Status == views.WorkerLive {
			daemons[i] = views.SummaryOf(views.PeerAnswer{Address: d.Address, Body: answers[0].Body, Err: answers[0].Err})
			daemons[i].WorkerID, daemons[i].Node = d.WorkerID, cmp.Or(d.Node, daemons[i].Node)
			answers = answers[1:]
		}
	}
	return daemons, nil
}

// ParentOf returns the state of the znode of the worker IDs, for programs, and what is wrong with it.
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

// NotGood returns what is not good about a cluster, in words; nothing where all is.
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
	for _, kind := range []struct{ status, words string }{
		{views.NotReady, "/readyz fails at %s"},
		{views.NoAnswer, "no answer came from %s"},
		{views.WorkerNotLive, "%s may issue and is not live: start it again, or leafd worker release with --force if it is gone for good"},
		{views.WorkerSettling, "%s settles and issues nothing yet: wait, or start it again"},
		{views.WorkerDamaged, "%s has an entry that can't be read: start its daemon, which writes it again"},
	} {
		var failing []string
		for _, d := range daemons {
			if d.Status == kind.status {
				failing = append(failing, strings.TrimSpace(fmt.Sprintf("worker %d %s", *d.WorkerID, d.Address)))
			}
		}
		if len(failing) > 0 {
			bad = append(bad, fmt.Sprintf(kind.words, strings.Join(failing, ", ")))
		}
	}
	return bad
}
