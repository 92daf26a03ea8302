package zksession

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

// TestAnswerLost: the answer to a create is cut at any place.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	s, proxy, root := proxied(t, Config{})
	for _, bytes := range []int{0, answerBytes - 1, answerBytes, 1000} {
		path := root + "/n" + strconv.Itoa(bytes)
		before := s.Connection()
		proxy.CutAfter(t, greetingBytes+bytes)
		proxy.Cut(t)
		require.Eventually(t, func() bool { return s.Connection() > before }, patience, time.Millisecond)
		_, err := create(within(t, patience), s, path, nil, 0)
		proxy.CutAfter(t, -1)
		proxy.Cut(t)
		found, _, existsErr := s.Exists(within(t, patience), path)
		require.NoError(t, existsErr)
		if bytes == 1000 {
			require.NoError(t, err)
		}
		if err == nil {
			require.True(t, found)
			continue
		}
		require.ErrorIs(t, err, errUnreachable)
		require.False(t, found && errors.Is(err, ErrOtherConnection), "unsent and done")
	}
}

// TestReadsAreRepeated where a connection is lost below them.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	s, proxy, _ := proxied(t, Config{})
	proxy.Deaf(t, true)
	answer := make(chan error, 1)
	go func() { _, _, err := s.Get(within(t, patience), "/"); answer <- err }()
	require.Eventually(t, func() bool { return !s.drained(0) }, patience, time.Millisecond)
	proxy.Deaf(t, false) // which cuts the connection
	require.NoError(t, <-answer)
}

// TestManyChildren and large nodes fit.
func TestManyChildren(t *testing.T) {
	t.Parallel()
	server := zookeepertest.Shared(t)
	root := server.NewRoot(t)
	s := openTest(t, to(server.Addr()))
	_, err := create(within(t, patience), s, root, nil, 0)
	require.NoError(t, err)
	const children, batch = 2000, 100
	for range children / batch {
		ops := make([]any, batch)
		for i := range ops {
			ops[i] = &zk.CreateRequest{Path: root + "/a-rather-long-name-of-a-node.example.com:8080-", Flags: zk.FlagSequence}
		}
		_, err := s.Multi(within(t, patience), 0, ops...)
		require.NoError(t, err)
	}
	names, _, err := s.Children(within(t, patience), root)
	require.NoError(t, err)
	require.Len(t, names, children)
	large := make([]byte, 1<<20-1<<10)
	_, err = set(within(t, patience), s, root, large, -1)
	require.NoError(t, err)
	data, _, err := s.Get(within(t, patience), root)
	require.NoError(t, err)
	require.Equal(t, large, data)
}

// TestNothingIsSentLate: no connection is opened while a request of the one before
// is outstanding.
func TestNothingIsSentLate(t *testing.T) {
	t.Parallel()
	s, proxy, _ := proxied(t, Config{})
	require.NoError(t, s.enter(within(t, patience), call{})) // a request on its way to the queue
	proxy.Cut(t)
	await(t, s, disconnected)
	require.Never(t, func() bool { return s.Info().Connects > 1 }, 2*time.Second, 10*time.Millisecond)
	s.leave()
	awaitConnects(t, s, 2)
}

// TestAbandonedRequestsAreNotDoneLater: many calls with little time, over a line
// that comes and goes. What wasn't done when the line went isn't done when it is
// back.
func TestAbandonedRequestsAreNotDoneLater(t *testing.T) {
	t.Parallel()
	s, proxy, root := proxied(t, Config{})
	observer := zookeepertest.Shared(t).Conn(t)
	count := func() int {
		_, stat, err := observer.Exists(root)
		require.NoError(t, err)
		return int(stat.NumChildren)
	}
	for range 4 {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range maxCalls {
			wg.Go(func() {
				for ctx.Err() == nil {
					soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
					_, _ = create(soon, s, root+"/n-", nil, zk.FlagSequence)
					cancel()
				}
			})
		}
		require.Eventually(t, func() bool { return count() > 0 }, patience, time.Millisecond)
		proxy.Down(t)
		await(t, s, disconnected)
		stop()
		wg.Wait()
		// What the server has of before the line went it may still do: it reads all of it before
		// it closes the connection, and does it before the sync.
		zookeepertest.Shared(t).AwaitUnconnected(t, s.Info().ID)
		_, err := observer.Sync(root)
		require.NoError(t, err)
		before := count()
		proxy.Up(t)
		require.NoError(t, s.Sync(within(t, patience), root))
		require.Equal(t, before, count())
	}
}

// TestRequestLeftUnanswered by a server that answers pings: it is left.
func TestRequestLeftUnanswered(t *testing.T) {
	t.Parallel()
	mute, other := newFake(t), newFake(t)
	s := openTest(t, short(3*time.Second, mute.addr, other.addr))
	ctx := within(t, patience)
	_, err := set(ctx, s, "/x", nil, -1)
	require.ErrorIs(t, err, errUnreachable)
	require.ErrorContains(t, err, "left unanswered for 3s")
	require.NoError(t, ctx.Err(), "it ended before its context did")
	require.NotErrorIs(t, err, ErrOtherConnection)
	awaitConnects(t, s, 2)
	require.NotZero(t, mute.connections.Load())
	require.NotZero(t, other.connections.Load())
	require.EqualValues(t, 1, mute.requests.Load()+other.requests.Load(), "a write is sent once")
}
