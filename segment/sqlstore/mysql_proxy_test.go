package sqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/segmenttest"
)

// newProxy returns a proxy before the server.
func newProxy(t testing.TB, server *mariadbtest.Server) *toxiproxy.Proxy {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(api, "mariadb", "127.0.0.1:0", server.Addr())
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return proxy
}

func addToxic(t testing.TB, proxy *toxiproxy.Proxy, format string, args ...any) {
	t.Helper()
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(format, args...)))
	require.NoError(t, err)
}

// TestMySQLCutAnywhere cuts the connection after every number of bytes that the
// server answers, and so also between its commit and our learning of it. Then
// the range is lost: no caller must get it, then or later.
func TestMySQLCutAnywhere(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, javaScript, "")
	proxy := newProxy(t, server)
	dsn := strings.Replace(server.DSN(database), server.Addr(), proxy.Listen, 1)
	var ranges []segment.Range
	failures := 0
	// The answer to a commit has 11 bytes: steps of 5 can't jump over it.
	for bytes := 0; len(ranges) < 20; bytes += 5 {
		require.Less(t, bytes, 1<<16, "no fetch ever got through")
		addToxic(t, proxy, `{"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":%d}}`, bytes)
		store := openMySQL(t, dsn)
		r, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
		require.NoError(t, store.Close())
		if err == nil {
			ranges = append(ranges, r)
		} else {
			failures++
		}
		require.NoError(t, proxy.Toxics.RemoveToxic(t.Context(), "cut"))
	}
	requireDisjoint(t, ranges)
	steps := (maxIDOf(t, db, "leaf-segment-test") - 1) / 2000
	require.Greater(t, steps, int64(len(ranges)), "no cut of %d fell between a commit and its answer", failures)
}

// TestMySQLSlowLine: with a line that slow a fetch takes a while, and is right.
func TestMySQLSlowLine(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, javaScript, "")
	proxy := newProxy(t, server)
	addToxic(t, proxy, `{"type":"latency","stream":"downstream","attributes":{"latency":40,"jitter":20}}`)
	dsn := strings.Replace(server.DSN(database), server.Addr(), proxy.Listen, 1)
	f := startFetcher(t, openMySQL(t, dsn+generous), openMySQL(t, dsn+generous))
	f.awaitRanges(t, 10)
	f.end()
	requireDisjoint(t, f.ranges)
	require.GreaterOrEqual(t, maxIDOf(t, db, "leaf-segment-test"), f.ranges[len(f.ranges)-1].Hi)
}

