package sqlstore_test

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// TestMySQLCutAnywhere cuts the connection after every number of bytes that the
// server answers, and so also between its commit and our learning of it. Then
// the range is lost: no caller must get it, then or later.
func TestMySQLCutAnywhere(t *testing.T) {
	server, database, db := sharedTable(t, javaScript, "")
	proxy := zookeepertest.NewProxy(t, server.Addr())
	dsn := strings.Replace(server.DSN(database), server.Addr(), proxy.Addr(), 1)
	store := openMySQL(t, dsn) // has read the table, so that all that is cut is a fetch
	var ranges []segment.Range
	failures := 0
	// The answer to a commit has 11 bytes: steps of 5 can't jump over it.
	for bytes := 0; len(ranges) < 20; bytes += 5 {
		require.Less(t, bytes, 1<<16, "no fetch ever got through")
		_, err := store.Find(within(t, patience), nil)
		require.NoError(t, err)
		proxy.CutAfter(t, bytes)
		r, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
		if err == nil {
			ranges = append(ranges, r)
		} else {
			failures++
			require.ErrorIs(t, err, segment.ErrStore)
		}
		proxy.CutAfter(t, -1)
		require.NoError(t, store.Reload(configOf(dsn))) // the next one on a connection of its own
	}
	requireDisjoint(t, ranges)
	steps := (maxIDOf(t, db, "leaf-segment-test") - 1) / 2000
	require.Greater(t, steps, int64(len(ranges)), "no cut of %d fell between a commit and its answer", failures)
}

// tap is a proxy before a server that reads the packets of its clients.
type tap struct {
	Address string

	mu     sync.Mutex
	asked  []string // mu protects: the text of each statement, or the name of another command
	inject string   // mu protects: what is run before each statement

	replace *strings.Replacer // Immutable once a client is there: what is changed in statements; nil: nothing
}

// newTap returns a tap. It knows of the protocol that a command begins a sequence of packets, and that each packet
// has its length and its place in the sequence in its first four bytes.
func newTap(t testing.TB, server *mariadbtest.Server) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &tap{Address: ln.Addr().String()}
	var ended sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); ended.Wait() })
	ended.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			backend, err := net.Dial("tcp", server.Addr())
			if err != nil {
				_ = client.Close()
				continue
			}
			swallow, swallowed := make(chan struct{}, 1), make(chan struct{})
			ended.Go(func() {
				defer client.Close() //nolint:errcheck // what was to pass has passed
				defer close(swallowed)
				for {
					packet, err := readPacket(backend)
					if err != nil {
						return
					}
					select {
					case <-swallow:
						swallowed <- struct{}{}
					default:
						_, _ = client.Write(packet) // of a client that is gone nothing more comes either
					}
				}
			})
			ended.Go(func() {
				defer backend.Close() //nolint:errcheck // what was to pass has passed
				for statements := 0; ; {
					packet, err := readPacket(client)
					if err != nil {
						return
					}
					inject := p.note(packet)
					if isStatement(packet) {
						statements++
					}
					if inject != "" && isStatement(packet) && statements > 1 { // the first one sets the session up
						swallow <- struct{}{}
						_, _ = backend.Write(append([]byte{byte(len(inject) + 1), 0, 0, 0, 3}, inject...))
						<-swallowed
					}
					if p.replace != nil && isStatement(packet) {
						text := p.replace.Replace(string(packet[4:]))
						packet = append([]byte{byte(len(text)), byte(len(text) >> 8), byte(len(text) >> 16), 0}, text...)
					}
					_, _ = backend.Write(packet)
				}
			})
		}
	})
	return p
}

// readPacket reads a packet with its header.
func readPacket(from io.Reader) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return nil, err
	}
	packet := append(header[:], make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)...)
	_, err := io.ReadFull(from, packet[4:])
	return packet, err
}

// isStatement reports whether a packet is the command COM_QUERY.
func isStatement(packet []byte) bool { return packet[3] == 0 && len(packet) > 4 && packet[4] == 3 }

// note notes what a packet asks, and returns what to run before it.
func (p *tap) note(packet []byte) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isStatement(packet) {
		p.asked = append(p.asked, string(packet[5:]))
	} else if packet[3] == 0 {
		p.asked = append(p.asked, fmt.Sprintf("command %d", packet[4]))
	}
	return p.inject
}

// take returns what was asked since the last time.
func (p *tap) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func (p *tap) dsn(server *mariadbtest.Server, database string) string {
	return strings.Replace(server.DSN(database), server.Addr(), p.Address, 1) + generous
}

