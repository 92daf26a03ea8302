package inspect

import (
	"errors"
	"fmt"

	"github.com/leafd/leafd/zkreg"
)

// WithGuard calls fn with the guard of the segments; with nil without ZooKeeper.
func (c Cluster) WithGuard(fn func(guard *zkreg.Guard) error) (err error) {
	if len(c.Cfg.ZooKeeper.Servers) == 0 {
		return fn(nil)
	}
	guard, err := zkreg.OpenGuard(c.Cfg.ZKConfig(c.Clock))
	if err != nil {
		return fmt.Errorf("opening the guard of the segments: %w", err)
	}
	defer func() { err = errors.Join(err, guard.Close()) }()
	return fn(guard)
}
