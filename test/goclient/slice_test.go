package goclient

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/client"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// borrowFrom is the variable of the environment that makes this program a borrower, with the daemons' addresses.
const borrowFrom = "LEAFD_BORROW_FROM"

// borrow prints IDs of a client with a slice, "lent" with its first one, "ended" after its last, and "failed" where a call
// fails that has a slice, until it is killed.
func borrow() error {
	c, err := client.New(client.Config{Addresses: strings.Split(os.Getenv(borrowFrom), ","), Lease: time.Hour})
	if err != nil {
		return err
	}
	s := c.Snowflake("order")
	has := false
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		id, err := s.Next(ctx)
		cancel()
		st := s.Stats()
		switch {
		case err == nil:
			_, err = fmt.Println(id)
		case st.Lease > 0:
			_, err = fmt.Println("failed", err)
		default:
			err = nil
		}
		if now := st.Lease > 0; now != has {
			has = now
			fmt.Println(map[bool]string{true: "lent", false: "ended"}[has])
		}
		if err != nil {
			return err // the test is gone
		}
		time.Sleep(time.Millisecond)
	}
}

// borrower is a process that borrows.
type borrower struct {
	process *os.Process
	ids     *distinct
	mu      sync.Mutex
	said    map[string]int // mu protects; words by count
	n       int            // mu protects; IDs
}

// distinct is IDs that differ.
type distinct struct {
	t    *testing.T
	mu   sync.Mutex
	seen map[int64]bool // mu protects
}

func (d *distinct) add(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[id] {
		d.t.Errorf("%d twice", id)
	}
	d.seen[id] = true
}

func startBorrower(t *testing.T, ids *distinct, addresses ...string) *borrower {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), borrowFrom+"="+strings.Join(addresses, ","))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	b := &borrower{process: cmd.Process, ids: ids, said: make(map[string]int)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			b.line(lines.Text())
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		<-read
		var killed *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &killed)
	})
	return b
}

func (b *borrower) line(line string) {
	var id int64
	_, err := fmt.Sscan(line, &id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.said[strings.Fields(line)[0]]++
		return
	}
	b.n++
	b.ids.add(id)
}

// says waits until the borrower has said a word more often than before.
func (b *borrower) says(word string, before int) {
	b.ids.t.Helper()
	require.Eventually(b.ids.t, func() bool { n, _ := b.count(word); return n > before }, proctest.Patience, time.Millisecond, word)
}

func (b *borrower) count(word string) (said, ids int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said[word], b.n
}

// TestSlicesGoOn: while all daemons are killed, processes that have slices make IDs until these end; one that is frozen
// meanwhile makes none afterwards. When the daemons are back they have ranges, then slices, and no ID comes twice.
func TestSlicesGoOn(t *testing.T) {
	t.Parallel()
	zk := zookeepertest.Start(t).Addr()
	const lend = "5s"
	out, err := exec.CommandContext(t.Context(), proctest.Leafd(t), "cluster", "init", "--new", "--yes", "--zk", zk, "--longest-lend", lend).CombinedOutput()
	require.NoError(t, err, "%s", out)
	daemons := []*leafd{startLeafd(t, "--zk", zk, "--lend", lend), startLeafd(t, "--zk", zk, "--lend", lend)}
	addresses := []string{daemons[0].URL, daemons[1].URL}
	ids := &distinct{t: t, seen: make(map[int64]bool)}
	c, err := client.New(client.Config{Addresses: addresses})
	require.NoError(t, err)
	defer c.Close()
	own := func(n int) { // the daemons' own
		t.Helper()
		batch := make([]int64, 1000)
		for range n {
			require.NoError(t, c.Snowflake("own").NextN(within(t), batch))
			for _, id := range batch {
				ids.add(id)
			}
		}
	}
	var all []*borrower
	for range 4 {
		all = append(all, startBorrower(t, ids, addresses...))
	}
	for _, b := range all {
		b.says("lent", 0)
	}
	own(100)
	frozen, others := all[0], all[1:]
	require.NoError(t, frozen.process.Signal(syscall.SIGSTOP))
	for _, d := range daemons {
		require.NoError(t, d.End(syscall.SIGKILL))
	}
	before := make([]int, len(others))
	for i, b := range others {
		_, before[i] = b.count("")
	}
	for i, b := range others {
		b.says("ended", 0)
		_, after := b.count("")
		require.Greater(t, after, before[i]+100)
		t.Logf("%d IDs without a daemon", after-before[i])
	}
	require.NoError(t, frozen.process.Signal(syscall.SIGCONT))
	frozen.says("ended", 0)
	for _, d := range daemons {
		d.launch()
	}
	for _, d := range daemons {
		d.awaitReady()
	}
	own(100)
	for _, b := range all {
		b.says("lent", 1)
		failed, _ := b.count("failed")
		require.Zero(t, failed, "a call that has a slice")
	}
	own(100)
}
