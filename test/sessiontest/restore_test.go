package sessiontest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// What a backup that is put back leaves of nodes and sessions.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t testing.TB) (zoo sessiontest.ZooKeeper, addr string, backup func(testing.TB) func(testing.TB)){
		"in memory": func(testing.TB) (sessiontest.ZooKeeper, string, func(testing.TB) func(testing.TB)) {
			m := sessiontest.NewMemory(clock.System())
			return m, "memory:1", func(testing.TB) func(testing.TB) {
				b := m.Backup()
				return func(testing.TB) { m.Restore(b, 0) }
			}
		},
		"a server": func(t testing.TB) (sessiontest.ZooKeeper, string, func(testing.TB) func(testing.TB)) {
			server := zookeepertest.Start(t)
			return sessiontest.Servers(t), server.Addr(), func(t testing.TB) func(testing.TB) {
				b := server.Backup(t)
				return func(t testing.TB) { server.Restore(t, b) }
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zoo, addr, backup := start(t)
			session := func(timeout time.Duration) zkreg.Session {
				s, err := zoo.Open(zksession.Config{Servers: []string{addr}, Timeout: timeout, Unreachable: worker.ErrUnreachable})
				require.NoError(t, err)
				t.Cleanup(s.Close)
				require.NoError(t, s.Sync(patient(t), "/"))
				return s
			}
			create := func(s zkreg.Session, p, data string, flags int32) {
				t.Helper()
				_, err := sessiontest.Create(patient(t), s, p, []byte(data), flags)
				require.NoError(t, err)
			}
			const short = 3 * time.Second
			quiet, writer, other := session(40*time.Second), session(short), session(short) // quiet outlives the restore
			create(writer, "/a", "1", 0)
			create(writer, "/mine", "", zk.FlagEphemeral)
			create(other, "/others", "", zk.FlagEphemeral)
			require.NoError(t, quiet.Sync(patient(t), "/"))
			create(quiet, "/quiet", "", zk.FlagEphemeral)
			_, before, err := quiet.Get(patient(t), "/a")
			require.NoError(t, err)
			quietID, writerID := quiet.Info().ID, writer.Info().ID

			restore := backup(t)
			later := session(short)
			_, err = sessiontest.Set(patient(t), writer, "/a", []byte("2"), 0)
			require.NoError(t, err)
			other.Close()
			create(later, "/b", "", 0)
			create(later, "/later", "", zk.FlagEphemeral)
			laterID, connections := later.Info().ID, []uint64{quiet.Connection(), writer.Connection(), later.Connection()}
			restore(t)

			// A client with a session that the backup knows goes on over another connection, if it
			// has not timed out; nothing tells it of what was lost.
			for i, s := range []zkreg.Session{quiet, writer, later} {
				require.NoError(t, s.Sync(patient(t), "/"))
				require.NotEqual(t, connections[i], s.Connection())
			}
			require.Equal(t, quietID, quiet.Info().ID)
			require.NotEqual(t, laterID, later.Info().ID)
			data, stat, err := quiet.Get(patient(t), "/a")
			require.NoError(t, err)
			require.Equal(t, "1", string(data))
			require.Equal(t, before, stat)
			found := func(p string) bool {
				found, _, err := quiet.Exists(patient(t), p)
				require.NoError(t, err)
				return found
			}
			require.Equal(t, writer.Info().ID == writerID, found("/mine"))
			require.False(t, found("/b"))
			require.False(t, found("/later"))
			require.True(t, found("/quiet"))

			// Versions are given again, and so are zxids.
			stat, err = sessiontest.Set(patient(t), writer, "/a", []byte("3"), 0)
			require.NoError(t, err)
			require.Equal(t, int32(1), stat.Version)
			require.Equal(t, before.Czxid, stat.Czxid)
			require.Greater(t, stat.Mzxid, before.Mzxid)

			// What goes with sessions that no client has any more goes in time.
			require.Eventually(t, func() bool { return !found("/others") }, patience, 10*time.Millisecond)
			require.True(t, found("/quiet"))
		})
	}
}
