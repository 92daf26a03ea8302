package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/zookeepertest"
)

// fault is what becomes of a write on a link.
type fault int

const (
	requestLost fault = iota // the connection is cut before ZooKeeper has it
	answerLost               // ZooKeeper has done it, and the connection is cut before it says so
	answerHeld               // as answerLost, but nobody is told: no more answers come
	passed                   // nothing
)

// link is the network between a daemon and ZooKeeper. It reads along, so that it
// fails at one certain write; before and after that it works.
type link struct {
	t        *testing.T
	listener net.Listener
	upstream string
	write    int           // which one, from 1
	fails    func() fault  // called when it comes
	lost     chan struct{} // closed once it is done

	conns   sync.WaitGroup
	mu      sync.Mutex
	open    []net.Conn // mu protects
	writes  int        // mu protects; so far
	answers fault      // mu protects; of the answer that is waited for; passed: of none
	xid     uint32     // mu protects; of the write
	multi   bool       // mu protects; the write is a transaction
}

func newLink(t *testing.T, upstream string, write int, fails func() fault) *link {
	t.Helper()
	k := &link{t: t, upstream: upstream, write: write, fails: fails, lost: make(chan struct{}), answers: passed}
	var err error
	k.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k.conns.Go(k.accept)
	t.Cleanup(func() {
		_ = k.listener.Close()
		k.mu.Lock()
		for _, conn := range k.open {
			_ = conn.Close()
		}
		k.open = nil
		k.mu.Unlock()
		k.conns.Wait()
	})
	return k
}

func (k *link) addr() string { return k.listener.Addr().String() }

func (k *link) accept() {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", k.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		k.mu.Lock()
		k.open = append(k.open, client, server)
		k.mu.Unlock()
		k.conns.Go(func() { k.pass(client, server, k.request) })
		k.conns.Go(func() { k.pass(server, client, k.answer) })
	}
}

// pass hands on what from sends, the first packet, of the connection's set-up, unseen
// and each other one when good says so.
func (k *link) pass(from io.Reader, to io.WriteCloser, good func(packet []byte) bool) {
	defer func() { _ = to.Close() }()
	for first := true; ; first = false {
		var length [4]byte
		if _, err := io.ReadFull(from, length[:]); err != nil {
			return
		}
		packet := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
		copy(packet, length[:])
		if _, err := io.ReadFull(from, packet[4:]); err != nil {
			return
		}
		if !first && !good(packet[4:]) {
			if k.isHeld() {
				_, _ = io.Copy(io.Discard, from)
			}
			return
		}
		if _, err := to.Write(packet); err != nil {
			return
		}
	}
}

// Operations of ZooKeeper's protocol that write.
const (
	opCreate  = 1
	opDelete  = 2
	opSetData = 5
	opMulti   = 14
)

func (k *link) request(packet []byte) bool {
	op := binary.BigEndian.Uint32(packet[4:])
	if op != opCreate && op != opDelete && op != opSetData && op != opMulti {
		return true
	}
	k.mu.Lock()
	k.writes++
	met := k.writes == k.write
	k.mu.Unlock()
	if !met {
		return true
	}
	what := k.fails()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.multi, k.answers, k.xid = op == opMulti, what, binary.BigEndian.Uint32(packet)
	if what == requestLost || what == passed {
		k.answers = passed
		close(k.lost)
	}
	return what != requestLost
}

func (k *link) answer(packet []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answers == passed || binary.BigEndian.Uint32(packet) != k.xid {
		return true
	}
	if k.answers == answerLost {
		k.answers = passed
	}
	close(k.lost)
	return false
}

func (k *link) isHeld() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answers == answerHeld
}

// barrier lets writes on several links through together.
type barrier struct {
	missing atomic.Int32
	open    chan struct{}
}

func newBarrier(n int32) *barrier {
	b := &barrier{open: make(chan struct{})}
	b.missing.Store(n)
	return b
}

