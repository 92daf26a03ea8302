package resp

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// array is a command as clients send it.
func array(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

const lineRefused = "-ERR Protocol error: expected '*': commands are arrays of strings, not lines, and not HTTP\r\n"

// What is leafd's own; what Redis has too is in the transcripts.
func TestCommands(t *testing.T) {
	for _, test := range []struct {
		name, in, out string
		used          int64 // IDs
	}{
		{"segment", array("LEAF.SEGMENT", "order"), ":1\r\n", 1},
		{"segments", array("leaf.segment", "order", "3"), "*3\r\n:1\r\n:2\r\n:3\r\n", 3},
		{"snowflake", array("Leaf.Snowflake", "order"), ":1\r\n", 1},
		{"the source refuses", array("INCR", "none") + array("INCR", "order"), "-UNKNOWN_KEY no such tag\r\n:1\r\n", 1},
		{"INCRBY 2", array("INCRBY", "order", "2"), "-BAD_COUNT INCRBY takes 1 alone: LEAF.SEGMENT tag count brings many\r\n", 0},
		{"no key", array("LEAF.SNOWFLAKE"), "-ERR wrong number of arguments for 'leaf.snowflake' command\r\n", 0},
		{"decode", array("LEAF.DECODE", "5"), "*12\r\n$2\r\nid\r\n:5\r\n$9\r\ntimestamp\r\n:1\r\n$4\r\ntime\r\n$1\r\nt\r\n$6\r\nworker\r\n:2\r\n$8\r\nsequence\r\n:3\r\n$6\r\nlayout\r\n$8\r\n41+10+12\r\n", 0},
		{"info", array("INFO", "server"), "$6\r\npublic\r\n", 0},
		{"setinfo", array("CLIENT", "SETINFO", "LIB-NAME", "x"), "+OK\r\n", 0},
		{"another database", array("SELECT", "1"), "-ERR DB index is out of range\r\n", 0},
		{"a line", "INCR order\r\n" + array("INCR", "order"), lineRefused, 0},
		{"HTTP", "POST / HTTP/1.1\r\nHost: x\r\n\r\n" + array("INCR", "order"), lineRefused, 0},
		{"HTTP behind an empty line", "\r\nPATCH / http/1.0\r\n\r\nINCR order\r\n", lineRefused, 0},
		{"not whole", array("INCR", "order") + "*2\r\n$4\r\nINCR\r\n$5\r\norder", ":1\r\n", 1},
		{"after an error of the protocol", "*1\r\n:1\r\n" + array("INCR", "order"), "-ERR Protocol error: expected '$', got ':'\r\n", 0},
		{"after QUIT", array("QUIT") + array("INCR", "order"), "+OK\r\n", 0},
		{"an error in one line", array("x\r\n:1"), "-ERR unknown command 'x..:1', with args beginning with: \r\n", 0},
		{"a large batch", array("PING") + array("LEAF.SNOWFLAKE", "order", "101") + array("PING"), "", 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, in := range map[string]io.Reader{
				"whole": strings.NewReader(test.in), "in bytes": iotest.OneByteReader(strings.NewReader(test.in)), "with EOF": iotest.DataErrReader(strings.NewReader(test.in)),
			} {
				f := answers(in)
				require.Equal(t, test.used, f.last, name)
				require.False(t, f.held)
				if test.out != "" {
					require.Equal(t, test.out, f.written.String(), name)
				} else {
					require.True(t, strings.HasPrefix(f.written.String(), "+PONG\r\n*101\r\n:1\r\n"))
					require.True(t, strings.HasSuffix(f.written.String(), ":101\r\n+PONG\r\n"))
				}
			}
		})
	}
}

// RESP3's own types come after HELLO 3 alone.
func TestProtocols(t *testing.T) {
	in := array("CLIENT", "GETNAME") + array("INFO")
	two := "$-1\r\n$6\r\npublic\r\n"
	require.Equal(t, two, answers(strings.NewReader(in)).written.String())
	three := answers(strings.NewReader(array("HELLO", "3") + in + array("RESET") + in)).written.String()
	require.True(t, strings.HasPrefix(three, "%7\r\n$6\r\nserver\r\n$5\r\nleafd\r\n"), three)
	require.Contains(t, three, "_\r\n=10\r\ntxt:public\r\n+RESET\r\n"+two)
	require.True(t, strings.HasPrefix(answers(strings.NewReader(array("HELLO", "3") + array("LEAF.DECODE", "5"))).written.String()[len(strings.Split(three, "_\r\n")[0]):], "%6\r\n$2\r\nid\r\n:5\r\n"))
}

