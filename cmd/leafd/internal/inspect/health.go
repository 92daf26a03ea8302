package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// Daemon is a live daemon, as GET /readyz of its address has it.
type Daemon struct {
	WorkerID *int64 `json:"worker_id,omitempty"`
	Node     string `json:"node,omitempty"`
	Address  string `json:"address"`
	Status   string `json:"status"` // ready, degraded, not_ready, or no_answer
	Code     string `json:"code,omitempty"`
	Message  string `json:"message,omitempty"`
}

// The status of a daemon: what GET /readyz says, or that it gave no answer.
const (
	ready    = "ready"
	degraded = "degraded"
	notReady = "not_ready"
	noAnswer = "no_answer"
)

// readyBytes is more than a daemon's readiness has.
const readyBytes = 64 << 10

// AskReadiness asks each live daemon that tells an address whether it is ready, all at once.
func AskReadiness(ctx context.Context, dir *zkreg.Directory, client *peerclock.Client) ([]Daemon, error) {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return nil, err
	}
	live, err := dir.Live(ctx)
	if err != nil {
		return nil, err
	}
	daemons := []Daemon{}
	var addresses []string
	for _, p := range joinPeers(live, entries, nil) {
		d := Daemon{Node: p.node, Address: p.Address}
		if p.WorkerID != worker.NoWorkerID {
			d.WorkerID = new(p.WorkerID)
		}
		daemons, addresses = append(daemons, d), append(addresses, p.Address)
	}
	for i, a := range client.Fetch(ctx, addresses, "/readyz", readyBytes) {
		daemons[i].Status, daemons[i].Code, daemons[i].Message = readiness(a)
	}
	return daemons, nil
}

// readiness reads the answer of /readyz, from a sender that is not trusted.
func readiness(a peerclock.Answer) (status, code, message string) {
	var r server.Readiness
	switch {
	case a.Err != nil:
		return noAnswer, "", a.Err.Error()
	case json.Unmarshal(a.Body, &r) != nil || !slices.Contains([]string{ready, degraded, notReady}, r.Status):
		return noAnswer, "", "what answers there is no leafd"
	case r.Code == "" && len(r.Conditions) > 0:
		r.Code, r.Message = r.Conditions[0].Code, r.Conditions[0].Message
	}
	return r.Status, r.Code, r.Message
}

// NotGood says what is not good about a cluster; nothing where all is.
func NotGood(s zkreg.Status, parent string, daemons []Daemon, now clock.Millis) []string {
	bad := []string{}
	if s.Parent != zkreg.ParentRecorded {
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
	for _, kind := range []struct{ status, words string }{{notReady, "not ready"}, {noAnswer, "without an answer"}} {
		if n := len(failing[kind.status]); n > 0 {
			bad = append(bad, fmt.Sprintf("%d of %d live daemons %s: %s", n, s.Live, kind.words, strings.Join(failing[kind.status], ", ")))
		}
	}
	return bad
}
