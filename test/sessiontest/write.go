package sessiontest

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/leafd/leafd/zkreg"
)

// Create has s create a node, and returns its path.
func Create(ctx context.Context, s zkreg.Session, p string, data []byte, flags int32) (string, error) {
	r, err := s.Multi(ctx, 0, &zk.CreateRequest{Path: p, Data: data, Flags: flags})
	if err != nil {
		return "", err
	}
	return r[0].String, nil
}

// Set has s write the data of a node that is at version; -1 for any.
func Set(ctx context.Context, s zkreg.Session, p string, data []byte, version int32) (*zk.Stat, error) {
	r, err := s.Multi(ctx, 0, &zk.SetDataRequest{Path: p, Data: data, Version: version})
	if err != nil {
		return nil, err
	}
	return r[0].Stat, nil
}

// Remove has s remove a node that is at version; -1 for any.
func Remove(ctx context.Context, s zkreg.Session, p string, version int32) error {
	_, err := s.Multi(ctx, 0, &zk.DeleteRequest{Path: p, Version: version})
	return err
}
