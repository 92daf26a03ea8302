package exploretest

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// Condition is one that a transaction has.
type Condition int

// The conditions.
const (
	Version Condition = iota + 1 // a node is written at the version that was read
	Check                        // another node, the root, is as it was read
)

// drawing is a session with an ID of its own.
type drawing struct {
	zkreg.Session
	id int64
}

// Drawing returns s, with the ID by which worker IDs are drawn.
func Drawing(s zkreg.Session, id int64) zkreg.Session { return drawing{s, id} }

// Info implements zkreg.Session.
func (d drawing) Info() zksession.Info {
	info := d.Session.Info()
	info.ID = d.id
	return info
}

// loosened is a session with transactions that lack a condition.
type loosened struct {
	zkreg.Session
	without Condition
}

// Loosened returns s with transactions that lack a condition: what is built on it has to go wrong.
func Loosened(s zkreg.Session, without Condition) zkreg.Session { return loosened{s, without} }

// Multi implements zkreg.Session.
func (l loosened) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	kept := make([]any, 0, len(ops))
	for _, op := range ops {
		set, sets := op.(*zk.SetDataRequest)
		check, checks := op.(*zk.CheckVersionRequest)
		switch {
		case sets && l.without == Version:
			kept = append(kept, &zk.SetDataRequest{Path: set.Path, Data: set.Data, Version: -1})
		case checks && l.without == Check:
			kept = append(kept, &zk.CheckVersionRequest{Path: check.Path, Version: -1})
		default:
			kept = append(kept, op)
		}
	}
	return l.Session.Multi(ctx, connection, kept...)
}
