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

// killed tells whether f panics with what kills the process of s.
func killed(t testing.TB, s zkreg.Session, f func()) (dead bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			dead = true
			require.Equal(t, sessiontest.Killed{Session: sessiontest.Number(s)}, r)
		}
	}()
	f()
	return false
}

// Each fault hits one request of one session, and that alone.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault      sessiontest.Fault
		data       string // of /a, which was 0 and should have become 1
		killed     bool
		connection uint64
	}{
		"none":          {0, "1", false, 1},
		"not sent":      {sessiontest.NotSent, "0", false, 1},
		"answer lost":   {sessiontest.AnswerLost, "1", false, 1},
		"sent late":     {sessiontest.SentLate, "0", false, 2},
		"killed before": {sessiontest.KilledBefore, "0", true, 0},
		"killed after":  {sessiontest.KilledAfter, "1", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, open := newMemory(t, clocktest.New(time.Unix(1_700_000_000, 0)))
			s, other := open(), open()
			var asked []string
			m.Observe(func(r sessiontest.Request) {
				asked = append(asked, fmt.Sprint(r.Session, ".", r.Number, " ", r.Write(), " ", r))
			})
			_, err := sessiontest.Create(t.Context(), s, "/mine", nil, zk.FlagEphemeral)
			require.NoError(t, err)
			m.Fail(s, 2, tt.fault)
			require.NoError(t, s.Sync(t.Context(), "/a"))
			dead := killed(t, s, func() {
				_, err = s.Multi(t.Context(), s.Connection(), &zk.CheckVersionRequest{Path: "/", Version: 0}, &zk.SetDataRequest{Path: "/a", Data: []byte("1"), Version: 0})
			})
			require.Equal(t, tt.killed, dead)
			if tt.fault != 0 && !dead {
				require.ErrorIs(t, err, worker.ErrUnreachable)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tt.connection, s.Connection())
			_, err = sessiontest.Create(t.Context(), other, "/others", nil, zk.FlagEphemeral)
			require.NoError(t, err)
			require.Equal(t, tt.data, read(t, m, "/a"))
			require.Equal(t, []string{
				"2.1 true create /mine@-1", "2.2 false sync /a", "2.3 true check /@0, set /a@0", "3.1 true create /others@-1", "1.2 false get /a",
			}, asked)
			require.Equal(t, 3, m.Requests(s))

			// The next one is done, unless the process is gone; its session goes in time.
			_, _, err = s.Get(t.Context(), "/a")
			require.Equal(t, tt.killed, err != nil)
			found, _, err := other.Exists(t.Context(), "/mine")
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, tt.killed, !m.Sessions()[1].Process)
			m.Expire(m.Sessions()[1].ID)
			found, _, err = other.Exists(t.Context(), "/mine")
			require.NoError(t, err)
			require.False(t, found)
			require.Equal(t, tt.killed, m.Session(2) == nil)
		})
	}
}

// A read never comes late, a plan can be dropped, and one for a cut line is used up.
func TestFaultsOfOtherRequests(t *testing.T) {
	t.Parallel()
	m, open := newMemory(t, clocktest.New(time.Unix(1_700_000_000, 0)))
	s := open()
	m.Fail(s, 1, sessiontest.SentLate)
	_, _, err := s.Get(t.Context(), "/a")
	require.ErrorIs(t, err, worker.ErrUnreachable)
	require.Empty(t, m.Late())
	m.Fail(s, 1, sessiontest.NotSent)
	m.Heal(s)
	require.NoError(t, s.Sync(t.Context(), "/a"))
	m.Fail(s, 1, sessiontest.SentLate)
	m.Cut(s)
	_, err = sessiontest.Set(t.Context(), s, "/a", nil, 0)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	m.Join(s)
	require.Empty(t, m.Late())
	_, err = sessiontest.Set(t.Context(), s, "/a", nil, 0)
	require.NoError(t, err)
	m.Cut(s)
	m.Fail(s, 1, sessiontest.KilledAfter)
	require.True(t, killed(t, s, func() { _, _, _ = s.Get(t.Context(), "/a") }))
	m.Join(s) // there is no process
	require.Zero(t, s.Connection())
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

// Of two late writes the later may come alone, the earlier not after it.
func TestLateWritesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	m, open := newMemory(t, clocktest.New(time.Unix(1_700_000_000, 0)))
	s := open()
	for _, p := range []string{"/b", "/c", "/d"} {
		m.Fail(s, 1, sessiontest.SentLate)
		_, err := sessiontest.Create(t.Context(), s, p, []byte(p), 0)
		require.ErrorIs(t, err, worker.ErrUnreachable)
	}
	late := m.Late()
	require.Len(t, late, 3)
	require.NoError(t, m.Deliver(late[1].ID))
	require.Error(t, m.Deliver(late[0].ID))
	require.Equal(t, late[2:], m.Late())
	require.NoError(t, m.Deliver(late[2].ID))
	require.Equal(t, []string{"", "/c", "/d"}, []string{read(t, m, "/b"), read(t, m, "/c"), read(t, m, "/d")})
}

