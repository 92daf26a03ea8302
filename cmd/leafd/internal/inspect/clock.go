package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// LocalRecord returns the record in dir, a zero one if there is none, and cache.Peek's other
// errors.
func LocalRecord(dir string) (worker.Record, error) {
	record, err := cache.Peek(dir) // a zero one with an error
	if errors.Is(err, worker.ErrNoRecord) {
		err = nil // --data-dir has a default
	}
	return record, err
}

// CheckedPeer is a daemon with a clock that this machine's is compared with.
type CheckedPeer struct {
	views.PeerClock
	WorkerID *int64 `json:"worker_id,omitempty"` // nil where the daemon was named
}

// ClockCheck is this machine's clock beside the peers' and the local record, as a start compares them.
type ClockCheck struct {
	Verdict   string              `json:"verdict"`             // one of those below
	Offset    *reply.Milliseconds `json:"offset_ms,omitempty"` // nil without an answer
	Threshold reply.Milliseconds  `json:"threshold_ms"`
	Estimator clock.Estimator     `json:"estimator"`
	Asked     int                 `json:"asked"`
	Answered  int                 `json:"answered"`
	Peers     []CheckedPeer       `json:"peers"`
	Said      string              `json:"-"` // by the peers, in words
	Warning   string              `json:"-"` // what could not be compared, or decided; "" where all was
	Refusal   error               `json:"-"` // of a start; nil where a daemon would start
}

// The verdicts on a clock, for programs.
const (
	Fine      = "fine"
	Undecided = "undecided" // no majority has this clock's time
	Unknown   = "unknown"   // no peer answered
	Refused   = "refused"
)

// CheckClock compares this machine's clock with those of the daemons named, else of the live ones, and
// with the record. The record's own daemon has this very clock, and is not asked. It returns the
// registry's error.
func (c Cluster) CheckClock(ctx context.Context, named []string, record worker.Record) (*ClockCheck, error) {
	prober, err := c.Prober()
	if err != nil {
		return nil, err
	}
	var peers []Worker
	for i, address := range named {
		if !slices.Contains(named[:i], address) {
			peers = append(peers, Worker{ID: worker.NoWorkerID, Address: address, State: views.WorkerLive})
		}
	}
	if len(named) == 0 {
		err = c.WithDirectory(ctx, func(ctx context.Context, dir *zkreg.Directory) error {
			peers, err = liveWorkers(ctx, dir)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%w; --peers host:port asks daemons without ZooKeeper", err)
		}
		peers = slices.DeleteFunc(peers, func(w Worker) bool { return w.Instance == record.Instance })
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	samples := AskOffsets(ctx, prober, peers)
	panel := clock.Panel{Estimator: c.Cfg.Clock.Estimator, Threshold: c.Cfg.Clock.Threshold}
	check := JudgeClock(panel, samples, record, c.Clock.Read().Wall())
	for i, s := range samples {
		peer := CheckedPeer{PeerClock: views.PeerClockOf(s)}
		if len(named) == 0 {
			peer.WorkerID = &peers[i].ID
		}
		check.Peers = append(check.Peers, peer)
	}
	return check, nil
}

// JudgeClock returns what a start would make of the peers' samples, and of the record.
func JudgeClock(panel clock.Panel, samples []clock.Sample, record worker.Record, now clock.Millis) *ClockCheck {
	v, said := panel.Judge(samples)
	c := &ClockCheck{
		Threshold: reply.Milliseconds(panel.Threshold), Estimator: panel.Estimator, Asked: v.Asked, Answered: v.Answered, Peers: []CheckedPeer{}, Said: said,
	}
	var why []string
	if v.Refuses(panel.Threshold, record.Cluster != "") {
		why = append(why, "it is "+said+": fix the clock (NTP)")
	}
	if behind := BehindRecord(record, now); behind != "" {
		why = append(why, behind)
	}
	if len(why) > 0 {
		c.Refusal = fmt.Errorf("%w: %s", worker.ErrClockRefused, strings.Join(why, "; and "))
	}
	if v.Answered > 0 {
		c.Offset = new(reply.Milliseconds(v.Offset))
	}
	switch c.Verdict = Unknown; {
	case v.Asked == 0:
		c.Warning = "no other daemon is live: there is no clock to compare with"
	case v.Answered == 0:
		c.Warning = fmt.Sprintf("none of the %d peers told its clock, and nothing was compared: %v", v.Asked, samples[0].Err)
	case c.Refusal == nil && clock.VoteOf(samples, panel.Threshold) != clock.Agree:
		c.Verdict = Undecided
		c.Warning = "clocks differ by the threshold or more, and no majority says which are wrong: a daemon starts here with an alarm; fix the clock that is wrong (NTP)"
	default:
		c.Verdict = Fine
	}
	if c.Refusal != nil {
		c.Verdict = Refused
	}
	return c
}

// BehindRecord returns by how much a clock is behind what r recorded, with which no daemon starts; ""
// where it isn't.
func BehindRecord(r worker.Record, now clock.Millis) string {
	if behind := r.Timestamp.Sub(now); behind > 0 {
		return fmt.Sprintf("it is %s behind the %s that worker %d recorded: fix the clock (NTP), or wait until it has caught up", behind, r.Timestamp, r.WorkerID)
	}
	return ""
}
