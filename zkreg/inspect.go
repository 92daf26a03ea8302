package zkreg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// ServerState is how one server of an ensemble fared.
type ServerState struct {
	Server  string        // as configured
	Granted time.Duration // session timeout that it granted
	Err     error         // why it gave no session; nil where it did
}

// Servers asks each server for a session of its own, all at once, and ends it again.
// A server without a quorum gives none. They are in the order of cfg.Servers, of which
// alone it needs Servers and Clock. It returns within ctx, and a second.
func Servers(ctx context.Context, cfg Config) []ServerState {
	states := make([]ServerState, len(cfg.Servers))
	var asking sync.WaitGroup
	for i, server := range cfg.Servers {
		asking.Go(func() { states[i] = askServer(ctx, cfg, server) })
	}
	asking.Wait()
	return states
}

func askServer(ctx context.Context, cfg Config, server string) ServerState {
	state := ServerState{Server: server}
	cfg.Servers = []string{server}
	d, err := OpenDirectory(cfg)
	if err != nil {
		state.Err = err
		return state
	}
	defer d.session.Close()
	// Who may not look at "/" got an answer all the same.
	if _, _, err := d.session.Exists(ctx, "/"); err != nil && !zksession.AboutNode(err) {
		state.Err = err
		return state
	}
	state.Granted = d.session.Timeout()
	return state
}

// ErrDenied is wrapped by what is refused to our credentials, in TrialError too.
var ErrDenied = zk.ErrNoAuth

// TrialError is returned by Trial where ZooKeeper refuses a write that a daemon needs.
type TrialError struct {
	Needs string // what the daemon would do
	err   error
}

func (e *TrialError) Error() string {
	return fmt.Sprintf("ZooKeeper refuses to let us %s: %v", e.Needs, e.err)
}

func (e *TrialError) Unwrap() error { return e.err }

// neverVersion is a data version that no node has.
const neverVersion = math.MaxInt32

// Trial finds out whether everything that a daemon of cfg writes would be allowed: it
// hands ZooKeeper one transaction that does it all, and whose last operation can't
// succeed. The servers judge each of them in turn, by the ACLs and the credentials of
// this connection, and then do none: nothing is written, and nobody's watch fires.
// Of the tree only the parent of the live set may be missing, and is "made" in it too.
// TrialError; worker.ErrNoCluster; worker.ErrUnreachable.
func (d *Directory) Trial(ctx context.Context, node string) error {
	for {
		err := d.try(ctx, node)
		if isConflict(err) && ctx.Err() == nil {
			continue // somebody changed the tree meanwhile
		}
		return err
	}
}

func (d *Directory) try(ctx context.Context, node string) error {
	t := &trial{tree: d.tree}
	for _, p := range []string{d.root, d.forever} {
		if err := t.write(ctx, p); err != nil {
			return err
		}
	}
	if err := t.writeEntries(ctx, escapeNode(node)); err != nil {
		return err
	}
	if found, _, err := d.session.Exists(ctx, d.temporary); err != nil {
		return err
	} else if !found {
		t.add("create "+d.temporary, &zk.CreateRequest{Path: d.temporary})
	}
	scratch := d.temporary + "/doctor-" + uuid.NewString()
	t.add("put a node into the live set under "+d.temporary, &zk.CreateRequest{Path: scratch, Flags: zk.FlagEphemeral})
	t.add("take a node out of the live set under "+d.temporary, &zk.DeleteRequest{Path: scratch})
	t.ops = append(t.ops, &zk.CheckVersionRequest{Path: "/", Version: neverVersion})

	responses, err := d.session.Multi(ctx, 0, t.ops...)
	if err == nil {
		return errors.New("a transaction that can't succeed did: this is no ZooKeeper") // its "/" has had 2^31 writes
	}
	failed := slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil })
	switch {
	case failed == len(t.ops)-1: // all before it was allowed
		return nil
	case failed < 0, !errors.Is(err, zk.ErrNoAuth):
		return err
	}
	return &TrialError{Needs: t.needs[failed], err: err}
}

// trial collects the operations of Trial.
type trial struct {
	tree

	ops   []any
	needs []string // what each is for
}

func (t *trial) add(needs string, op any) { t.ops, t.needs = append(t.ops, op), append(t.needs, needs) }

// write adds what a claim does to the parent of the entries, and who completes the root, or
// puts entries back, to the root.
func (t *trial) write(ctx context.Context, p string) error {
	data, stat, err := t.session.Get(ctx, p)
	if errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %s is absent: leafd cluster status says more", worker.ErrNoCluster, p)
	}
	if err != nil {
		return err
	}
	t.add("write "+p, &zk.SetDataRequest{Path: p, Data: data, Version: stat.Version})
	return nil
}

// writeEntries adds what a claim and a report do: write our entry, create one, and delete
// one that is taken over.
func (t *trial) writeEntries(ctx context.Context, escaped string) error {
	l, err := t.readNames(ctx)
	if err != nil {
		return err
	}
	entries, err := readAll(ctx, l.where(func(name entryName) bool { return name.node == escaped }), t.readEntry)
	if err != nil {
		return err
	}
	for _, e := range entries {
		// Without a version: its daemon may report meanwhile.
		t.add("write our entry "+e.path, &zk.SetDataRequest{Path: e.path, Data: e.payload, Version: -1})
	}
	scratch := t.forever + "/doctor-" + uuid.NewString()
	t.add("create an entry under "+t.forever, &zk.CreateRequest{Path: scratch})
	t.add("delete an entry under "+t.forever, &zk.DeleteRequest{Path: scratch})
	return nil
}

// Self returns what the registry has of the node and layout of cfg, as a start with
// the record self would find it, and writes nothing. See worker.Registry's Look.
func Self(ctx context.Context, cfg Config, self worker.Record) (worker.Lookup, error) {
	r, err := Open(cfg)
	if err != nil {
		return worker.Lookup{}, err
	}
	defer r.session.Close()
	return r.Look(ctx, self)
}
