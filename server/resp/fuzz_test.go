package resp

import (
	"bytes"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// For any bytes a command is whole or nothing, and neither what is answered nor
// which IDs are used depends on how the bytes arrived.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		array("INCR", "order"), array("LEAF.SEGMENT", "order", "3") + array("PING"), "*1\r\n$4\r\nPI", "*-1\r\n*0\r\n" + array("PING", "x"),
		"*2\r\n$4\r\nINCR\r\n$2147483648\r\n", "*1\r\n:1\r\n", "incr x\r\n", "GET / HTTP/1.1\r\n", "*3\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n",
		array("HELLO", "3", "AUTH", "default", "x", "SETNAME", "y") + array("CLIENT", "GETNAME"), array("QUIT") + "x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c command
		n, err := c.parse(b)
		require.True(t, n >= 0 && n <= len(b) && (err == nil || n == 0))
		if n > 0 {
			require.LessOrEqual(t, n, max(MaxCommand, 6*maxArgs+16))
			for _, arg := range c.kept() {
				require.LessOrEqual(t, len(arg), n)
			}
			for split := range n {
				used, err := new(command).parse(b[:split])
				require.NoError(t, err)
				require.Zero(t, used, "of %d bytes", split)
			}
		}
		if len(b) > 4<<10 {
			return // seconds for little
		}
		whole, bytewise := answers(bytes.NewReader(b)), answers(iotest.OneByteReader(bytes.NewReader(b)))
		require.Equal(t, whole.last, bytewise.last)
		require.Equal(t, whole.errors, bytewise.errors)
		require.Equal(t, masked(whole), masked(bytewise))
	})
}

// masked is what was answered without CLIENT ID, which differs for each connection.
func masked(f *fake) string { return idLine.ReplaceAllString(f.written.String(), "$1:0\r\n") }
