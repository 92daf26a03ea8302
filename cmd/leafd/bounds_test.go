package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
)

// attack is what clients without a token do, all at once and over and over.
type attack struct {
	name    string
	clients int
	depth   int                // requests that are sent without reading an answer
	reads   bool               // answers are read at all
	path    func(i int) string // of the i-th request of a client
}

func always(path string) func(int) string { return func(int) string { return path } }

// launch begins the attack. The returned function ends it, and tells how many bytes were read.
func (a attack) launch(t *testing.T, addr string) (end func() int64) {
	t.Helper()
	var read atomic.Int64
	var clients sync.WaitGroup
	var conns []net.Conn
	// The kernel holds little for the clients: what it holds is the daemon's.
	narrow := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		cerr := raw.Control(func(fd uintptr) {
			for _, buffer := range []int{syscall.SO_SNDBUF, syscall.SO_RCVBUF} {
				err = errors.Join(err, syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, buffer, 16<<10))
			}
		})
		return errors.Join(cerr, err)
	}}
	for client := range a.clients {
		var requests strings.Builder
		for i := range a.depth {
			fmt.Fprintf(&requests, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", a.path(client*a.depth+i), addr)
		}
		conn, err := narrow.DialContext(t.Context(), "tcp", addr)
		require.NoError(t, err)
		conns = append(conns, conn)
		clients.Go(func() {
			for {
				if _, err := io.WriteString(conn, requests.String()); err != nil {
					return
				}
			}
		})
		if a.reads {
			clients.Go(func() {
				buffer := make([]byte, 1<<16)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					read.Add(int64(n))
				}
			})
		}
	}
	return func() int64 {
		for _, conn := range conns {
			_ = conn.Close()
		}
		clients.Wait()
		return read.Load()
	}
}

// held is what a daemon has of the machine.
type held struct {
	descriptors int
	memory      int // MiB, at most since reset
	kernel      int // MiB that all sockets of the machine hold
}

func (l *child) held(t *testing.T) held {
	t.Helper()
	pid := strconv.Itoa(l.Pid())
	files, err := os.ReadDir("/proc/" + pid + "/fd")
	require.NoError(t, err)
	number := func(file, pattern string, unit int) int {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		require.NotNil(t, found, "%s", text)
		n, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return n * unit >> 20
	}
	return held{len(files), number("/proc/"+pid+"/status", `VmHWM:\s+(\d+) kB`, 1<<10), number("/proc/net/sockstat", `TCP:.* mem (\d+)`, os.Getpagesize())}
}

// innocent asks for IDs of tags that no other client has asked for, of one tag, and for snowflake IDs, for d,
// and for the pages of operators. Each request for IDs has to succeed; a page has its turn in the end,
// which a starved machine is late with. It returns the latencies of the IDs.
func (l *child) innocent(t *testing.T, d time.Duration, fresh *atomic.Int64) (all []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, path := range []func() string{
		func() string { return "/api/snowflake/get/x" },
		func() string { return "/api/segment/get/hot" },
		func() string { return fmt.Sprintf("/api/segment/get/tag-%d", fresh.Add(1)) },
	} {
		asking.Go(func() {
			client := http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
				began, at := time.Now(), path()
				res, err := client.Get(l.url + at)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("%s: %d %s %v", at, res.StatusCode, body, err)
					return
				}
				mu.Lock()
				all = append(all, time.Since(began))
				mu.Unlock()
			}
		})
	}
	for _, path := range []string{"/db", "/cache", "/api/segments", "/api/overview", "/metrics", "/readyz"} {
		asking.Go(func() {
			for end := time.Now().Add(eventually); ; {
				a, err := l.get(path)
				if err == nil && a.status == http.StatusOK {
					return
				}
				if err != nil || !strings.Contains(a.body, "too many ask for lists at once") || time.Now().After(end) {
					t.Errorf("operators ask for %s: %d %s %v", path, a.status, a.body, err)
					return
				}
			}
		})
	}
	asking.Wait()
	slices.Sort(all)
	return all
}