// TestMySQLSilentLine: packets vanish. A fetch ends by the time-outs, and the
// next one goes through once the line is back, over a new connection.
func TestMySQLSilentLine(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, javaScript, "")
	proxy := newProxy(t, server)
	dsn := strings.Replace(server.DSN(database), server.Addr(), proxy.Listen, 1)
	store := openMySQL(t, dsn)
	first := awaitFetch(t, store)
	addToxic(t, proxy, `{"name":"silence","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
	_, err := store.Fetch(t.Context(), "leaf-segment-test", 0, 0)
	require.Error(t, err)
	require.NoError(t, proxy.Toxics.RemoveToxic(t.Context(), "silence"))
	second := awaitFetch(t, store)
	requireDisjoint(t, []segment.Range{first, second})
	require.Equal(t, second.Hi, maxIDOf(t, db, "leaf-segment-test"))
}

// holdAnswer returns the address of a proxy for one connection to the server, which holds the
// answer to the statement that begins with text, and all after it, until it is released.
func holdAnswer(t testing.TB, server *mariadbtest.Server, text string) (address string, release func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gate := make(chan struct{})
	var ended sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); ended.Wait() })
	ended.Go(func() {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		defer client.Close() //nolint:errcheck // what was to pass has passed
		backend, err := net.Dial("tcp", server.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		var asked atomic.Bool
		ended.Go(func() {
			defer client.Close() //nolint:errcheck // what was to pass has passed
			for buf := make([]byte, 1<<16); ; {
				n, err := backend.Read(buf)
				if err != nil {
					return
				}
				if asked.Load() {
					<-gate
				}
				_, _ = client.Write(buf[:n]) // of a client that is gone nothing more comes either
			}
		})
		defer backend.Close() //nolint:errcheck // what was to pass has passed
		for buf := make([]byte, 1<<16); ; {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			asked.Store(asked.Load() || bytes.Contains(buf[:n], []byte(text)))
			_, _ = backend.Write(buf[:n])
		}
	})
	return ln.Addr().String(), sync.OnceFunc(func() { close(gate) })
}

// TestMySQLDemotedInBetween: read_only is set once the row is locked, before max_id is moved.
func TestMySQLDemotedInBetween(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, ourScript, "")
	address, release := holdAnswer(t, server, "FOR UPDATE")
	store := openMySQL(t, strings.Replace(server.DSN(database), server.Addr(), address, 1)+generous)
	t.Cleanup(release)
	before := maxIDOf(t, db, "leaf-segment-test")
	fetched := make(chan error, 1)
	go func() {
		_, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
		fetched <- err
	}()
	for locked := error(nil); locked == nil; {
		_, locked = db.ExecContext(t.Context(), "SELECT 1 FROM leaf_alloc WHERE biz_tag = 'leaf-segment-test' FOR UPDATE NOWAIT")
		require.Empty(t, fetched)
	}
	execSQL(t, db, "SET GLOBAL read_only = 1")
	defer execSQL(t, db, "SET GLOBAL read_only = 0")
	release()
	require.ErrorIs(t, <-fetched, segment.ErrReadOnly)
	require.Equal(t, before, maxIDOf(t, db, "leaf-segment-test"))
}

// counted returns the address of a proxy for one connection to the server, and how many commands
// went over it: packets that begin a sequence.
func counted(t testing.TB, server *mariadbtest.Server) (address string, commands *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	commands = new(atomic.Int64)
	var ended sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); ended.Wait() })
	ended.Go(func() {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		defer client.Close() //nolint:errcheck // what was to pass has passed
		backend, err := net.Dial("tcp", server.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		defer backend.Close() //nolint:errcheck // what was to pass has passed
		ended.Go(func() {
			_, _ = io.Copy(client, backend)
		})
		for header := make([]byte, 4); ; {
			if _, err := io.ReadFull(client, header); err != nil {
				return
			}
			if header[3] == 0 {
				commands.Add(1)
			}
			_, _ = backend.Write(header)
			length := int64(header[0]) | int64(header[1])<<8 | int64(header[2])<<16
			if _, err := io.CopyN(backend, client, length); err != nil {
				return
			}
		}
	})
	return ln.Addr().String(), commands
}

func TestMySQLFetchIsThreeRoundTrips(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, _ := newTable(t, server, ourScript, "")
	address, commands := counted(t, server)
	store := openMySQL(t, strings.Replace(server.DSN(database), server.Addr(), address, 1)+generous)
	awaitFetch(t, store)
	for range 10 {
		before := commands.Load()
		_, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
		require.NoError(t, err)
		require.EqualValues(t, 3, commands.Load()-before)
		_, err = store.FetchGuarded(within(t, patience), "leaf-segment-test", 0, func(reserve func(int64, bool) (segment.Range, error)) error {
			_, err := reserve(maxIDOf(t, server.DB(t, database), "leaf-segment-test")+7, true)
			return err
		})
		require.NoError(t, err)
		require.EqualValues(t, 6, commands.Load()-before)
	}
}

// A line with 450 ms a round trip is slower than Config.FetchTimeout allows a whole fetch, and
// each answer is within it.
func TestMySQLDistantServer(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, _ := newTable(t, server, ourScript, "")
	proxy := newProxy(t, server)
	addToxic(t, proxy, `{"type":"latency","stream":"downstream","attributes":{"latency":450}}`)
	store := openMySQL(t, strings.Replace(server.DSN(database), server.Addr(), proxy.Listen, 1)+generous)
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- svc.Run(ctx) }()
	require.Eventually(t, func() bool {
		tag, err := svc.Lookup([]byte("leaf-segment-test"))
		if err == nil {
			_, err = tag.Next(t.Context())
		}
		return err == nil
	}, patience, 10*time.Millisecond)
	stop()
	require.NoError(t, <-ran)
}
