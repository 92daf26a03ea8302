package zksession

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Multi does all of ops or none: each is a *zk.CreateRequest (of a node with s.ACL()),
// *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest. Where one can't be done
// the error is that one's, wrapped with its index. Where connection isn't 0 they are sent
// over the one with that number or not at all: what was read before a server was set back
// doesn't count after it, and versions begin again.
func (s *Session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	requests, names := make([]any, len(ops)), make([]string, len(ops))
	for i, op := range ops {
		if requests[i], names[i] = s.own(op); requests[i] == nil {
			return nil, fmt.Errorf("transaction, operation %d: %w: %T", i, zk.ErrBadArguments, op)
		}
	}
	c := call{name: "transaction", on: connection}
	responses, err := do(ctx, s, c, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(requests...) })
	if err == nil {
		return responses, nil
	}
	// What comes after the one that failed only says that something failed
	// before; what comes before says nothing.
	if i := slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil }); i >= 0 && i < len(names) {
		c.name = fmt.Sprintf("transaction, operation %d: %s", i, names[i])
		return responses, s.explain(c, responses[i].Error)
	}
	return nil, err
}

// own returns a copy of op that is the session's own, since an abandoned request may still
// be on its way out, and its name; nil for what is no operation.
func (s *Session) own(op any) (request any, name string) {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return &zk.CreateRequest{Path: r.Path, Data: slices.Clone(r.Data), Acl: s.ACL(), Flags: r.Flags}, "create " + r.Path
	case *zk.SetDataRequest:
		return &zk.SetDataRequest{Path: r.Path, Data: slices.Clone(r.Data), Version: r.Version}, "set " + r.Path
	case *zk.DeleteRequest:
		return new(*r), "remove " + r.Path
	case *zk.CheckVersionRequest:
		return new(*r), "check " + r.Path
	}
	return nil, ""
}
