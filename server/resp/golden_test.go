package resp

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/proctest"
)

// rewriteVariable has TestTranscriptsAreOfRedis write the transcripts again.
const rewriteVariable = "LEAFDTEST_TRANSCRIPTS"

// exchange is one connection: what a client sends, and what it is answered with.
type exchange struct{ sent, answered string }

// readTranscript reads a file of exchanges: lines that begin with "> " are sent, those with
// "< " are the answer, both quoted as in Go; an empty line ends an exchange.
func readTranscript(t *testing.T, path string) (all []exchange) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for part := range strings.SplitSeq(string(text), "\n\n") {
		var e exchange
		for line := range strings.SplitSeq(strings.TrimSpace(part), "\n") {
			kind, quoted, _ := strings.Cut(line, " ")
			if kind == "#" || line == "" {
				continue
			}
			plain, err := strconv.Unquote(`"` + strings.ReplaceAll(quoted, `"`, `\"`) + `"`)
			require.NoError(t, err, line)
			if kind == ">" {
				e.sent += plain
			} else {
				e.answered += plain
			}
		}
		if e.sent != "" {
			all = append(all, e)
		}
	}
	return all
}

// The version differs, and so do the name of the server and the numbers of connections.
var (
	idLine      = regexp.MustCompile(`(\$2\r\nid\r\n):\d+\r\n`)
	serverLines = regexp.MustCompile(`\$\d+\r\n(redis|leafd)\r\n\$7\r\nversion\r\n\$\d+\r\n[0-9.]+\r\n`)
)

func sameInAll(answer string) string {
	return serverLines.ReplaceAllString(idLine.ReplaceAllString(answer, "${1}:0\r\n"), "(server)")
}

// What drivers send at connect and for health, and what they may send by mistake, is answered
// as redis-server did.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, e := range readTranscript(t, file) {
				require.Equal(t, sameInAll(e.answered), sameInAll(answers(strings.NewReader(e.sent)).written.String()), "%q", e.sent)
			}
		})
	}
}

// The transcripts are a real server's: it answers the same today.
func TestTranscriptsAreOfRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	address, err := proctest.FreeAddress()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	redis, err := proctest.StartDaemon(proctest.Config{Address: address, Command: []string{
		"redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir(),
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, redis.Stop(10*time.Second)) }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, redis.AwaitListening(ctx))
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		var page bytes.Buffer
		for _, e := range readTranscript(t, file) {
			nc, err := net.Dial("tcp", address)
			require.NoError(t, err)
			require.NoError(t, nc.SetDeadline(time.Now().Add(10*time.Second)))
			_, err = io.WriteString(nc, "DEL order\r\n")
			require.NoError(t, err)
			_, err = nc.Read(make([]byte, 4))
			require.NoError(t, err)
			_, err = io.WriteString(nc, e.sent)
			require.NoError(t, err)
			answered, err := io.ReadAll(nc) // each exchange ends the connection
			require.NoError(t, err, "%q", e.sent)
			require.NoError(t, nc.Close())
			if os.Getenv(rewriteVariable) == "" {
				require.Equal(t, sameInAll(e.answered), sameInAll(string(answered)), "%q", e.sent)
			}
			writeLines(&page, "> ", e.sent)
			writeLines(&page, "< ", string(answered))
			page.WriteByte('\n')
		}
		if os.Getenv(rewriteVariable) != "" {
			require.NoError(t, os.WriteFile(file, page.Bytes(), 0o600))
		}
	}
}

func writeLines(page *bytes.Buffer, mark, text string) {
	for line := range strings.SplitAfterSeq(text, "\n") {
		if line != "" {
			quoted := strconv.Quote(line)
			page.WriteString(mark + strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + "\n")
		}
	}
}
