// Package zkreg is worker.Registry and segment.Guard on ZooKeeper. layout.go has every path and
// payload; the client is zksession's.
package zkreg

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
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

// Config is what a Registry needs, as package settings has checked it. Servers, Node, Address,
// Layout and Clock must be set; a Directory needs neither Node nor Address nor Layout.
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
	Lease, Lend    time.Duration          // the daemon's, which may not be longer than the cluster's longest
	Threshold      time.Duration          // how far apart clocks may be; worker.DefaultClockThreshold if 0
	Lead           time.Duration          // how far ahead of its clock a daemon issues; worker.DefaultCeilingLead if 0
	Clock          clock.Clock
	// Dial opens the session; nil for zksession.Open. Tests have a ZooKeeper in memory.
	Dial func(zksession.Config) (Session, error)
}

// margin returns how far apart the clocks of two daemons, each off by the threshold, can be.
func (c Config) margin() time.Duration {
	return 2 * cmp.Or(c.Threshold, worker.DefaultClockThreshold)
}

// connect opens the session and names the paths.
func (c Config) connect() (tree, error) {
	p, err := newPaths(c.Root, c.ForeverPath)
	if err != nil {
		return tree{}, err
	}
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	if c.Dial == nil {
		c.Dial = func(cfg zksession.Config) (Session, error) { return zksession.Open(cfg) }
	}
	s, err := c.Dial(zksession.Config{
		Servers: c.Servers, Timeout: c.SessionTimeout, Auth: c.Auth, TLS: c.TLS, Unreachable: worker.ErrUnreachable, Refused: worker.ErrRefused,
	})
	if err != nil {
		return tree{}, err
	}
	return tree{session: s, paths: p, cfg: c}, nil
}

// Registry is the worker.Registry of one daemon. It keeps:
//
//	one-path  A worker ID has one path, the same for all daemons. It is taken by a create, or by
//	    a write that is conditional on the entry as it was read: ZooKeeper keeps it unique.
//	root-checked  Each transaction checks the root's version, and is sent over the connection over
//	    which all that it rests on was read: versions that a restored ZooKeeper counts once more
//	    are none of these. One that is answered with another czxid than was read has written
//	    over another's entry: worker.ErrFenced.
//	-  An entry that can't be read is never taken, and proves nothing.
//	made-over  A claim says what it was made over: the last entry at its path that was no claim. So a
//	    holder that was away judges it as if that stood there.
type Registry struct {
	tree

	mu   sync.Mutex
	self string // mu protects; our instance
	// peers are those of the last list. Its Stat is another one whenever a live node
	// came or went, and so is the session where ZooKeeper lost its data and counts from the start
	// again.
	peers []worker.Peer // mu protects; never written to
	stat  zk.Stat       // mu protects
	in    int64         // mu protects; ID of the session
}

var _ worker.Registry = (*Registry)(nil)

// Open returns at once and connects in the background. It returns an error only for a Config that can never
// work.
func Open(cfg Config) (*Registry, error) {
	t, err := cfg.connect()
	return &Registry{tree: t}, err
}

// Peers implements worker.Registry. Where no peer came or went since the last time it is one
// read, and otherwise two at most, however many there are: all that is asked for stands in their
// names.
func (r *Registry) Peers(ctx context.Context) ([]worker.Peer, error) {
	session := r.session.Info().ID
	r.mu.Lock()
	all, known, in, self := r.peers, r.stat, r.in, r.self
	r.mu.Unlock()
	_, stat, err := r.session.Exists(ctx, r.temporary)
	if err == nil && stat != nil && (known != *stat || in != session) {
		all, stat, err = r.readLive(ctx)
	}
	if err != nil || stat == nil { // ZooKeeper has lost it, and the peers that were known before are not forgotten for that
		return nil, cmp.Or(err, fmt.Errorf("%w: %s is gone", worker.ErrChanged, r.temporary))
	}
	r.mu.Lock()
	r.peers, r.stat, r.in = all, *stat, session
	r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(all), func(p worker.Peer) bool { return p.Address == "" || p.Instance == self }), nil
}

