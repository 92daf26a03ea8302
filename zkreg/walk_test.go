package zkreg_test

import (
	"path"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/walktest"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zookeepertest"
)

// network is what lies between the daemons of a walk and the ensemble: each has a
// line of its own to one of the servers, cut for good when it dies.
type network struct {
	t        *testing.T
	ensemble *zookeepertest.Ensemble

	mu    sync.Mutex
	lines map[*zookeepertest.Proxy]bool // mu protects
	laid  int                           // mu protects
	down  bool                          // mu protects
}

func (n *network) lay() *zookeepertest.Proxy {
	n.mu.Lock()
	defer n.mu.Unlock()
	addrs := n.ensemble.Addrs()
	p := zookeepertest.NewProxy(n.t, addrs[n.laid%len(addrs)])
	n.laid++
	n.lines[p] = true
	if n.down {
		p.Down(n.t)
	}
	return p
}

func (n *network) cut(p *zookeepertest.Proxy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.Down(n.t)
	delete(n.lines, p)
}

func (n *network) set(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for p := range n.lines {
		if down {
			p.Down(n.t)
		} else {
			p.Up(n.t)
		}
	}
}

// The walk of package worker's tests on a real ensemble.
func TestRandomWalkOnAnEnsemble(t *testing.T) {
	t.Parallel()
	const speed = 20
	ensemble := zookeepertest.StartEnsemble(t, 3)
	const root = "/walk"
	cfg := zkreg.Config{
		Servers: ensemble.Addrs(), Root: root, Layout: walktest.Layout(), SessionTimeout: 2 * time.Second,
		Settle: 8 * time.Second * speed, Clock: walktest.Clock(speed),
	}
	directory, err := zkreg.OpenDirectory(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, directory.Close()) }()
	_, err = directory.Init(t.Context())
	require.NoError(t, err)
	var closing sync.WaitGroup
	defer closing.Wait()
	net := &network{t: t, ensemble: ensemble, lines: map[*zookeepertest.Proxy]bool{}}

	r := walktest.Run(t, walktest.Config{
		Seed: 7, Steps: 1000, Speed: speed, NoneBeside: true, Lease: worker.DefaultLease,
		Open: func(node string, clk clock.Clock) (worker.Registry, func(), error) {
			line := net.lay()
			own := cfg
			own.Node, own.Address, own.Servers, own.Clock = node, node, []string{line.Addr()}, clk
			registry, err := zkreg.Open(own)
			return registry, func() {
				net.cut(line)
				// The line is cut: its session has to time out, and who was killed waits for nothing.
				closing.Go(func() { _ = registry.Close() })
			}, err
		},
		Directory: directory,
		Down:      func() { net.set(true) },
		Up:        func() { net.set(false) },
		Wipe:      func() { ensemble.Wipe(t) },
		Expire: func(node string) {
			_ = ensemble.Conn(t).Delete(path.Join(root, "leaf_temporary", node), -1) // it may not be there
		},
		OpenCluster: func() {
			_, err := directory.Open(t.Context())
			require.NoError(t, err)
		},
		MaxWait: 30 * time.Second, LookTimeout: 300 * time.Millisecond,
	})
	t.Logf("%+v", r)
	require.Zero(t, r.Repeats)
	require.Greater(t, r.Lives, 20)
}
