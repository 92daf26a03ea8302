package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// LocalRecord returns the record in dir, a zero one where there is none, or it can't be read.
func LocalRecord(dir string) (worker.Record, error) {
	record, err := cache.Peek(dir)
	switch {
	case errors.Is(err, worker.ErrNoRecord): // no error here: --data-dir has a default
		return worker.Record{}, nil
	case err != nil:
		return worker.Record{}, err
	}
	return record, nil
}

// CheckedPeer is a daemon with a clock that this machine's is compared with.
type CheckedPeer struct {
	Address  string
	node     string // as its entry has it; "" where it has none, and for one of --peers
	WorkerID *int64 // nil as above
	Sample   clock.Sample
}

// peersToProbe returns the daemons named, else the live ones in ZooKeeper, at the addresses
// that a start asks, without the record's own daemon: it has this very clock, and would
// always agree.
func (c Cluster) peersToProbe(ctx context.Context, named []string, own worker.Record) ([]CheckedPeer, error) {
	var peers []CheckedPeer
	if len(named) > 0 {
		for i, address := range named {
			if !slices.Contains(named[:i], address) {
				peers = append(peers, CheckedPeer{Address: address})
			}
		}
		return peers, nil
	}
	err := c.WithDirectory(ctx, func(ctx context.Context, dir *zkreg.Directory) (err error) {
		peers, err = livePeers(ctx, dir, own)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; --peers host:port asks daemons without ZooKeeper", err)
	}
	return peers, nil
}

// livePeers returns the live nodes but own's, with what their entries tell, in the order of their
// worker IDs, those without one last.
func livePeers(ctx context.Context, dir *zkreg.Directory, own worker.Record) ([]CheckedPeer, error) {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return nil, err
	}
	live, err := dir.Live(ctx)
	live = slices.DeleteFunc(live, func(l worker.Peer) bool { return l.Instance == own.Instance })
	var peers []CheckedPeer
	for _, e := range entries {
		if i := slices.IndexFunc(live, func(l worker.Peer) bool { return l.Instance == e.Instance }); i >= 0 {
			peers = append(peers, CheckedPeer{Address: live[i].Address, node: e.Node, WorkerID: &e.WorkerID})
			live = slices.Delete(live, i, i+1)
		}
	}
	for _, l := range live {
		peers = append(peers, CheckedPeer{Address: l.Address})
	}
	return peers, err
}

// ClockCheck compares this machine's clock with the peers' and with the local record,
// as a start would.
type ClockCheck struct {
	Threshold time.Duration
	Estimator clock.Estimator
	Peers     []CheckedPeer
	Record    worker.Record // zero when there is none
	Verdict   clock.Verdict
	Vote      clock.Vote
	Now       clock.Millis
}

// CheckClock compares this machine's clock with those of the daemons named, else of the live ones, and
// with the record.
func (c Cluster) CheckClock(ctx context.Context, named []string, record worker.Record) (*ClockCheck, error) {
	check := &ClockCheck{Threshold: c.Cfg.Clock.Threshold, Estimator: c.Cfg.Clock.Estimator, Record: record}
	prober, err := c.Prober()
	if err != nil {
		return nil, err
	}
	if check.Peers, err = c.peersToProbe(ctx, named, record); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	check.Probe(ctx, prober, func() clock.Millis { return c.Clock.Read().Wall() })
	return check, nil
}

// Probe samples the peers' clocks, and makes one estimate of their samples.
func (c *ClockCheck) Probe(ctx context.Context, prober clock.Prober, wall func() clock.Millis) {
	addresses := make([]string, len(c.Peers))
	for i, p := range c.Peers {
		addresses[i] = p.Address
	}
	samples := prober.Probe(ctx, addresses)
	for i := range samples {
		p := &c.Peers[i]
		if p.node != "" {
			samples[i] = server.SampleOf(samples[i], p.node)
			samples[i].Node = p.node
		}
		p.Sample = samples[i]
	}
	c.Verdict = clock.Estimate(samples, c.Estimator)
	c.Vote = clock.VoteOf(samples, c.Threshold)
	c.Now = wall()
}

// Behind is how far the clock is behind the local record, 0 when it is not.
func (c *ClockCheck) Behind() time.Duration { return max(0, c.Record.Timestamp.Sub(c.Now)) }

// Wait is how long a start would wait for the recorded ceiling to pass.
func (c *ClockCheck) Wait() time.Duration { return max(0, c.Record.Ceiling.Sub(c.Now)) }

// Refusal is the error of a start with this clock, nil when a daemon would start.
func (c *ClockCheck) Refusal() error {
	var why []string
	if c.Verdict.Refuses(c.Threshold, c.Record.Cluster != "") {
		why = append(why, fmt.Sprintf("it is %s its peers' (%s of %d), and the threshold is %s: fix the clock (NTP)",
			FormatOffset(-c.Verdict.Offset), c.Estimator, c.Verdict.Answered, settings.Short(c.Threshold)))
	}
	if d := c.Behind(); d > 0 {
		why = append(why, fmt.Sprintf("it is %s behind the %s that worker %d recorded: fix the clock (NTP), or wait until it has caught up",
			d, c.Record.Timestamp, c.Record.WorkerID))
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", worker.ErrClockRefused, strings.Join(why, "; and "))
}

// Warning says what could not be compared, or decided; "" where all was.
func (c *ClockCheck) Warning() string {
	switch {
	case len(c.Peers) == 0:
		return "no other daemon is live: there is no clock to compare with"
	case c.Verdict.Answered == 0:
		return fmt.Sprintf("none of the %d peers told its clock, and nothing was compared: %v", len(c.Peers), c.Peers[0].Sample.Err)
	case c.Word() == Undecided:
		return "clocks differ by the threshold or more, and no majority says which are wrong: a daemon starts here with an alarm; fix the clock that is wrong (NTP)"
	}
	return ""
}

// The verdicts on a clock, for programs.
const (
	Fine      = "fine"
	Undecided = "undecided" // no majority has this clock's time
	Unknown   = "unknown"   // no peer answered
	Refused   = "refused"
)

// Word is the verdict for programs: one of the above.
func (c *ClockCheck) Word() string {
	switch {
	case c.Refusal() != nil:
		return Refused
	case c.Verdict.Answered == 0:
		return Unknown
	case c.Vote != clock.Agree:
		return Undecided
	default:
		return Fine
	}
}

// FormatOffset says how far a clock is off another: "8s ahead of".
func FormatOffset(d time.Duration) string {
	switch d = exact(d); {
	case d > 0:
		return d.String() + " ahead of"
	case d < 0:
		return (-d).String() + " behind"
	default:
		return "level with"
	}
}

// FormatSigned is an offset with its sign.
func FormatSigned(d time.Duration) string {
	if d = exact(d); d >= 0 {
		return "+" + d.String()
	}
	return d.String()
}

// exact is an offset as exact as clocks in milliseconds make it.
func exact(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
