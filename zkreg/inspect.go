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
		asking.Go(func() {
			one := cfg
			one.Servers = []string{server}
			t, err := one.connect()
			if err == nil {
				defer t.session.Close()
				_, _, err = t.session.Exists(ctx, "/")
			}
			states[i] = ServerState{Server: server, Err: err}
			if err == nil || zksession.AboutNode(err) { // "/" may be hidden from us
				states[i] = ServerState{Server: server, Granted: t.session.Info().Timeout}
			}
		})
	}
	asking.Wait()
	return states
}

// ErrDenied is wrapped by what is refused to our credentials, in ErrTrial too.
var ErrDenied = zk.ErrNoAuth

// ErrTrial is returned by Trial where ZooKeeper refuses a write that a daemon needs, which it
// names.
var ErrTrial = errors.New("ZooKeeper refuses to let us")

// Trial finds out whether everything that a daemon of cfg writes would be allowed: it
// hands ZooKeeper one transaction that does it all, and whose last operation can't
// succeed. The servers judge each of them in turn, by the ACLs and the credentials of
// this connection, and then do none: nothing is written, and nobody's watch fires. workerID is
// that whose entry is ours; worker.NoWorkerID for none. Of the tree only the parent of the live set may be missing, and is "made" in it too.
// ErrTrial; worker.ErrNoCluster; worker.ErrUnreachable.
func (d *Directory) Trial(ctx context.Context, workerID int64) error {
	err := d.try(ctx, workerID)
	for isConflict(err) && ctx.Err() == nil { // somebody changed the tree meanwhile
		err = d.try(ctx, workerID)
	}
	return err
}

func (d *Directory) try(ctx context.Context, workerID int64) error {
	var ops []any
	var needs []string // what each is for
	add := func(need string, op any) { needs, ops = append(needs, need), append(ops, op) }
	s, _, t, err := d.stands(ctx)
	switch {
	case err != nil:
		return err
	case s.Parent == 0:
		return fmt.Errorf("%w: %s is absent: leafd cluster status says more", worker.ErrNoCluster, t.forever)
	}
	add("write "+t.root, setData(t.root, nil, s.Root.Stat.Version))
	ours := t.entryOf(workerID)
	for _, p := range []string{ours, t.temporary, t.released} {
		found, _, err := t.session.Exists(ctx, p)
		switch {
		case err != nil:
			return err
		case p == ours && found:
			add("write our entry "+p, setData(p, nil, -1)) // without a version: its daemon may report meanwhile
		case p != ours && !found:
			add("create "+p, createNode(p, nil, 0))
		}
	}
	add("write "+t.released, setData(t.released, nil, -1))
	scratch := "/doctor-" + uuid.NewString()
	for _, below := range []struct {
		p, in, out string
		flags      int32
	}{
		{t.forever, "create an entry", "delete an entry", 0},
		{t.released, "leave a hint", "remove a hint", 0},
		{t.temporary, "put a node into the live set", "take a node out of the live set", zk.FlagEphemeral},
	} {
		add(below.in+" under "+below.p, createNode(below.p+scratch, nil, below.flags))
		add(below.out+" under "+below.p, deleteNode(below.p+scratch, 0))
	}

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