// wait is a link's fault: none, once all have come.
func (b *barrier) wait() fault {
	if b.missing.Add(-1) == 0 {
		close(b.open)
	}
	select {
	case <-b.open:
	case <-time.After(eventually): // the test sees that they had to do without each other
	}
	return passed
}

// happened waits until the write was lost, and tells whether it was a transaction.
func (k *link) happened() (multi bool) {
	k.t.Helper()
	select {
	case <-k.lost:
	case <-time.After(eventually):
		k.t.Fatalf("write %d never came", k.write)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.multi
}

// claimWrites is how many writes a first start makes up to its first report: the claim,
// its confirmation, the report.
const claimWrites = 3

// severed returns a machine of a cluster of its own whose network fails at a write.
func severed(t *testing.T, write int, what fault) (*machine, *link, *onlooker) {
	t.Helper()
	c := onShared(t)
	k := newLink(t, c.servers[0], write, func() fault { return what })
	c.servers = []string{k.addr()}
	return c.machine(append(frequent(), "--modes", "snowflake")...), k, c.watch() // segments have a connection of their own
}

// The connection is cut at each write of a first start, before ZooKeeper has it or
// before its answer is through: what was done is found again, and done once.
func TestLostWritesOfAClaim(t *testing.T) {
	t.Parallel()
	type start struct {
		name string
		l    *child
		k    *link
		o    *onlooker
	}
	var starts []start
	for write := 1; write <= claimWrites; write++ {
		for name, what := range map[string]fault{"request": requestLost, "answer": answerLost} {
			m, k, o := severed(t, write, what)
			starts = append(starts, start{fmt.Sprintf("write %d, %s", write, name), m.start(), k, o})
		}
	}
	transactions := 0
	for _, s := range starts {
		if s.k.happened() {
			transactions++
		}
		s.l.awaitStatus("/readyz", http.StatusOK)
		require.Zero(t, s.l.info().ID, s.name)
		_, entry := s.o.entry() // one
		require.Equal(t, s.l.info().Owner, entry.payload(t).Owner, s.name)
		require.Equal(t, []string{s.l.info().Node}, s.o.live(), s.name)
		s.l.batch("/api/snowflake/get/a?n=10")
		require.Equal(t, cli.ExitOK, s.l.stop(), s.name)
		require.Empty(t, s.o.live(), s.name)
		require.False(t, s.l.hasLogged("worker_fenced"), s.name)
	}
	require.GreaterOrEqual(t, transactions, 6, "claim, confirmation and report")
}

// A power cut after ZooKeeper has done a write of the claim, and before the daemon
// knows: the next start finds its worker ID, and no second entry is made.
func TestPowerCutInAClaim(t *testing.T) {
	t.Parallel()
	var watchers []*onlooker
	var daemons []*child
	var all []int64
	for write := claimWrites - 2; write <= claimWrites; write++ {
		m, k, o := severed(t, write, answerHeld)
		l := m.start()
		require.True(t, k.happened(), "write %d is no transaction", write)
		_, entry := o.entry()
		require.Contains(t, []string{"claiming", "active"}, entry.payload(t).State)
		if write == claimWrites { // the report: the local file is enough
			all = append(all, l.batch("/api/snowflake/get/a?n=100")...)
		} else {
			require.Equal(t, http.StatusServiceUnavailable, l.mustGet("/api/snowflake/get/a").status, "it waits for the answer")
		}
		l.kill()
		require.NotEmpty(t, o.live(), "its own temporary node is in the way")
		m.zk = append(m.zk, "--zk", zookeepertest.Shared(t).Addr()) // nothing fails any more
		watchers, daemons = append(watchers, o), append(daemons, m.start())
	}
	for i, l := range daemons {
		l.awaitStatus("/readyz", http.StatusOK)
		require.Zero(t, l.info().ID)
		path, _ := watchers[i].entry()
		require.True(t, strings.HasSuffix(path, "/"+l.info().Node+"-0000000000"), path)
		got := l.batch("/api/snowflake/get/a?n=100")
		if i == len(daemons)-1 {
			requireDistinct(t, append(all, got...))
		}
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