// Look implements worker.Registry. What it reads is as new as ZooKeeper has it: our own last
// writes too, even where their answers were lost.
func (r *Registry) Look(ctx context.Context, me worker.Record) (worker.Snapshot, error) {
	r.mu.Lock()
	r.self = me.Instance
	r.mu.Unlock()
	s, _, err := r.look(ctx, me.WorkerID)
	if err == nil && s.Root != nil {
		err = r.cfg.check(r.paths, *s.Root, me.Cluster)
	}
	if err != nil {
		return worker.Snapshot{}, err
	}
	address := r.cfg.Address
	if s.Entry != nil && s.Entry.Instance == me.Instance && s.Entry.Address() != "" {
		address = s.Entry.Address()
	}
	data, stat, err := r.read(ctx, r.liveOf(address, me.Instance))
	if err != nil {
		return worker.Snapshot{}, err
	}
	if stat != nil {
		s.Live = ownerOf(data)
	}
	return s, nil
}

// Write implements worker.Registry.
func (r *Registry) Write(ctx context.Context, s worker.Snapshot, me worker.Record, state worker.EntryState) (worker.Snapshot, error) {
	if me.WorkerID > r.cfg.Layout.MaxWorker() {
		return s, fmt.Errorf("%w: the record is of worker %d, and layout %s ends at %d", worker.ErrForeign, me.WorkerID, r.cfg.Layout, r.cfg.Layout.MaxWorker())
	}
	d := r.dataOf(me, state)
	if d.State == worker.StateClaiming {
		d.Over = s.Entry.MadeOver()
	}
	p := r.entryOf(me.WorkerID)
	ops := []any{check(r.root, s.Root.Stat.Version)}
	if s.Entry != nil {
		ops = append(ops, setData(p, encode(d), s.Entry.Stat.Version))
	} else { // no answer to a create has its Stat
		ops = append(ops, createNode(p, nil, 0), setData(p, encode(d), 0))
	}
	responses, err := r.change(ctx, s, ops...)
	if err != nil {
		return s, err
	}
	stat := responses[len(ops)-1].Stat
	if s.Entry != nil && s.Entry.Stat.Czxid != stat.Czxid { // root-checked
		return s, fmt.Errorf("%w: %s was removed and made again by another while it was written", worker.ErrFenced, p)
	}
	d.Stat = statOf(stat)
	s.Entry = &d
	if state == worker.StateReleased || d.Free {
		_, _ = r.session.Multi(ctx, 0, createNode(r.hintOf(me.WorkerID), nil, 0)) // nothing rests on a hint
	}
	return s, nil
}

// dataOf returns the entry of me in state, to be written by us.
func (r *Registry) dataOf(me worker.Record, state worker.EntryState) worker.Entry {
	ip, port, _ := net.SplitHostPort(r.cfg.Address) // it is one
	free := state == worker.StateFree
	if free {
		state = worker.StateClaiming
	}
	return worker.Entry{
		WorkerID: me.WorkerID, Free: free, IP: ip, Port: port, Node: r.cfg.Node, Timestamp: me.Timestamp, Ceiling: me.Ceiling, Floor: me.Floor, Limit: me.Limit,
		Instance: me.Instance, Owner: me.Current.Owner, Life: me.Current.Number, State: state,
	}
}

// Show implements worker.Registry. The node has the address that peers are to ask in its name.
func (r *Registry) Show(ctx context.Context, me worker.Record, live bool) error {
	p := r.liveOf(r.cfg.Address, me.Instance)
	for range mostTries {
		was, stat, err := r.read(ctx, p)
		var ops []any
		switch {
		case err != nil:
			return err
		case stat == nil && !live, stat != nil && live && ownerOf(was) == me.Owner && stat.EphemeralOwner == r.session.Info().ID:
			return nil
		case stat != nil:
			ops = append(ops, deleteNode(p, stat.Version)) // of a life before, or of a session that ended
		}
		if live {
			ops = append(ops, createNode(p, []byte(me.Owner), zk.FlagEphemeral))
		}
		if _, err = r.session.Multi(ctx, 0, ops...); !isConflict(err) {
			return err
		}
		if err := r.ensure(ctx, r.temporary); err != nil { // it is the parent that is gone, perhaps
			return err
		}
	}
	return fmt.Errorf("%w: %s met one change after another", worker.ErrChanged, p)
}

// mostTries is how often what meets a change is tried again: each change has a cause of its own.
const mostTries = 8

func check(p string, version int32) any { return &zk.CheckVersionRequest{Path: p, Version: version} }

func setData(p string, data []byte, version int32) any {
	return &zk.SetDataRequest{Path: p, Data: data, Version: version}
}

func deleteNode(p string, version int32) any { return &zk.DeleteRequest{Path: p, Version: version} }

func createNode(p string, data []byte, flags int32) any {
	return &zk.CreateRequest{Path: p, Data: data, Flags: flags}
}

// isConflict reports whether a transaction met another state than it was made for.
func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}
