package zksession

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Multi does all of ops or none: each is a *zk.CreateRequest (without an Acl it is
// given s.ACL()), *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest. Where one
// can't be done the error is that one's, wrapped with its index. Where connection isn't 0 they
// are sent over the one with that number or not at all, as by SetOn.
func (s *Session) Multi(ctx context.Context, connection uint64, ops ...any) ([]zk.MultiResponse, error) {
	requests, names, err := s.requests(ops)
	if err != nil {
		return nil, err
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

// requests returns copies of ops that are the session's own, and their names.
func (s *Session) requests(ops []any) (requests []any, names []string, err error) {
	for i, op := range ops {
		switch r := op.(type) {
		case *zk.CreateRequest:
			own := *r
			own.Data = slices.Clone(r.Data)
			if len(r.Acl) == 0 {
				own.Acl = s.ACL()
			}
			requests, names = append(requests, &own), append(names, "create "+r.Path)
		case *zk.SetDataRequest:
			own := *r
			own.Data = slices.Clone(r.Data)
			requests, names = append(requests, &own), append(names, "set "+r.Path)
		case *zk.DeleteRequest:
			own := *r
			requests, names = append(requests, &own), append(names, "remove "+r.Path)
		case *zk.CheckVersionRequest:
			own := *r
			requests, names = append(requests, &own), append(names, "check "+r.Path)
		default:
			return nil, nil, fmt.Errorf("transaction, operation %d: %w: %T", i, zk.ErrBadArguments, op)
		}
	}
	return requests, names, nil
}
