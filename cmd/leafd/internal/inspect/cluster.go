// Package inspect looks at a cluster from outside of its daemons: which holder has which
// worker ID, and what the daemons' clocks say. The commands print what it finds.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// Cluster is a ZooKeeper root and its daemons, seen from outside.
type Cluster struct {
	Cfg     settings.Config
	Clock   clock.Clock
	Timeout time.Duration // longest that ZooKeeper may take
}

// WithDirectory calls fn with the registry, within the time-out, and returns its error, or that of
// opening the registry.
func (c Cluster) WithDirectory(ctx context.Context, fn func(ctx context.Context, dir *zkreg.Directory) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if len(c.Cfg.ZooKeeper.Servers) == 0 {
		return settings.Usagef("no ZooKeeper: set --zk (or LEAFD_ZK, or zk in the file); a standalone daemon has no registry to look at")
	}
	dir, err := zkreg.OpenDirectory(c.Cfg.ZKConfig(c.Clock)) // it connects in the background
	if err != nil {
		return fmt.Errorf("opening the registry: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	err = fn(ctx, dir)
	if !errors.Is(err, worker.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("ZooKeeper at %s (--zk) gave no answer within %s (--timeout): %w", strings.Join(c.Cfg.ZooKeeper.Servers, ","), settings.Short(c.Timeout), err)
}

// Prober returns the client for its peers that a daemon with these settings has; it asks at any
// address that the operator names. It returns the error of the settings' certificates.
func (c Cluster) Prober() (*peerclock.Client, error) {
	var certificates *conn.Certificates
	if c.Cfg.Listen.TLS.Cert != "" {
		var err error
		if certificates, err = conn.OpenCertificates(c.Cfg.Listen.TLS, 0, nil); err != nil {
			return nil, settings.AsUsage(err)
		}
	}
	asked := c.Cfg.Peers(c.Clock, certificates)
	asked.Named = true
	return peerclock.New(asked)
}

// Silent reports whether err is that of a daemon that gave no answer in time.
func Silent(err error) bool { return errors.Is(err, peerclock.ErrUnreachable) }

// rewordedError is an error in other words.
type rewordedError struct {
	err  error
	text string
}

func (e *rewordedError) Error() string { return e.text }

func (e *rewordedError) Unwrap() error { return e.err }

// Reword returns an error that wraps err and says text instead.
func Reword(err error, text string) error { return &rewordedError{err, text} }
