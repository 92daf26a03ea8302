// Package zkreg is worker.Registry and segment.Guard on ZooKeeper. layout.go has every path and
// payload.go every payload; the client is zksession's.
package zkreg

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// DefaultSessionTimeout is Config's.
const DefaultSessionTimeout = 6 * time.Second

// settleBeyondSession is how much longer than a session a claim settles. After ZooKeeper
// lost its data, servers refuse the clients that have seen more than they know, until
// these give their sessions up: their timeout. Then each needs a report's time to put its
// worker ID back.
const settleBeyondSession = 10 * time.Second

// Config is what a Registry needs. Servers, Node, Address, Layout and Clock
// must be set; a Directory needs neither Node nor Address nor Layout.
type Config struct {
	Servers []string // host:port of each server
	Root    string   // DefaultRoot when empty
	// ForeverPath is where the entries are, as an existing Java Leaf cluster has
	// them; empty for leaf_forever under Root.
	ForeverPath string
	Node        string // a name for people
	Address     string // ip:port at which the peers reach this daemon
	Layout      snowflake.Layout
	// SessionTimeout is how long a dead daemon counts as live; 0 for the default.
	// The server may grant another.
	SessionTimeout time.Duration
	Auth           *zksession.Credentials // nil: none
	TLS            *tls.Config            // nil: plain
	// Settle is how long a new worker ID is claimed before it is issued under; 0 for 10 s
	// more than the session timeout that the server grants: time for whoever had it
	// before ZooKeeper was set back to an earlier state to object.
	Settle time.Duration
	// Lease is the daemon's; worker.DefaultLease if 0.
	Lease time.Duration
	// Threshold is how far apart clocks may be; worker.DefaultClockThreshold if 0.
	Threshold time.Duration
	// Lead is how far ahead of its clock a daemon issues at most; worker.DefaultCeilingLead
	// if 0.
	Lead  time.Duration
	Clock clock.Clock
	// Notify is told of each change; nil for none. It must not block.
	Notify func(zksession.Event)
	// Dial opens the session; nil for zksession.Open. Tests have a ZooKeeper in memory.
	Dial func(zksession.Config) (Session, error)
}

