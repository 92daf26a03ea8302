package sessiontest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/test/zookeepertest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(zookeepertest.StopAfter(m), proctest.IgnoreProxies()...)
}

// patience is for a machine under load.
const patience = 60 * time.Second

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// kinds are the errors that are told apart; one that is ErrUnreachable is that above all.
var kinds = []error{worker.ErrUnreachable, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals, zk.ErrBadArguments}

// answer is what one request came to.
type answer struct {
	text  string // all but zxids, times and sessions
	stats []zk.Stat
}

func answerOf(err error, stat *zk.Stat, parts ...any) answer {
	if err != nil {
		return answer{text: kinds[slices.IndexFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })].Error()}
	}
	a := answer{}
	if stat != nil {
		a.stats = []zk.Stat{*stat}
		plain := *stat
		plain.Czxid, plain.Mzxid, plain.Pzxid, plain.Ctime, plain.Mtime, plain.EphemeralOwner = 0, 0, 0, 0, 0, 0
		parts = append(parts, plain)
	}
	a.text = fmt.Sprint(parts)
	return a
}

// request is one request, drawn by lot.
func request(rnd *rand.Rand, root string) (name string, do func(ctx context.Context, s zkreg.Session) answer) {
	p := root + []string{"/a", "/a/x", "/b", "/b/y", "/b/y/z"}[rnd.IntN(5)]
	version, flags := max(-1, int32(rnd.IntN(6)-3)), max(0, int32(rnd.IntN(8)-4))
	data := []byte{byte('a' + rnd.IntN(26))}
	switch n := rnd.IntN(8); n {
	case 0:
		return "get " + p, func(ctx context.Context, s zkreg.Session) answer {
			data, stat, err := s.Get(ctx, p)
			return answerOf(err, stat, data)
		}
	case 1:
		return "children " + p, func(ctx context.Context, s zkreg.Session) answer {
			names, stat, err := s.Children(ctx, p)
			slices.Sort(names)
			return answerOf(err, stat, names)
		}
	case 2:
		return fmt.Sprint("create ", p, flags), func(ctx context.Context, s zkreg.Session) answer {
			created, err := sessiontest.Create(ctx, s, p, data, flags)
			return answerOf(err, nil, created)
		}
	default:
		ops := []any{
			&zk.CreateRequest{Path: p, Data: data, Flags: flags},
			&zk.SetDataRequest{Path: root, Data: data, Version: -1},
			&zk.CheckVersionRequest{Path: p, Version: version},
			&zk.DeleteRequest{Path: p, Version: version},
		}
		rnd.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
		ops = ops[:1+n%3]
		for _, op := range ops {
			name += fmt.Sprintf("%T%+v ", op, op)
		}
		return name, func(ctx context.Context, s zkreg.Session) answer {
			responses, err := s.Multi(ctx, 0, ops...)
			failed := slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil })
			if err != nil {
				return answer{text: answerOf(err, nil).text + fmt.Sprint(", operation ", failed)}
			}
			all := answer{}
			for _, r := range responses {
				one := answerOf(nil, r.Stat, r.String)
				all.text, all.stats = all.text+one.text, append(all.stats, one.stats...)
			}
			return all
		}
	}
}

// On every request the ZooKeeper in memory answers as a server does: its zxids come in the
// same order, and sessions are told apart in the same way.
func TestAnswersAsAServerDoes(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	for seed := range uint64(4) {
		root, memory := server.NewRoot(t), sessiontest.NewMemory(clock.System())
		open := func(cfg zksession.Config) (both [2]zkreg.Session) {
			cfg.Servers, cfg.Timeout, cfg.Unreachable = []string{server.Addr()}, 30*time.Second, worker.ErrUnreachable
			genuine, err := zksession.Open(cfg)
			require.NoError(t, err)
			t.Cleanup(genuine.Close)
			fake, err := memory.Open(cfg)
			require.NoError(t, err)
			return [2]zkreg.Session{genuine, fake}
		}
		clients := [][2]zkreg.Session{open(zksession.Config{}), open(zksession.Config{})}
		for _, s := range clients[0] {
			_, err := sessiontest.Create(patient(t), s, root, nil, 0)
			require.NoError(t, err)
		}
		rnd := rand.New(rand.NewPCG(seed, 2))
		zxids, owners := map[int64]int64{}, map[int64]int64{0: 0}
		var history []string
		for range 600 {
			client := rnd.IntN(len(clients))
			name, do := request(rnd, root)
			history = append(history, fmt.Sprint(client, " ", name))
			want, got := do(patient(t), clients[client][0]), do(patient(t), clients[client][1])
			before := history[max(0, len(history)-30):]
			require.Equal(t, want.text, got.text, "seed %d: %q", seed, before)
			for i := range want.stats {
				a, b := want.stats[i], got.stats[i]
				for genuine, fake := range map[int64]int64{a.Czxid: b.Czxid, a.Mzxid: b.Mzxid, a.Pzxid: b.Pzxid} {
					known, again := zxids[genuine]
					require.True(t, !again || known == fake, "seed %d: %q", seed, before)
					zxids[genuine] = fake
				}
				known, again := owners[a.EphemeralOwner]
				require.True(t, !again || known == b.EphemeralOwner, "seed %d: %q", seed, before)
				owners[a.EphemeralOwner] = b.EphemeralOwner
				require.LessOrEqual(t, b.Ctime, b.Mtime)
				require.InDelta(t, a.Mtime, b.Mtime, float64(patience.Milliseconds()))
			}
			if rnd.IntN(100) == 0 { // what goes with the session goes at once
				for _, s := range clients[client] {
					s.Close()
				}
				clients[client] = open(zksession.Config{})
			}
		}
		ordered := slices.Sorted(maps.Keys(zxids))
		require.Greater(t, len(ordered), 50)
		require.Len(t, owners, len(slices.Compact(slices.Sorted(maps.Values(owners)))))
		require.True(t, slices.IsSortedFunc(ordered, func(a, b int64) int { return int(zxids[a] - zxids[b]) }))
	}
}

