// Package clustertest starts the servers and the daemons of a leafd cluster for programs that are
// no test: chaos and `make cluster`.
package clustertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// database is the one that the script makes.
const database = "leaf"

// Config is what a cluster is made of.
type Config struct {
	Leafd string // the daemon's program
	SQL   string // the script that makes the table of the segments
	// Voters is how many servers an ensemble has; 0: ZooKeeper is one server alone, at ZooKeeperPort.
	Voters                     int
	ZooKeeperPort, MariaDBPort int // 0: any that is free
}

// Cluster is the servers, which run until End.
type Cluster struct {
	*proctest.Outside
	ZooKeeper *zookeepertest.Server   // nil where there is an ensemble
	Ensemble  *zookeepertest.Ensemble // nil where there is none
	MariaDB   *mariadbtest.Server
	DB        *sql.DB
	DSN       string // for daemons

	cfg Config
}

// Start starts the servers and makes the table. After an error nothing is left running.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if _, err := exec.LookPath(cfg.Leafd); err != nil {
		return nil, fmt.Errorf("the daemon's program: %w; make build makes it", err)
	}
	script, err := os.ReadFile(cfg.SQL)
	if err != nil {
		return nil, fmt.Errorf("the script of the table: %w; run this in leafd's source directory", err)
	}
	c := &Cluster{Outside: proctest.NewOutside(ctx), cfg: cfg}
	err = c.Do(func(t testing.TB) {
		if cfg.Voters > 0 {
			c.Ensemble = zookeepertest.StartEnsemble(t, cfg.Voters)
		} else {
			c.ZooKeeper = zookeepertest.StartAt(t, cfg.ZooKeeperPort)
		}
		c.MariaDB = mariadbtest.StartAt(t, cfg.MariaDBPort)
		if _, err := c.MariaDB.DB(t, "").ExecContext(ctx, string(script)); err != nil {
			t.Fatalf("%s: %v", cfg.SQL, err)
		}
		c.DB, c.DSN = c.MariaDB.DB(t, database), c.MariaDB.DSN(database)
	})
	if err != nil {
		return nil, errors.Join(err, c.End())
	}
	return c, nil
}

// Addrs returns the addresses of ZooKeeper's servers.
func (c *Cluster) Addrs() []string {
	if c.Ensemble != nil {
		return c.Ensemble.Addrs()
	}
	return []string{c.ZooKeeper.Addr()}
}

// Leafd runs a command about the cluster, and returns what it printed.
func (c *Cluster) Leafd(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.cfg.Leafd, append(args, "--config=", "--zk", strings.Join(c.Addrs(), ","))...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("leafd %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Daemon is how a daemon is started.
type Daemon struct {
	Address, Dir string   // where it listens, and its data directory
	ZooKeeper    []string // addresses; nil: ZooKeeper's own
	MySQL        string   // a DSN; "": MariaDB's own
	Flags, Env   []string
	Inside       []string // the command that runs the program; nil: none
	Output       io.Writer
}

// StartDaemon starts a daemon; it may still be starting, or fail, when this returns.
func (c *Cluster) StartDaemon(d Daemon) (*proctest.Daemon, error) {
	if d.ZooKeeper == nil {
		d.ZooKeeper = c.Addrs()
	}
	if d.MySQL == "" {
		d.MySQL = c.DSN
	}
	command := append(d.Inside, c.cfg.Leafd, "serve", "--config=", "--listen", d.Address, "--data-dir", d.Dir, "--zk", strings.Join(d.ZooKeeper, ","))
	return proctest.StartDaemon(proctest.Config{
		Command: append(command, d.Flags...), Env: append(d.Env, "LEAFD_MYSQL="+d.MySQL), Address: d.Address, Output: d.Output,
	})
}