// validate names what can't work in what a daemon is, field and value. The rest is for
// connect to say.
func (c Config) validate() error {
	if err := checkNode(c.Node); err != nil {
		return err
	}
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil || host == "" {
		return fmt.Errorf("address %q: want the ip:port at which the peers reach this daemon", c.Address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("address %q: port: want 1 to 65535", c.Address)
	}
	if c.Settle < 0 || c.Lease < 0 || c.Threshold < 0 || c.Lead < 0 {
		return fmt.Errorf("settle %s, lease %s, threshold %s, lead %s: want 0 or more", c.Settle, c.Lease, c.Threshold, c.Lead)
	}
	return nil
}

// margin is how far apart the clocks of two daemons, each off by the threshold, can be.
func (c Config) margin() time.Duration {
	return 2 * cmp.Or(c.Threshold, worker.DefaultClockThreshold)
}

// reach is the lease as the root's LongestLease has it, in milliseconds: with what the threshold
// is beyond the usual one, twice. Whoever notes a loss may have a smaller one than a daemon
// that is cut off and goes on by its file.
func (c Config) reach() int64 {
	return (c.Lease + max(0, c.margin()-Config{}.margin())).Milliseconds()
}

// connect opens the session and names the paths.
func (c Config) connect() (tree, error) {
	if c.Clock == nil {
		return tree{}, errors.New("Config needs a Clock")
	}
	p, err := newPaths(c.Root, c.ForeverPath)
	if err != nil {
		return tree{}, err
	}
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	if c.Dial == nil {
		c.Dial = func(cfg zksession.Config) (Session, error) { return zksession.Open(cfg) }
	}
	s, err := c.Dial(zksession.Config{
		Servers: c.Servers, Timeout: c.SessionTimeout, Auth: c.Auth, TLS: c.TLS, Notify: c.Notify, Unreachable: worker.ErrUnreachable,
	})
	if err != nil {
		return tree{}, err
	}
	return tree{session: s, paths: p, cfg: c}, nil
}

// Registry is the worker.Registry of one daemon. It keeps:
//
//	zkreg.R1  A worker ID is active for one node at a time. Whatever makes an entry
//	    active under a worker ID that it didn't have before writes the parent at
//	    the data version at which it saw everybody else: of two that do so at
//	    once, one fails and looks again. (A claim of one that has an entry takes its place.)
//	zkreg.R2  An entry is written only at a version that was read, or written, over this
//	    connection, and at which it was exactly as we last wrote it. Whoever else writes it
//	    makes our next write fail, and fences us; and versions that a restored ZooKeeper
//	    counts once more are none of ours.
//	zkreg.R3  A write whose answer was lost is looked for before anything else is
//	    written: by our node's name, the owner that only this process has, and
//	    the very bytes sent.
//	zkreg.R4  What can't be made out is nobody's to take and no proof of anything.
type Registry struct {
	tree

	// commit is Session.Multi; a variable so that tests can lose its answers.
	commit func(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error)

	// Used by Look, Claim and Report, one at a time.
	seen *snapshot // of the last Look; nil before
	held *holding  // what Claim made ours; nil before

	mu      sync.Mutex
	liveAs  string        // mu protects; our escaped name in the live set
	peers   []worker.Peer // mu protects; as of peersAt
	peersAt liveState     // mu protects; zero: never read
}

var _ worker.Registry = (*Registry)(nil)

// Open returns at once and connects in the background. It fails only for what
// can never work.
func Open(cfg Config) (*Registry, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	r := &Registry{tree: t}
	r.commit = r.session.Multi
	return r, nil
}

// Peers implements worker.Registry. Where nobody came or went since the last time
// it is one read, however many there are.
func (r *Registry) Peers(ctx context.Context) ([]worker.Peer, error) {
	names, state, err := r.readLive(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	peers, known := r.peers, r.peersAt == state && state != (liveState{})
	r.mu.Unlock()
	if known {
		return slices.Clone(peers), nil
	}
	if peers, err = r.readPeers(ctx, names, r.liveName()); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers, r.peersAt = peers, state
	return slices.Clone(peers), nil
}

// Session tells of the session with ZooKeeper, without asking any server.
func (r *Registry) Session() zksession.Info { return r.session.Info() }

// Close implements worker.Registry. Our ephemeral node goes with the session.
func (r *Registry) Close() error {
	r.session.Close()
	return nil
}

// liveName is our escaped name in the live set: our node's, but where another instance has
// that, names being labels.
func (r *Registry) liveName() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.liveAs == "" {
		return escapeNode(r.cfg.Node)
	}
	return r.liveAs
}

func (r *Registry) livePath() string { return r.temporary + "/" + r.liveName() }

// yieldName gives our node's name in the live set up to the instance that has it.
func (r *Registry) yieldName(instance string, temp *temporary) {
	r.mu.Lock()
	r.liveAs = escapeNode(r.cfg.Node) + "~" + instance
	r.mu.Unlock()
	r.session.Raise(zksession.Event{Kind: EventNameShared, Err: fmt.Errorf(
		"node %s is live at %s too, as another data directory's (owner %s): give each daemon a --node of its own", r.cfg.Node, cmp.Or(temp.data.Address, unknown), temp.owner())})
}

// payload is our entry's.
func (r *Registry) payload(rec worker.Record, state worker.EntryState) entryData {
	ip, port, _ := net.SplitHostPort(r.cfg.Address) // validate saw to it
	return entryData{
		IP: ip, Port: port, Timestamp: rec.Timestamp, Ceiling: rec.Ceiling, Floor: rec.Floor, Limit: rec.Limit,
		Instance: rec.Instance, Owner: rec.Owner, State: state,
	}
}

// temporaryPayload is our ephemeral node's.
func (r *Registry) temporaryPayload(rec worker.Record, workerID int64) []byte {
	return encode(temporaryData{
		Owner: rec.Owner, Instance: rec.Instance, Address: r.cfg.Address, Node: r.cfg.Node, WorkerID: workerID, SessionMS: r.session.Timeout().Milliseconds(),
	})
}

// transact commits ops all or none. It returns which of them failed, -1 for none
// in particular.
func (r *Registry) transact(ctx context.Context, ops ...any) ([]zk.MultiResponse, int, error) {
	return r.transactOn(ctx, 0, ops...)
}

// connected returns the number of the connection; worker.ErrUnreachable where there is none.
func (r *Registry) connected() (uint64, error) {
	conn := r.session.Connection()
	if conn == 0 {
		return 0, fmt.Errorf("%w: the connection broke", worker.ErrUnreachable)
	}
	return conn, nil
}

// transactOn is transact over the connection with that number or not at all; 0 for any.
func (r *Registry) transactOn(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, int, error) {
	responses, err := r.commit(ctx, connection, ops...)
	if err != nil {
		for i, response := range responses {
			if response.Error != nil {
				return nil, i, err
			}
		}
	}
	return responses, -1, err
}

func check(p string, version int32) any { return &zk.CheckVersionRequest{Path: p, Version: version} }

func setData(p string, data []byte, version int32) any {
	return &zk.SetDataRequest{Path: p, Data: data, Version: version}
}

func deleteNode(p string, version int32) any { return &zk.DeleteRequest{Path: p, Version: version} }

func createNode(p string, data []byte, flags int32) any {
	return &zk.CreateRequest{Path: p, Data: data, Flags: flags}
}

// isConflict tells that a transaction met another state than it was made for.
func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}
