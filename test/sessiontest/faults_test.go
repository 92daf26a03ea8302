package sessiontest_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// newMemory returns a ZooKeeper with a node /a, and what opens sessions.
func newMemory(t testing.TB, clk clock.Clock) (*sessiontest.Memory, func() zkreg.Session) {
	t.Helper()
	m := sessiontest.NewMemory(clk)
	open := func() zkreg.Session {
		s, err := m.Open(zksession.Config{Timeout: time.Second})
		require.NoError(t, err)
		return s
	}
	_, err := sessiontest.Create(t.Context(), open(), "/a", []byte("0"), 0)
	require.NoError(t, err)
	return m, open
}

// read returns the data of p, "" for no node.
func read(t testing.TB, m *sessiontest.Memory, p string) string {
	t.Helper()
	data, _, err := m.Session(1).Get(t.Context(), p)
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNoNode)
	}
	return string(data)
}

// A late write is done when the test says: while its session lives, on the same run of the
// servers, and before what the session writes over a later connection.
func TestLateWrites(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile func(t testing.TB, m *sessiontest.Memory, s zkreg.Session)
		want      string // of /a; "" where it isn't under way any more
	}{
		"nothing": {func(testing.TB, *sessiontest.Memory, zkreg.Session) {}, "late"},
		"its session reads": {func(t testing.TB, _ *sessiontest.Memory, s zkreg.Session) {
			_, _, err := s.Get(t.Context(), "/a")
			require.NoError(t, err)
		}, "late"},
		"its process is gone": {func(_ testing.TB, m *sessiontest.Memory, s zkreg.Session) { m.Kill(s) }, "late"},
		"another writes the same": {func(t testing.TB, m *sessiontest.Memory, _ zkreg.Session) {
			_, err := sessiontest.Set(t.Context(), m.Session(1), "/a", []byte("1"), 0)
			require.NoError(t, err)
		}, "1"},
		"its session synchronizes": {func(t testing.TB, _ *sessiontest.Memory, s zkreg.Session) {
			require.NoError(t, s.Sync(t.Context(), "/a"))
		}, ""},
		"its session writes": {func(t testing.TB, _ *sessiontest.Memory, s zkreg.Session) {
			_, err := sessiontest.Create(t.Context(), s, "/b", nil, 0)
			require.NoError(t, err)
		}, ""},
		"its session fails to write": {func(t testing.TB, m *sessiontest.Memory, s zkreg.Session) {
			m.Fail(s, 1, sessiontest.NotSent)
			_, err := sessiontest.Create(t.Context(), s, "/b", nil, 0)
			require.ErrorIs(t, err, worker.ErrUnreachable)
		}, "late"},
		"its session ends":         {func(_ testing.TB, m *sessiontest.Memory, s zkreg.Session) { m.Expire(s.Info().ID) }, ""},
		"its session is closed":    {func(_ testing.TB, _ *sessiontest.Memory, s zkreg.Session) { s.Close() }, ""},
		"the servers are restored": {func(_ testing.TB, m *sessiontest.Memory, _ zkreg.Session) { m.Restore(m.Backup(), 0) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, open := newMemory(t, clocktest.New(time.Unix(1_700_000_000, 0)))
			s := open()
			m.Fail(s, 1, sessiontest.SentLate)
			_, err := sessiontest.Set(t.Context(), s, "/a", []byte("late"), 0)
			require.ErrorIs(t, err, worker.ErrUnreachable)
			late := m.Late()
			require.Len(t, late, 1)
			require.Equal(t, "set /a@0", late[0].String())
			require.Equal(t, 2, late[0].Session)
			tt.meanwhile(t, m, s)
			c := m.Clone(clocktest.New(time.Unix(1_700_000_000, 0)))
			if tt.want == "" {
				require.Empty(t, m.Late())
				require.Error(t, m.Deliver(late[0].ID))
				require.Equal(t, "0", read(t, m, "/a"))
				return
			}
			before := read(t, m, "/a")
			require.Equal(t, tt.want == "late", m.Deliver(late[0].ID) == nil)
			require.Equal(t, tt.want, read(t, m, "/a"))
			require.Empty(t, m.Late())
			require.Error(t, m.Deliver(late[0].ID))

			// In a copy it is under way still.
			require.Equal(t, late, c.Late())
			require.Equal(t, before, read(t, c, "/a"))
			require.Equal(t, tt.want == "late", c.Deliver(late[0].ID) == nil)
			require.Equal(t, tt.want, read(t, c, "/a"))
		})
	}
}

// encoding is of m alone.
func encoding(m *sessiontest.Memory, normal func(string, *sessiontest.Node) bool) string {
	return string(m.Encode(nil, sessiontest.Ranks(m.Zxid(), m.Zxids()...), normal))
}

