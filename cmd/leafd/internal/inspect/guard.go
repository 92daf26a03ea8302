package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/zkreg"
)

// ForgetTag removes the high mark of a tag, and returns what it was; 0 where there was none.
func (c Cluster) ForgetTag(ctx context.Context, tag string) (high int64, err error) {
	if len(c.Cfg.ZooKeeper.Servers) == 0 {
		return 0, settings.AsUsage(errNoZooKeeper)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	zk := c.Cfg.ZKConfig()
	zk.Clock = c.Clock
	guard, err := zkreg.OpenGuard(zk)
	if err != nil {
		return 0, fmt.Errorf("opening the guard of the segments: %w", err)
	}
	defer func() { err = errors.Join(err, guard.Close()) }()
	return guard.Forget(ctx, tag)
}
