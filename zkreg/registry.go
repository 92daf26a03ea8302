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
	"sync/atomic"
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
	Servers     []string // host:port of each server
	Root        string   // DefaultRoot when empty
	ForeverPath string   // parent of the entries, as a Java Leaf cluster has it; empty for leaf_forever under Root
	Node        string   // a name for people
	Address     string   // ip:port at which the peers reach this daemon
	Layout      snowflake.Layout
	// SessionTimeout is how long a dead daemon counts as live; 0 for the default.
	// The server may grant another.
	SessionTimeout time.Duration
	Auth           *zksession.Credentials // nil: none
	TLS            *tls.Config            // nil: plain
	// Settle is how long a new worker ID is claimed before it is issued under; 0 for
	// settleBeyondSession more than the session timeout that the server grants.
	Settle    time.Duration
	Lease     time.Duration // the daemon's; worker.DefaultLease if 0
	Threshold time.Duration // how far apart clocks may be; worker.DefaultClockThreshold if 0
	Lead      time.Duration // how far ahead of its clock a daemon issues; worker.DefaultCeilingLead if 0
	Clock     clock.Clock
	Notify    func(zksession.Event) // is told of each change, and must not block; nil for none
	// Dial opens the session; nil for zksession.Open. Tests have a ZooKeeper in memory.
	Dial func(zksession.Config) (Session, error)
}

// validate names what can't work in what a daemon is, field and value. The rest is for
// connect to say.
func (c Config) validate() error {
	host, port, _ := net.SplitHostPort(c.Address)
	n, _ := strconv.Atoi(port)
	return cmp.Or(
		checkNode(c.Node),
		c.Layout.Validate(),
		want(host != "", "address %q: want the ip:port at which the peers reach this daemon", c.Address),
		want(n >= 1 && n <= 65535, "address %q: port: want 1 to 65535", c.Address),
		want(min(c.Settle, c.Lease, c.Threshold, c.Lead) >= 0, "settle %s, lease %s, threshold %s, lead %s: want 0 or more", c.Settle, c.Lease, c.Threshold, c.Lead),
	)
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

	// Used by Look, Claim and Report, one at a time.
	seen *snapshot  // of the last Look; nil before
	held *holding   // what Claim made ours; nil before
	temp *temporary // our ephemeral node as last read; nil for none

	liveAs atomic.Value                // our escaped name in the live set, a string
	peers  atomic.Pointer[peersAtTime] // as last read; nil before
}

// peersAtTime is who else was live. Its Stat is another one whenever a live node came or went,
// and so is the session where ZooKeeper lost its data and counts from the start again.
type peersAtTime struct {
	stat    zk.Stat
	session int64
	all     []worker.Peer
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
	r.liveAs.Store(escapeNode(cfg.Node))
	return r, nil
}

// Peers implements worker.Registry. Where nobody came or went since the last time it is one
// read, however many there are. Who tells no address can't be asked for its clock, and is left out.
func (r *Registry) Peers(ctx context.Context) ([]worker.Peer, error) {
	names, stat, err := r.readLive(ctx)
	if err != nil || stat == nil {
		return []worker.Peer{}, err
	}
	known, now := r.peers.Load(), peersAtTime{stat: *stat, session: r.session.Info().ID, all: []worker.Peer{}}
	if known == nil || known.stat != now.stat || known.session != now.session {
		names = slices.DeleteFunc(names, func(name string) bool { return name == r.liveName() })
		live, err := readAll(ctx, names, r.readTemporary)
		if err != nil {
			return nil, err
		}
		for _, temp := range live {
			if temp.data.Address != "" {
				now.all = append(now.all, worker.Peer{Node: temp.data.Node, Address: temp.data.Address, Owner: temp.data.Owner, Instance: temp.data.Instance})
			}
		}
		known = &now
		r.peers.Store(known)
	}
	return slices.Clone(known.all), nil
}

// Session tells of the session with ZooKeeper, without asking any server.
func (r *Registry) Session() zksession.Info { return r.session.Info() }

// liveName is our escaped name in the live set: our node's, but where another instance has
// that, names being labels.
func (r *Registry) liveName() string { return r.liveAs.Load().(string) }

func (r *Registry) livePath() string { return r.temporary + "/" + r.liveName() }

// entryOf is the entry called name as rec has it, to be written by us.
func (r *Registry) entryOf(name entryName, rec worker.Record, state worker.EntryState) entry {
	ip, port, _ := net.SplitHostPort(r.cfg.Address) // validate saw to it
	d := entryData{
		IP: ip, Port: port, Timestamp: rec.Timestamp, Ceiling: rec.Ceiling, Floor: rec.Floor, Limit: rec.Limit,
		Instance: rec.Instance, Owner: rec.Owner, State: state,
	}
	return entry{entryName: name, path: r.foreverOf(name), data: d, payload: encode(d)}
}

// temporaryPayload is our ephemeral node's.
func (r *Registry) temporaryPayload(rec worker.Record) []byte {
	return encode(temporaryData{
		Owner: rec.Owner, Instance: rec.Instance, Address: r.cfg.Address, Node: r.cfg.Node, WorkerID: rec.WorkerID, SessionMS: r.session.Info().Timeout.Milliseconds(),
	})
}

// synced returns the number of the connection over which, or over a later one, is read what
// is as new as ZooKeeper has it: our own last writes too, whose answers may be lost (zkreg.R3).
func (r *Registry) synced(ctx context.Context) (uint64, error) {
	if err := r.session.Sync(ctx, r.root); err != nil {
		return 0, err
	}
	conn := r.session.Connection()
	if conn == 0 {
		return 0, fmt.Errorf("%w: the connection broke", worker.ErrUnreachable)
	}
	return conn, nil
}

// write is a transaction that makes an entry stand while the root is as it was read.
type write struct {
	conn   uint64 // over which, or over a later one, the rest was read (zkreg.R2)
	root   *root
	parent *list // written too, as it was read (zkreg.R1); nil where we have the worker ID
	own    entry
	flags  int32   // of own where it is created
	olds   []entry // what own stands in place of, as it was read; none: it is created
	more   []any
}

// Operations of a write, of which one can have failed.
const (
	opRoot = iota
	opEntry
	opParent
)

// commit does w over its connection or not at all, and returns own as it stands then: with
// an empty Stat where it was created. errAgain, and which operation it was, where w met
// another state than was read.
func (r *Registry) commit(ctx context.Context, w write) (entry, int, error) {
	ops := []any{opRoot: check(r.root, w.root.stat.Version), opEntry: createNode(w.own.path, w.own.payload, w.flags)}
	if w.parent != nil {
		ops = append(ops, setData(r.forever, w.parent.data, w.parent.stat.Version))
	}
	for _, old := range w.olds {
		if old.raw == w.own.raw {
			ops[opEntry] = setData(w.own.path, w.own.payload, old.stat.Version)
		} else {
			ops = append(ops, deleteNode(old.path, old.stat.Version))
		}
	}
	responses, err := r.session.Multi(ctx, w.conn, append(ops, w.more...)...)
	if isConflict(err) {
		return entry{}, slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil }), changed(err)
	}
	if err != nil {
		return entry{}, -1, err
	}
	own := w.own
	own.path, own.stat = cmp.Or(responses[opEntry].String, own.path), cmp.Or(responses[opEntry].Stat, &zk.Stat{})
	return own, -1, nil
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