// A copy has the same sessions, nodes and plans, and its own from there on.
func TestClone(t *testing.T) {
	t.Parallel()
	clk, later := clocktest.New(time.Unix(1_700_000_000, 0)), clocktest.New(time.Unix(1_800_000_000, 0))
	m, open := newMemory(t, clk)
	s, cut := open(), open()
	_, err := sessiontest.Create(t.Context(), s, "/mine", nil, zk.FlagEphemeral)
	require.NoError(t, err)
	m.Cut(cut)
	m.Fail(s, 1, sessiontest.AnswerLost)
	m.Observe(func(sessiontest.Request) { require.Fail(t, "told of a copy's") })
	c := m.Clone(later)
	m.Observe(nil)
	require.Equal(t, m.Sessions(), c.Sessions())
	require.Equal(t, m.Zxid(), c.Zxid())
	copied := c.Session(sessiontest.Number(s))
	require.NotSame(t, s, copied)
	require.Equal(t, []any{s.Info(), s.Connection(), m.Requests(s)}, []any{copied.Info(), copied.Connection(), c.Requests(copied)})
	require.Zero(t, c.Session(sessiontest.Number(cut)).Connection())
	require.Nil(t, c.Session(7))

	// Both do the same, each at its own time.
	var stats []zk.Stat
	for _, one := range []zkreg.Session{s, copied} {
		_, err := one.Multi(t.Context(), one.Connection(), &zk.SetDataRequest{Path: "/a", Data: []byte("1"), Version: 0})
		require.ErrorIs(t, err, worker.ErrUnreachable)
		_, stat, err := one.Get(t.Context(), "/a")
		require.NoError(t, err)
		stats = append(stats, *stat)
	}
	require.Equal(t, int64(1_700_000_000_000), stats[0].Mtime)
	require.Equal(t, int64(1_800_000_000_000), stats[1].Mtime)
	stats[1].Mtime = stats[0].Mtime
	require.Equal(t, stats[0], stats[1])

	// And neither knows of the other.
	copied.Close()
	require.Nil(t, c.Session(sessiontest.Number(s)))
	found, _, err := s.Exists(t.Context(), "/mine")
	require.NoError(t, err)
	require.True(t, found)
	found, _, err = c.Session(1).Exists(t.Context(), "/mine")
	require.NoError(t, err)
	require.False(t, found)
	added := open()
	require.Nil(t, c.Session(sessiontest.Number(added)))
	m.Wipe()
	require.Equal(t, "1", read(t, c, "/a"))
	require.Empty(t, read(t, m, "/a"))
}

// Times of nodes are the ZooKeeper's, not those of its clients' clocks.
func TestClockIsTheServers(t *testing.T) {
	t.Parallel()
	clk := clocktest.New(time.Unix(1_700_000_000, 0))
	m, open := newMemory(t, clk)
	s := open()
	clk.Step(-time.Hour)
	_, err := sessiontest.Set(t.Context(), s, "/a", nil, 0)
	require.NoError(t, err)
	_, stat, err := s.Get(t.Context(), "/a")
	require.NoError(t, err)
	require.Equal(t, []int64{1_700_000_000_000, 1_699_996_400_000}, []int64{stat.Ctime, stat.Mtime})
	b := m.Backup()
	clk.Advance(2 * time.Hour)
	m.Restore(b, 0)
	_, again, err := s.Get(t.Context(), "/a")
	require.NoError(t, err)
	require.Equal(t, stat, again)
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

// FailWrite counts writes alone, and Walk shows what is written.
func TestFaultsOfWrites(t *testing.T) {
	t.Parallel()
	m, open := newMemory(t, clocktest.New(time.Unix(1_700_000_000, 0)))
	s := open()
	m.FailWrite(s, 2, sessiontest.SentLate)
	c := m.Clone(clocktest.New(time.Unix(1_700_000_000, 0)))
	for _, one := range []zkreg.Session{s, c.Session(2)} {
		_, _, err := one.Get(t.Context(), "/a")
		require.NoError(t, err)
		_, err = sessiontest.Set(t.Context(), one, "/a", []byte("1"), 0)
		require.NoError(t, err)
		_, _, err = one.Get(t.Context(), "/a")
		require.NoError(t, err)
		_, err = sessiontest.Set(t.Context(), one, "/a", []byte("2"), 1)
		require.ErrorIs(t, err, worker.ErrUnreachable)
		_, _, err = one.Get(t.Context(), "/a")
		require.NoError(t, err)
	}
	var seen []string
	see := func(p string, n sessiontest.Node) {
		seen = append(seen, fmt.Sprint(p, " ", string(n.Data), " ", n.Stat.Version, " ", n.Stat.EphemeralOwner))
	}
	late := m.Late()
	require.Len(t, late, 1)
	late[0].Walk(func(what, p string, n sessiontest.Node) { see(what+" "+p, n) })
	_, err := sessiontest.Create(t.Context(), s, "/b", nil, zk.FlagEphemeral)
	require.NoError(t, err)
	m.Walk(see)
	m.Backup().Walk(func(p string, n sessiontest.Node) {
		require.Contains(t, seen, fmt.Sprint(p, " ", string(n.Data), " ", n.Stat.Version, " ", n.Stat.EphemeralOwner))
	})
	require.Equal(t, []string{"set /a 2 1 0", "/  0 0", "/a 1 1 0", "/b  0 2"}, seen)
}
