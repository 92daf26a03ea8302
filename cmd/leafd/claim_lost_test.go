package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
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
	answerHeld               // as answerLost, but without a sign of it: no more answers come
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

// Operations of ZooKeeper's protocol: all writes are transactions, and one that begins with a Set
// asks for ZooKeeper's time; those that count begin with the root, or with what they replace.
const (
	opSet   = 5
	opMulti = 14
)

func (k *link) request(packet []byte) bool {
	if binary.BigEndian.Uint32(packet[4:]) != opMulti || binary.BigEndian.Uint32(packet[8:]) == opSet {
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
	k.answers, k.xid = what, binary.BigEndian.Uint32(packet)
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

// happened waits until the write was lost.
func (k *link) happened() {
	k.t.Helper()
	select {
	case <-k.lost:
	case <-time.After(eventually):
		k.t.Fatalf("write %d never came", k.write)
	}
}

// claimWrites is how many writes a first start makes up to its place in the live set: the claim, its
// promotion, the report, the temporary node.
const claimWrites = 4

// severed returns a machine of a cluster of its own, with a network that fails at a write.
func severed(t *testing.T, write int, what fault) (*machine, *link, *onlooker) {
	t.Helper()
	c := onShared(t)
	k := newLink(t, c.servers[0], write, func() fault { return what })
	c.servers = []string{k.addr()}
	return c.machine(append(frequent(), "--modes", "snowflake")...), k, c.watch() // segments have a connection of their own
}

// The connection is cut at each write of a first start, before ZooKeeper has it or
// before its answer is through: what was done is found again, and done once. But a claim that
// lost its answer is given up: its number is not known, and nothing is issued under it.
func TestLostWritesOfAClaim(t *testing.T) {
	t.Parallel()
	type start struct {
		name  string
		given int64 // worker ID
		l     *child
		k     *link
		o     *onlooker
	}
	var starts []start
	for write := 1; write <= claimWrites; write++ {
		for name, what := range map[string]fault{"request": requestLost, "answer": answerLost} {
			m, k, o := severed(t, write, what)
			given := int64(0)
			if write == 1 && what == answerLost {
				given = 1
			}
			starts = append(starts, start{fmt.Sprintf("write %d, %s", write, name), given, m.start(), k, o})
		}
	}
	for _, s := range starts {
		s.k.happened()
		s.l.awaitStatus("/readyz", http.StatusOK)
		require.Equal(t, s.given, s.l.info().ID, s.name)
		require.Len(t, s.o.entries(), int(s.given)+1, s.name)
		require.Equal(t, s.l.info().Owner, s.o.must(s.o.path(s.given)).payload(t).Owner, s.name)
		if s.given > 0 {
			gone := s.o.must(s.o.path(0)).payload(t)
			require.Equal(t, "claiming", gone.State)
			require.Equal(t, gone.Floor, gone.Limit)
		}
		require.Eventually(t, func() bool { return slices.Equal([]string{s.l.addr}, s.o.live()) }, eventually, tick, s.name)
		s.l.batch("/api/snowflake/get/a?n=10")
		require.Equal(t, cli.ExitOK, s.l.stop(), s.name)
		require.Empty(t, s.o.live(), s.name)
		require.False(t, s.l.hasLogged("worker_fenced"), s.name)
	}
}

// A power cut after ZooKeeper has done a write of the claim, and before the daemon
// knows: the next start finds its worker ID once it is promoted, and claims another one before.
func TestPowerCutInAClaim(t *testing.T) {
	t.Parallel()
	var watchers []*onlooker
	var daemons []*child
	var all [][]int64 // of those that issued before
	for write := 1; write <= claimWrites; write++ {
		m, k, o := severed(t, write, answerHeld)
		l := m.start()
		k.happened()
		_, entry := o.entry()
		require.Equal(t, map[bool]string{true: "claiming", false: "active"}[write == 1], entry.payload(t).State)
		if write > 2 { // the report: the local file is enough
			l.awaitStatus("/readyz", http.StatusOK)
			all = append(all, l.batch("/api/snowflake/get/a?n=100"))
		} else {
			require.Equal(t, http.StatusServiceUnavailable, l.mustGet("/api/snowflake/get/a").status, "it waits for the answer")
		}
		l.kill()
		require.Equal(t, write > 2, len(o.live()) > 0, "its own temporary node is in the way")
		m.zk = append(m.zk, "--zk", zookeepertest.Shared(t).Addr()) // nothing fails any more
		watchers, daemons = append(watchers, o), append(daemons, m.start())
	}
	for i, l := range daemons {
		l.awaitStatus("/readyz", http.StatusOK)
		id := l.info().ID
		require.EqualValues(t, map[bool]int{true: 1, false: 0}[i == 0], id, "the first claim's number is lost with its answer")
		require.Equal(t, l.info().Owner, watchers[i].must(watchers[i].path(id)).payload(t).Owner)
		require.Len(t, watchers[i].entries(), int(id)+1)
		got := l.batch("/api/snowflake/get/a?n=100")
		if i >= 2 {
			require.Greater(t, slices.Min(got), slices.Max(all[i-2]))
			requireDistinct(t, append(all[i-2], got...))
		}
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
