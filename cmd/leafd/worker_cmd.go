package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/worker"
)

// Bounds of --timeout.
const (
	defaultRegistryTimeout = 10 * time.Second
	minRegistryTimeout     = 100 * time.Millisecond
	maxRegistryTimeout     = 10 * time.Minute
)

func (a *app) workerCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "worker",
		Short: "Show and release the worker IDs of a cluster",
		Long: `Show and release the worker IDs of a cluster, straight in ZooKeeper: --zk and --zk-root
name it. No daemon need be running, and none is disturbed by looking.

An entry is what ZooKeeper keeps of one worker ID: the node that has it, the clock that
node last reported, and its ceiling, the time below which it may have issued IDs. The
states of an entry:

  live      its daemon runs, issues IDs, and is among the peers
  active    its daemon doesn't issue just now, and reported within 24 hours; a Java Leaf's
            entry is active while it runs, for it is never live
  stale     as active, but not reported for 24 hours
  released  free: the next new node takes it over
  claiming  a first start is under way, or was cut short; nobody issues under it yet
  damaged   what stands there can't be read; nobody is given this worker ID`,
	}, a.workerListCmd(), a.workerShowCmd(), a.workerReleaseCmd(), a.workerSelfCmd())
}

// registryFlags adds the settings that say where the registry is, and how long
// a command may take over it.
func registryFlags(cmd *cobra.Command, timeout *time.Duration, more ...string) {
	names := append([]string{"layout", "epoch", "tls-cert", "tls-key", "tls-client-ca", "tls-client-auth"}, more...)
	for _, s := range zookeeperSettings() {
		if s.name == "zk" || strings.HasPrefix(s.name, "zk-") {
			names = append(names, s.name)
		}
	}
	addSettings(cmd.Flags(), names...)
	cmd.Flags().DurationVar(timeout, "timeout", defaultRegistryTimeout, "longest that ZooKeeper and the peers may take, 100ms to 10m")
}

// checkTimeout refuses what --timeout can't be.
func checkTimeout(timeout time.Duration) error {
	if timeout < minRegistryTimeout || timeout > maxRegistryTimeout {
		return usagef("--timeout is %s: want %s to %s", short(timeout), short(minRegistryTimeout), short(maxRegistryTimeout))
	}
	return nil
}

// withDirectory calls fn with the registry that cfg names, for at most timeout.
func (a *app) withDirectory(ctx context.Context, cfg Config, timeout time.Duration,
	fn func(ctx context.Context, dir worker.Directory) error,
) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dir, err := a.openDirectory(ctx, cfg)
	if err != nil {
		return noRegistry(err, cfg, timeout)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return noRegistry(fn(ctx, dir), cfg, timeout)
}

// noRegistry adds to the failure of a registry that doesn't answer which servers
// were asked.
func noRegistry(err error, cfg Config, timeout time.Duration) error {
	if !errors.Is(err, worker.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("ZooKeeper at %s (--zk) gave no answer within %s (--timeout): %w", strings.Join(cfg.ZK, ","), short(timeout), err)
}

// loadCluster reads the settings of a command about a cluster.
func (a *app) loadCluster(cmd *cobra.Command, timeout time.Duration, output string) (Config, error) {
	if err := checkOutput(output, outputText, outputJSON); err != nil {
		return Config{}, err
	}
	if err := checkTimeout(timeout); err != nil {
		return Config{}, err
	}
	cfg, _, err := a.loadConfig(cmd.Context(), cmd.Flags())
	if err != nil {
		return Config{}, err
	}
	a.warn(cfg.Warnings)
	return cfg, nil
}

// onCluster is loadCluster and withDirectory, for a command that needs both.
func (a *app) onCluster(cmd *cobra.Command, timeout time.Duration, output string,
	fn func(ctx context.Context, dir worker.Directory, cfg Config) error,
) error {
	cfg, err := a.loadCluster(cmd, timeout, output)
	if err != nil {
		return err
	}
	return a.withDirectory(cmd.Context(), cfg, timeout, func(ctx context.Context, dir worker.Directory) error {
		return fn(ctx, dir, cfg)
	})
}

// findEntry returns the entry that name means: a worker ID, else a node.
func findEntry(entries []worker.Entry, name string) (worker.Entry, error) {
	var byNode []worker.Entry
	var byID *worker.Entry
	id, idErr := strconv.ParseInt(name, 10, 64)
	for i, e := range entries {
		if e.Node == name {
			byNode = append(byNode, e)
		}
		// A claim of the same number that was never finished comes second.
		if idErr == nil && e.WorkerID == id && (byID == nil || byID.State == worker.StateClaiming) {
			byID = &entries[i]
		}
	}
	switch {
	case byID != nil && len(byNode) == 0, byID != nil && len(byNode) == 1 && byNode[0].WorkerID == id:
		return *byID, nil
	case byID != nil:
		return worker.Entry{}, fmt.Errorf("%q is both a worker ID, which node %q has, and a node, which has worker ID %s: "+
			"name the entry by the other of the two", name, byID.Node, workerIDs(byNode))
	case len(byNode) == 1:
		return byNode[0], nil
	case len(byNode) > 1:
		return worker.Entry{}, fmt.Errorf("node %q has several entries, of the worker IDs %s: name the entry by its worker ID", name, workerIDs(byNode))
	}
	return worker.Entry{}, noEntry(entries, name, idErr == nil)
}

// noEntry says that no entry has that name, and which may have been meant.
func noEntry(entries []worker.Entry, name string, number bool) error {
	var near string
	switch {
	case len(entries) == 0:
		near = "; there is none at all under this root"
	case number:
		near = fmt.Sprintf("; there are %d, of the worker IDs %d to %d", len(entries), entries[0].WorkerID, entries[len(entries)-1].WorkerID)
	default:
		var nodes []string
		for _, e := range entries {
			nodes = append(nodes, e.Node)
		}
		near = hint(name, nodes, "")
	}
	return &saidError{worker.ErrNoEntry, fmt.Sprintf("no worker ID and no node is %q%s; leafd worker list shows all", name, near)}
}

func workerIDs(entries []worker.Entry) string {
	var ids []string
	for _, e := range entries {
		ids = append(ids, strconv.FormatInt(e.WorkerID, 10))
	}
	return strings.Join(ids, ", ")
}

// asker asks the daemons of a cluster for their clocks, as a daemon with these
// settings would.
func (a *app) asker(cfg Config) (worker.Asker, error) {
	var certificates *server.Certificates
	if cfg.TLS.Cert != "" {
		var err error
		if certificates, err = server.OpenCertificates(cfg.TLS, 0, nil); err != nil {
			return nil, asUsage(err)
		}
	}
	return peerclock.New(cfg.peers(a.Clock, certificates))
}
