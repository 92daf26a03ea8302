package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHolder: for any list of locks and any lock file, the holder is none, or a process that
// is listed; the writer of the file, if it holds the lock.
func FuzzHolder(f *testing.F) {
	for _, list := range []string{
		"", "1: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF\n", "1: OFDLCK ADVISORY  WRITE -1 00:06:131 0 EOF\n", "1: FLOCK  ADVISORY  WRITE -1 08:01:131 0 EOF\n",
		"1: FLOCK  ADVISORY  READ 1 08:01:131 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 2 08:01:131 0 EOF\n", "1: POSIX  ADVISORY  WRITE 3 08:01:131 0 EOF", "FLOCK WRITE", "1: FLOCK ADVISORY WRITE 99999999999999999999 08:01:131 0 EOF\n",
	} {
		f.Add(list, uint64(131), "4242\n")
	}
	f.Add("1: FLOCK  ADVISORY  WRITE -1 08:01:131 0 EOF\n", uint64(131), "-1")
	f.Add("", uint64(0), "0x10")
	path := filepath.Join(f.TempDir(), lockName)
	f.Fuzz(func(t *testing.T, list string, inode uint64, content string) {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		written := writtenPID(path)
		got := pidIn(list, inode, written)
		require.GreaterOrEqual(t, got, 0)
		if !strings.Contains(list, ":"+strconv.FormatUint(inode, 10)) {
			require.Zero(t, got)
		}
		if got > 0 {
			require.Regexp(t, fmt.Sprintf(`FLOCK\s[^\n]*WRITE\s+\+?0*%d\s`, got), list)
		}
		if written > 0 {
			require.Equal(t, strconv.Itoa(written), strings.TrimLeft(strings.TrimSpace(strings.SplitN(content, "\n", 2)[0]), "+0"))
			line := fmt.Sprintf("7: FLOCK  ADVISORY  WRITE %d 08:01:%d 0 EOF\n", written, inode)
			require.Equal(t, written, pidIn(line+list, inode, written))
			require.Equal(t, written, pidIn(list+"\n"+line, inode, written))
		}
	})
}
