package main

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// happened waits until the write was lost.
func (k *link) happened() {
	k.t.Helper()
	select {
	case <-k.lost:
	case <-time.After(eventually):
		k.t.Fatalf("write %d never came", k.write)
	}
}
