package conn

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What waits for its client gives way, however it does so; what works for it doesn't.
func TestWhatGivesWay(t *testing.T) {
	for _, test := range []struct {
		name   string
		state  func(c *Conn)
		now    time.Duration
		waits  bool
		useful bool
	}{
		{"nothing was asked", func(*Conn) {}, time.Second, true, false},
		{"a request is carried out", func(c *Conn) { c.resume() }, time.Second, false, false},
		{"it asked, and is idle", func(c *Conn) { c.resume(); c.wait(waitsIdle) }, time.Hour, true, true},
		{"half a request", func(c *Conn) { c.resume(); c.wait(waitsHalf) }, 0, true, false},
		{"an answer is written", func(c *Conn) { c.resume(); c.wait(waitsWriting) }, unreadTime - 1, true, true},
		{"and is unread for long", func(c *Conn) { c.resume(); c.wait(waitsWriting) }, unreadTime + 1, true, false},
		{"it gave way", func(c *Conn) { c.Yield() }, 0, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := still().admit(&script{})
			test.state(c)
			since, useful := c.Waits(int64(test.now))
			require.Equal(t, test.waits, since > 0)
			require.Equal(t, test.useful, useful)
			require.Equal(t, test.waits, c.Yield())
			require.False(t, c.Yield(), "it is over, or under way")
			if test.waits {
				c.wait(waitsIdle)
				require.False(t, c.resume(), "for good")
			}
		})
	}
}

// The guest that has waited longest gives way, once every place is taken.
func TestPlacesOfGuests(t *testing.T) {
	a, err := NewAdmission(testConfig())
	require.NoError(t, err)
	var clients []net.Conn
	var gone []func()
	for range guestPlaces {
		client, guest := net.Pipe()
		defer client.Close() //nolint:errcheck // a pipe
		clients, gone = append(clients, client), append(gone, a.invite(guest))
	}
	alive := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // fails where the other end is closed
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	require.True(t, alive(clients[0]))
	gone[1]()
	_, next := net.Pipe()
	leave := a.invite(next)
	require.False(t, alive(clients[0]))
	gone[0]() // its place is another one's by now
	_, last := net.Pipe()
	a.invite(last)
	require.True(t, alive(clients[1]), "it had left before")
	require.Equal(t, next, a.guests[0])
	leave()
	require.Nil(t, a.guests[0])
}

// On one processor another goroutine runs once 16 requests are answered,
// however many are there; rarely after 32 and one, since at every 61st turn Go's scheduler looks first where a
// goroutine that gave way waits.
func TestPipelinesGiveWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := still().admit(&script{})
	var answered atomic.Int64
	seen := make(chan int64, 1)
	go func() { seen <- answered.Load() }()
	for range 150 {
		c.Turn()
		answered.Add(1)
	}
	require.LessOrEqual(t, <-seen, int64(2*requestsATurn+1))
}
