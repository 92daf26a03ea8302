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
	cfg.Servers = []string{server}
	t, err := cfg.connect()
	if err != nil {
		return ServerState{Server: server, Err: err}
	}
	defer t.session.Close()
	// Who may not look at "/" got an answer all the same.
	if _, _, err := t.session.Exists(ctx, "/"); err != nil && !zksession.AboutNode(err) {
		return ServerState{Server: server, Err: err}
	}
	return ServerState{Server: server, Granted: t.session.Info().Timeout}
}

// ErrDenied is wrapped by what is refused to our credentials, in ErrTrial too.
var ErrDenied = zk.ErrNoAuth

// ErrTrial is returned by Trial where ZooKeeper refuses a write that a daemon needs, which it
// names.
var ErrTrial = errors.New("ZooKeeper refuses to let us")

// Trial finds out whether everything that a daemon of cfg writes would be allowed: it
// hands ZooKeeper one transaction that does it all, and whose last operation can't
// succeed. The servers judge each of them in turn, by the ACLs and the credentials of
// this connection, and then do none: nothing is written, and nobody's watch fires.
// Of the tree only the parent of the live set may be missing, and is "made" in it too.
// ErrTrial; worker.ErrNoCluster; worker.ErrUnreachable.
func (d *Directory) Trial(ctx context.Context, node string) error {
	err := d.try(ctx, node)
	for isConflict(err) && ctx.Err() == nil { // somebody changed the tree meanwhile
		err = d.try(ctx, node)
	}
	return err
}

func (d *Directory) try(ctx context.Context, node string) error {
	var ops []any
	var needs []string // what each is for
	add := func(need string, op any) { needs, ops = append(needs, need), append(ops, op) }
	// What a claim does to the parent of the entries, and who completes the root, or puts
	// entries back, to the root.
	for _, p := range []string{d.root, d.forever} {
		data, stat, err := d.read(ctx, p)
		if err != nil {
			return err
		}
		if stat == nil {
			return fmt.Errorf("%w: %s is absent: leafd cluster status says more", worker.ErrNoCluster, p)
		}
		add("write "+p, setData(p, data, stat.Version))
	}
	// What a claim and a report do: write our entry, create one, and delete one that is taken over.
	l, err := d.readNames(ctx)
	if err != nil {
		return err
	}
	ours, err := readAll(ctx, l.of(node), d.readEntry)
	if err != nil {
		return err
	}
	for _, e := range ours {
		if e.data.State == StateJava { // of the same address, and not ours
			continue
		}
		add("write our entry "+e.path, setData(e.path, e.payload, -1)) // without a version: its daemon may report meanwhile
	}
	scratch := "/doctor-" + uuid.NewString()
	add("create an entry under "+d.forever, createNode(d.forever+scratch, nil, 0))
	add("delete an entry under "+d.forever, deleteNode(d.forever+scratch, 0))
	found, _, err := d.session.Exists(ctx, d.temporary)
	if err != nil {
		return err
	}
	if !found {
		add("create "+d.temporary, createNode(d.temporary, nil, 0))
	}
	add("put a node into the live set under "+d.temporary, createNode(d.temporary+scratch, nil, zk.FlagEphemeral))
	add("take a node out of the live set under "+d.temporary, deleteNode(d.temporary+scratch, 0))

	responses, err := d.session.Multi(ctx, 0, append(ops, check("/", math.MaxInt32))...) // a version that it never has
	if err == nil {
		return errors.New("a transaction that can't succeed did: this is no ZooKeeper") // its "/" has had 2^31 writes
	}
	failed := slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil })
	switch {
	case failed == len(ops): // all before it was allowed
		return nil
	case failed < 0, !errors.Is(err, zk.ErrNoAuth):
		return err
	}
	return fmt.Errorf("%w %s: %w", ErrTrial, needs[failed], err)
}