// What came to the same in different ways is the same.
func TestEncode(t *testing.T) {
	t.Parallel()
	clk := clocktest.New(time.Unix(1_700_000_000, 0))
	m, open := newMemory(t, clk)
	s := open()
	_, err := sessiontest.Create(t.Context(), s, "/mine", []byte(`{"at":1700000000000}`), zk.FlagEphemeral)
	require.NoError(t, err)
	set := func(m *sessiontest.Memory, p string, version int32) {
		t.Helper()
		_, err := sessiontest.Set(t.Context(), m.Session(2), p, []byte(`{"at":1700000000000}`), version)
		require.NoError(t, err)
	}
	same, c := encoding(m, nil), m.Clone(clk)
	require.Equal(t, same, encoding(c, nil))
	_, err = sessiontest.Set(t.Context(), m.Session(1), "/nowhere", nil, 0) // it has a zxid, and changes nothing
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.NotEqual(t, m.Zxid(), c.Zxid())
	require.Equal(t, same, encoding(m, nil))
	b := m.Backup()
	b.Encode(nil, sessiontest.Ranks(b.Zxid(), b.Zxids()...), nil)

	// Each of these matters.
	seen := map[string]string{same: "nothing"}
	for name, change := range map[string]func(m *sessiontest.Memory){
		"data":          func(m *sessiontest.Memory) { set(m, "/a", 0) },
		"version":       func(m *sessiontest.Memory) { set(m, "/a", 0); set(m, "/a", 1) },
		"order":         func(m *sessiontest.Memory) { set(m, "/mine", 0); set(m, "/a", 0) },
		"the other way": func(m *sessiontest.Memory) { set(m, "/a", 0); set(m, "/mine", 0) },
		"a node more":   func(m *sessiontest.Memory) { _, _ = sessiontest.Create(t.Context(), m.Session(2), "/b", nil, 0) },
		"another's": func(m *sessiontest.Memory) {
			_, _ = sessiontest.Create(t.Context(), m.Session(1), "/b", nil, zk.FlagEphemeral)
		},
		"its own": func(m *sessiontest.Memory) {
			_, _ = sessiontest.Create(t.Context(), m.Session(2), "/b", nil, zk.FlagEphemeral)
		},
		"a node less": func(m *sessiontest.Memory) {
			require.NoError(t, sessiontest.Remove(t.Context(), m.Session(2), "/mine", 0))
		},
		"a session less": func(m *sessiontest.Memory) {
			m.Session(2).Close()
			_, _ = sessiontest.Create(t.Context(), m.Session(1), "/c", nil, 0)
		},
		"a late write": func(m *sessiontest.Memory) {
			m.Fail(m.Session(2), 1, sessiontest.SentLate)
			_, _ = sessiontest.Set(t.Context(), m.Session(2), "/a", nil, 0)
		},
		"another late write": func(m *sessiontest.Memory) {
			m.Fail(m.Session(2), 1, sessiontest.SentLate)
			_, _ = sessiontest.Set(t.Context(), m.Session(2), "/a", nil, 1)
		},
		"another's late write": func(m *sessiontest.Memory) {
			m.Fail(m.Session(1), 1, sessiontest.SentLate)
			_, _ = sessiontest.Set(t.Context(), m.Session(1), "/a", nil, 1)
		},
	} {
		c := m.Clone(clk)
		change(c)
		got := encoding(c, nil)
		require.Empty(t, seen[got], name)
		seen[got] = name
		c.Restore(b, 0)
		if name != "a session less" { // what it left belongs to no session
			require.Equal(t, same, encoding(c, nil), name)
		}
	}

	// Times, versions and owners as the caller likes.
	clk.Advance(time.Hour)
	relative := func(now time.Time) func(p string, n *sessiontest.Node) bool {
		return func(p string, n *sessiontest.Node) bool {
			n.Stat.Ctime, n.Stat.Mtime = 0, 0
			if p == "/mine" {
				var d struct {
					At int64 `json:"at"`
				}
				require.NoError(t, json.Unmarshal(n.Data, &d))
				n.Data = fmt.Append(nil, d.At-now.UnixMilli())
				n.Stat.EphemeralOwner -= 2 // what it is may come in any session
			}
			return p != "/"
		}
	}
	c = m.Clone(clk)
	require.NoError(t, sessiontest.Remove(t.Context(), c.Session(2), "/mine", 0))
	_, err = c.Open(zksession.Config{})
	require.NoError(t, err)
	_, err = sessiontest.Create(t.Context(), c.Session(3), "/mine", []byte(`{"at":1700003600000}`), zk.FlagEphemeral)
	require.NoError(t, err)
	before, after := relative(time.Unix(1_700_000_000, 0)), relative(time.Unix(1_700_003_600, 0))
	require.NotEqual(t, encoding(m, before), encoding(c, before))
	require.NotEqual(t, encoding(m, before), encoding(c, after), "another session's")
	require.Equal(t, encoding(m, before), encoding(c, func(p string, n *sessiontest.Node) bool {
		kept := after(p, n)
		if p == "/mine" {
			n.Stat.EphemeralOwner--
		}
		return kept
	}))
}

// The past is told by its order, and what can come again by its distance.
func TestRanks(t *testing.T) {
	t.Parallel()
	rank := sessiontest.Ranks(10, 3, 12, 10, 3, 0, 7, 19)
	require.Equal(t, []int64{-3, -2, -1, 2, 9}, []int64{rank(3), rank(7), rank(10), rank(12), rank(19)})
	other := sessiontest.Ranks(110, 0, 30, 100, 107, 112, 119)
	require.Equal(t, []int64{-3, -2, -1, 2, 9, rank(0)}, []int64{other(30), other(100), other(107), other(112), other(119), other(0)})
	require.Less(t, rank(0), rank(3))
	require.Panics(t, func() { rank(4) })
}