// What becomes of a session, and what it leaves, where its line is cut.
func TestSessions(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t testing.TB) (zoo sessiontest.ZooKeeper, addr, root string){
		"in memory": func(testing.TB) (sessiontest.ZooKeeper, string, string) {
			return sessiontest.NewMemory(clock.System()), "memory:1", "/sessions"
		},
		"a server": func(t testing.TB) (sessiontest.ZooKeeper, string, string) {
			server := zookeepertest.Shared(t)
			return sessiontest.Servers(t), server.Addr(), server.NewRoot(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net, addr, root := open(t)
			session := func(timeout time.Duration) zkreg.Session {
				s, err := net.Open(zksession.Config{Servers: []string{addr}, Timeout: timeout, Unreachable: worker.ErrUnreachable})
				require.NoError(t, err)
				t.Cleanup(s.Close)
				return s
			}
			create := func(s zkreg.Session, p string, flags int32) {
				_, err := sessiontest.Create(patient(t), s, p, nil, flags)
				require.NoError(t, err)
			}
			observer, s := session(30*time.Second), session(30*time.Second)
			stands := func(p string) bool {
				found, _, err := observer.Exists(patient(t), p)
				require.NoError(t, err)
				return found
			}
			create(observer, root, 0)
			create(s, root+"/mine", zk.FlagEphemeral)
			id, connection := s.Info().ID, s.Connection()
			require.NotZero(t, id)
			require.NotZero(t, connection)
			_, err := s.Multi(patient(t), connection, &zk.SetDataRequest{Path: root, Data: []byte("a"), Version: 0})
			require.NoError(t, err)

			// For a moment: the same session, over another connection.
			net.Cut(s)
			require.Eventually(t, func() bool { return s.Connection() == 0 }, patience, time.Millisecond)
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _, err = s.Get(short, root)
			require.ErrorIs(t, err, worker.ErrUnreachable)
			net.Join(s)
			require.NoError(t, s.Sync(patient(t), root))
			require.Equal(t, id, s.Info().ID)
			require.NotEqual(t, connection, s.Connection())
			require.True(t, stands(root+"/mine"))
			_, err = s.Multi(patient(t), connection, &zk.SetDataRequest{Path: root, Data: []byte("b"), Version: 1})
			require.ErrorIs(t, err, worker.ErrUnreachable)
			_, err = s.Multi(patient(t), s.Connection(), &zk.SetDataRequest{Path: root, Data: []byte("b"), Version: 1})
			require.NoError(t, err)

			// For too long: another session.
			brief := session(3 * time.Second)
			require.NoError(t, brief.Sync(patient(t), root))
			id = brief.Info().ID
			create(brief, root+"/brief", zk.FlagEphemeral)
			net.Cut(brief)
			require.Eventually(t, func() bool { return !stands(root + "/brief") }, patience, 10*time.Millisecond)
			net.Join(brief)
			require.NoError(t, brief.Sync(patient(t), root))
			require.NotEqual(t, id, brief.Info().ID)

			// Closed, and cut off: it stands for as long as the session does.
			other, began := session(3*time.Second), time.Now()
			create(other, root+"/other", zk.FlagEphemeral)
			net.Cut(other)
			other.Close()
			s.Close()
			require.False(t, stands(root+"/mine"))
			require.True(t, stands(root+"/other") || time.Since(began) > 3*time.Second)
			_, _, err = s.Get(patient(t), root)
			require.ErrorIs(t, err, worker.ErrUnreachable)
			require.Zero(t, s.Connection())
			require.Eventually(t, func() bool { return !stands(root + "/other") }, patience, 10*time.Millisecond)
		})
	}
}