// TestMySQLPackets: a fetch is three round trips, nothing shares a packet with a COMMIT, and no name or description stands in
// a statement. Once the table was read, nothing more is asked of it.
func TestMySQLPackets(t *testing.T) {
	server, database, db := sharedTable(t, ourScript, "")
	execSQL(t, db, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10), ('secret-one', 1, 10)")
	tap := newTap(t, server)
	store := openMySQL(t, tap.dsn(server, database)+"&multiStatements=true")
	_, err := store.Find(within(t, patience), []string{"order"})
	require.NoError(t, err)
	require.Len(t, tap.take(), 3, "the session, the table, the look")
	_, err = store.Find(within(t, patience), []string{"order"})
	require.NoError(t, err)
	require.Len(t, tap.take(), 1)
	store.Warm()
	require.Eventually(t, func() bool { return len(tap.take()) > 0 }, patience, 10*time.Millisecond, "a connection for fetches")
	alone := 0
	for range 5 {
		_, err := storetest.Fetch(within(t, patience), store, "order", 0, 0)
		require.NoError(t, err)
		asked := tap.take()
		if len(asked) == 3 { // on a busy machine the connection may have been idle for two seconds
			alone++
		}
		requireVerbs(t, asked, "SELECT biz_tag", "UPDATE leaf_alloc", "COMMIT")
	}
	require.Positive(t, alone)
	tx, err := store.Begin(within(t, patience), []string{"order", "secret-one", "another"})
	require.NoError(t, err)
	require.Equal(t, []string{"another"}, tx.Skipped())
	require.NotEmpty(t, tx.Server())
	var moves []segment.Move
	for _, row := range tx.Rows() {
		moves = append(moves, segment.Move{Tag: row.Tag, From: row.MaxID, To: row.MaxID + 5})
	}
	require.Len(t, moves, 2)
	require.NoError(t, tx.Move(t.Context(), moves))
	require.NoError(t, tx.Commit(t.Context()))
	requireVerbs(t, tap.take(), "SELECT biz_tag", "UPDATE leaf_alloc", "COMMIT")
	tx, err = store.Begin(within(t, patience), []string{"order"})
	require.NoError(t, err)
	tx.Rollback(t.Context())
	requireVerbs(t, tap.take(), "SELECT biz_tag", "ROLLBACK")

	text, step := "a description: don't", int64(5)
	require.NoError(t, store.Create(t.Context(), segment.Row{Tag: "secret-two", MaxID: 1, Step: 1, Description: text}, nil))
	_, err = store.Update(t.Context(), "secret-two", segment.Change{Step: &step, Description: &text}, nil)
	require.NoError(t, err)
	_, err = store.Page(t.Context(), "secret-one", "secret", 5)
	require.NoError(t, err)
	_, err = store.Get(t.Context(), "secret-two")
	require.NoError(t, err)
	_, err = store.Delete(t.Context(), "secret-two", nil)
	require.NoError(t, err)
	requireVerbs(t, tap.take(), "SELECT biz_tag", "SELECT CONCAT_WS", "INSERT INTO", "SELECT biz_tag", "COMMIT",
		"SELECT biz_tag", "UPDATE leaf_alloc", "COMMIT", "SELECT biz_tag", "SELECT biz_tag", "SELECT biz_tag", "DELETE FROM", "COMMIT")
}

// requireVerbs checks how each of asked begins, but for what sets a session up or ends it, that it is one statement, and that no
// text of ours is in it.
func requireVerbs(t testing.TB, asked []string, verbs ...string) {
	t.Helper()
	asked = slices.DeleteFunc(asked, func(s string) bool { return strings.HasPrefix(s, "SET ") || s == "command 1" })
	require.Len(t, asked, len(verbs), "%q", asked)
	for i, statement := range asked {
		require.True(t, strings.HasPrefix(statement, verbs[i]), statement)
		if regexp.MustCompile(`\bCOMMIT\b`).MatchString(statement) {
			require.Equal(t, "COMMIT", statement)
		}
		for _, text := range []string{";", "order'", "secret", "another", "don't"} {
			require.NotContains(t, statement, text)
		}
	}
}

// TestMySQLMultiplexer: a multiplexer between has lost what was set in the session. Without a transaction no range is given twice;
// without backslash escapes no name is SQL.
func TestMySQLMultiplexer(t *testing.T) {
	server, database, db := sharedTable(t, javaScript, "")
	tap := newTap(t, server)
	tap.inject = "SET SESSION autocommit = 1, sql_mode = 'NO_BACKSLASH_ESCAPES'"
	store := openMySQL(t, tap.dsn(server, database))
	f := startFetcher(t, store, openMySQL(t, server.DSN(database)+generous), openMySQL(t, tap.dsn(server, database)))
	f.awaitRanges(t, 300)
	f.end()
	requireDisjoint(t, f.ranges)
	_, failures := f.counts()
	require.Positive(t, failures, "the row was moved by two, and one of them was refused")
	last := slices.MaxFunc(f.ranges, func(a, b segment.Range) int { return int(a.Hi - b.Hi) })
	require.GreaterOrEqual(t, maxIDOf(t, db, "leaf-segment-test"), last.Hi)

	for _, name := range []string{`a\'); CREATE TABLE made (n INT); -- `, `\`, `'; DROP TABLE leaf_alloc; -- `} {
		rows, err := store.Find(within(t, patience), []string{name})
		require.NoError(t, err)
		require.Empty(t, rows)
		require.NoError(t, store.Create(within(t, patience), segment.Row{Tag: name, MaxID: 1, Step: 1, Description: name}, nil))
		_, err = storetest.Fetch(within(t, patience), store, name, 1, 0)
		require.NoError(t, err)
		row, err := store.Delete(within(t, patience), name, nil)
		require.NoError(t, err)
		require.Equal(t, []any{name, name, int64(2)}, []any{row.Tag, row.Description, row.MaxID})
	}
	var tables int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()").Scan(&tables))
	require.Equal(t, 1, tables)
	require.NotEmpty(t, tap.take())
}
