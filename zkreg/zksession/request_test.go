package zksession

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
