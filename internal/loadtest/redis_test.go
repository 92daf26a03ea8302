package loadtest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
)

// redis starts a server that answers a command of Redis' protocol with what answer returns.
func redis(t *testing.T, answer func(nth int64, words []string) string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var nth int64
	var serving sync.WaitGroup
	t.Cleanup(func() { require.NoError(t, ln.Close()); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = c.Close() }()
				in := bufio.NewReader(c)
				for {
					words, err := command(in)
					if err != nil {
						return
					}
					mu.Lock()
					nth++
					text := answer(nth, words)
					mu.Unlock()
					_, _ = io.WriteString(c, text)
				}
			})
		}
	})
	return "redis://" + ln.Addr().String()
}

// command reads an array of strings.
func command(in *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		var length int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &length); err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}

func TestRedisProtocol(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode  loadtest.Mode
		batch int
		want  string // the command
	}{
		{loadtest.Segment, 1, "INCR a b"},
		{loadtest.Segment, 3, "LEAF.SEGMENT a b 3"},
		{loadtest.Snowflake, 1, "LEAF.SNOWFLAKE a b"},
		{loadtest.Snowflake, 3, "LEAF.SNOWFLAKE a b 3"},
	} {
		for _, pipeline := range []int{1, 16} {
			t.Run(fmt.Sprintf("%s, %d deep", tc.want, pipeline), func(t *testing.T) {
				t.Parallel()
				var given int64
				var other []string
				cfg := config(redis(t, func(_ int64, words []string) string {
					if got := strings.Join(words, " "); got != tc.want {
						other = append(other, got)
					}
					var b strings.Builder
					if tc.batch > 1 {
						fmt.Fprintf(&b, "*%d\r\n", tc.batch)
					}
					for range tc.batch {
						given++
						fmt.Fprintf(&b, ":%d\r\n", given)
					}
					return b.String()
				}))
				cfg.Mode, cfg.Keys, cfg.Batch, cfg.Pipeline = tc.mode, []string{"a b"}, tc.batch, pipeline
				r := run(t, cfg)
				require.NoError(t, r.Verdict())
				require.Empty(t, r.Failures)
				require.Empty(t, other)
				require.Positive(t, r.IDs)
				require.Equal(t, given, r.IDs)
				require.Zero(t, r.Surplus())
			})
		}
	}
}

func TestRedisRefusesAndBreaks(t *testing.T) {
	t.Parallel()
	cfg := config(redis(t, func(nth int64, _ []string) string {
		switch nth {
		case 2:
			return "-overloaded too many requests\r\n"
		case 3:
			return "$2\r\nno\r\n"
		default:
			return fmt.Sprintf(":%d\r\n", nth)
		}
	}))
	cfg.Clients = 1
	r := run(t, cfg)
	require.NoError(t, r.Verdict(), "a refusal is a figure")
	require.Equal(t, int64(2), r.Failed)
	require.ElementsMatch(t, []loadtest.Failure{
		{Code: "overloaded", Count: 1, Example: "-overloaded too many requests"},
		{Code: "not_an_answer", Count: 1, Example: `not an answer: "$2"`},
	}, r.Failures)
	require.Equal(t, int64(1), r.Unknown, "of the answer that could not be read")
}