// Regardless of what is announced or sent, a connection holds no more than its
// bounds, and what exceeds them ends it with one error.
func TestBounds(t *testing.T) {
	for name, in := range map[string]string{
		"a string of 2^31":          "*2\r\n$4\r\nINCR\r\n$2147483648\r\n" + strings.Repeat("x", 1<<20),
		"a string of 2^64":          "*2\r\n$4\r\nINCR\r\n$18446744073709551616\r\n",
		"a string beyond the bound": "*2\r\n$4\r\nINCR\r\n$16384\r\n" + strings.Repeat("x", 1<<20),
		"an array of 2^31":          "*2147483648\r\n$4\r\nINCR\r\n",
		"an array beyond the bound": "*4097\r\n$4\r\nINCR\r\n",
		"an array of empty strings": "*4096\r\n" + strings.Repeat("$0\r\n\r\n", 4096),
		"a negative string":         "*2\r\n$4\r\nINCR\r\n$-1\r\n",
		"a length without an end":   "*" + strings.Repeat("1", 1<<20),
		"a line without an end":     strings.Repeat("INCR order ", 1<<17),
	} {
		f := answers(strings.NewReader(in + array("INCR", "order")))
		require.Regexp(t, `^-ERR Protocol error: [^\r\n]+\r\n$`, f.written.String(), name)
		require.Zero(t, f.last, name)
		require.Equal(t, map[string]int{"ERR": 1}, f.errors, name)
	}
	f := answers(strings.NewReader(array("INCR", strings.Repeat("x", MaxCommand-64)) + array("PING")))
	require.Equal(t, ":1\r\n+PONG\r\n", f.written.String(), "the longest one")

	// Unread, one answer is all that a connection holds beyond what it wanted to write.
	for _, in := range []string{array("INFO"), array("x"), array("LEAF.SEGMENT", "order", "100"), array("ECHO", strings.Repeat("x", 8<<10))} {
		w := &largest{fake: newFake(strings.NewReader(strings.Repeat(in, 10_000)))}
		_ = New(w, w).Serve()
		require.Less(t, w.most, flushBytes+MaxCommand, in)
	}
}

// largest knows the largest write.
type largest struct {
	*fake
	most int
}

func (l *largest) Write(p []byte) (int, error) {
	l.most = max(l.most, len(p))
	return len(p), nil
}

// Ten thousand pipelined commands get as many answers in order, in a write for each
// packet.
func TestPipelineIsWrittenAtOnce(t *testing.T) {
	for _, deep := range []int{1, 16, 100} {
		f := answers(strings.NewReader(strings.Repeat(array("INCR", "order"), deep)))
		require.EqualValues(t, deep, f.last)
		require.Equal(t, 1, f.writes, deep)
	}
	const many = 10_000
	in := strings.Repeat(array("INCR", "order"), many)
	f := answers(strings.NewReader(in))
	var want strings.Builder
	for i := range many {
		fmt.Fprintf(&want, ":%d\r\n", i+1)
	}
	require.Equal(t, want.String(), f.written.String())
	require.LessOrEqual(t, f.writes, len(in)/firstRead+1)
}

// Equal commands are answered each, regardless of what stands between them, behind
// them and in their midst.
func TestEqualCommands(t *testing.T) {
	incr, flake, none := array("INCR", "order"), array("LEAF.SNOWFLAKE", "order"), array("INCR", "none")
	in := strings.Repeat(incr, 7) + array("PING") + strings.Repeat(none, 3) + incr + incr + flake + flake + incr + incr +
		incr + strings.Repeat(array("INCR", "order2"), 2) + incr + array("LEAF.SEGMENT", "order", "2") + array("LEAF.SEGMENT", "order", "2") + incr + array("QUIT") + incr
	var want strings.Builder
	id := 0
	ids := func(n int) {
		for range n {
			id++
			fmt.Fprintf(&want, ":%d\r\n", id)
		}
	}
	ids(7)
	want.WriteString("+PONG\r\n" + strings.Repeat("-UNKNOWN_KEY no such tag\r\n", 3))
	ids(2 + 2 + 2 + 1 + 2 + 1)
	for range 2 {
		want.WriteString("*2\r\n")
		ids(2)
	}
	ids(1)
	want.WriteString("+OK\r\n")
	f := answers(strings.NewReader(in))
	require.Equal(t, want.String(), f.written.String())
	require.Equal(t, map[string]int{"UNKNOWN_KEY": 3}, f.errors)
	require.EqualValues(t, id, f.last, "none is lost")
	for cut := range len(in) {
		f := answers(io.MultiReader(strings.NewReader(in[:cut]), strings.NewReader(in[cut:])))
		require.Equal(t, want.String(), f.written.String(), cut)
		require.EqualValues(t, id, f.last)
	}
	f = answers(strings.NewReader(strings.Repeat(array("INCR", "x"), 3*maxAgain)))
	require.Equal(t, 3*maxAgain, strings.Count(f.written.String(), "\n"))
}

func TestCommandAllocatesNothing(t *testing.T) {
	for _, in := range []string{
		array("INCR", "order"), array("LEAF.SEGMENT", "order"), array("leaf.snowflake", "order"), array("PING"),
		strings.Repeat(array("INCR", "order"), 16),
	} {
		f := newFake(nil)
		s := &Session{rw: discard{f}, src: f}
		b := []byte(in)
		require.Zero(t, testing.AllocsPerRun(200, func() {
			if used, err := s.answerAll(b); used != len(b) || err != nil {
				t.Error(used, err)
			}
		}), in)
		require.Empty(t, f.errors)
	}
}

// discard is a connection that forgets what is written.
type discard struct{ *fake }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A client that is gone ends the connection, and the IDs of its commands are in no other.
func TestWriteFails(t *testing.T) {
	for _, in := range []string{array("INCR", "order"), array("LEAF.SEGMENT", "order", "101"), strings.Repeat(array("LEAF.SEGMENT", "order", "100"), 100)} {
		f := broken{newFake(strings.NewReader(in))}
		require.ErrorIs(t, New(f, f).Serve(), io.ErrClosedPipe)
		require.False(t, f.held)
	}
}

type broken struct{ *fake }

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAppendInts(t *testing.T) {
	for _, first := range []int64{0, 5, 98, 999, 1<<60 - 3, 999_999_999_999_999_990, math.MaxInt64 - 200} {
		for _, n := range []int{1, 2, 15, 200} {
			var want []byte
			for i := range n {
				want = AppendInt(want, first+int64(i))
			}
			require.Equal(t, "x"+string(want), string(appendInts([]byte("x"), first, n)), first)
		}
	}
}