// What clients without a token hold of the daemon is bounded, for all requests, and whether they read
// the answers or not; no other client is refused an ID, nor operators their pages.
func TestClientsHoldNoMoreThanTheirShare(t *testing.T) {
	const tags = 10_000
	var rows []string
	for i := range tags {
		rows = append(rows, fmt.Sprintf("('tag-%d', 1, 1000, 'the tag of a test')", i+1))
	}
	insert := "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES ('hot', 1, 1000, ''), " + strings.Join(rows, ", ")
	cursor := func(i int) string { return fmt.Sprintf("/api/segments?after=tag-%d", 1+i*7919%tags) }
	mixed := func(i int) string {
		return []string{"/cache?tag=" + strconv.Itoa(i%10), "/api/overview?tag=" + strconv.Itoa(i%10), "/api/segments?limit=1000", "/api/workers", "/metrics", "/api/clock", "/db?tag=9"}[i%7]
	}
	sqlite := func(t *testing.T, m *machine) []string {
		require.NoError(t, os.Mkdir(m.dataDir(), 0o700))
		path := filepath.Join(m.dataDir(), "segments.db")
		file, err := sqlstore.OpenSQLite(path)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		db, err := sql.Open("sqlite", "file:"+path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), insert)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		return nil
	}
	for _, store := range []struct {
		name    string
		args    func(t *testing.T, m *machine) []string
		attacks []attack
	}{
		{"SQLite", sqlite, []attack{
			{"pages of tags, unread", 200, 20, false, cursor},
			{"all lists", 100, 20, true, mixed},
			{"scrapes, unread", 100, 16, false, always("/metrics")},
			{"batches, unread", 1000, 4, false, always("/api/segment/get/hot?n=10000")},
		}},
		{"MariaDB", func(t *testing.T, _ *machine) []string {
			mariadb := mariadbtest.Shared(t)
			name := mariadb.NewDatabase(t)
			db := mariadb.DB(t, name)
			javaTable(t, db)
			_, err := db.ExecContext(t.Context(), insert)
			require.NoError(t, err)
			return []string{"--mysql", mariadb.DSN(name)}
		}, []attack{
			{"pages of the table", 50, 16, true, always("/db")},
		}},
	} {
		t.Run(store.name, func(t *testing.T) {
			m := newMachine(t)
			l := m.ready(append(store.args(t, m), tune("SegmentWait", "20s"))...) // the machine may be busy with other tests
			defer func() { require.Equal(t, cli.ExitOK, l.stop()) }()
			var fresh atomic.Int64
			alone, before := l.innocent(t, 300*time.Millisecond, &fresh), l.held(t)
			earlier := 0 // clients that are gone, and may have left requests that still wait for their turn
			for _, a := range store.attacks {
				require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", l.Pid()), []byte("5"), 0o600)) // VmHWM
				end := a.launch(t, l.addr)
				time.Sleep(100 * time.Millisecond)
				beside, now := l.innocent(t, 300*time.Millisecond, &fresh), l.held(t)
				read := end()
				t.Logf("%s: %d clients read %d MiB; %d descriptors and %d MiB (of the kernel %d) beyond %d and %d; latency p50 %s p99 %s, without %s and %s", a.name, a.clients, read>>20,
					now.descriptors-before.descriptors, now.memory-before.memory, now.kernel-before.kernel, before.descriptors, before.memory,
					beside[len(beside)/2], beside[len(beside)*99/100], alone[len(alone)/2], alone[len(alone)*99/100])
				require.LessOrEqual(t, now.descriptors-before.descriptors, earlier+a.clients+40, a.name)
				earlier += a.clients
				require.Less(t, now.memory-before.memory, 500, a.name)
				require.Less(t, now.kernel-before.kernel, 800, a.name)
			}
		})
	}
}
