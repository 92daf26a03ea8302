package sessiontest_test

import (
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
