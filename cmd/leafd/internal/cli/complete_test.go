package cli

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// completed is what a shell would offer for the last of args, and where that stands what else
// it is told.
func completed(t *testing.T, args ...string) (offered []string, directive string) {
	t.Helper()
	out := invocation{args: append([]string{"__completeNoDesc"}, args...)}.run(t)
	require.Equal(t, ExitOK, out.Code, out.Stderr)
	require.Equal(t, 1, strings.Count(out.Stderr, "\n"), "cobra's own line alone: %s", out.Stderr)
	lines := strings.Split(strings.TrimSuffix(out.Stdout, "\n"), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

const (
	noFiles = ":4"
	dirs    = ":16"
	files   = ":0"
)

func TestCompletionOfWords(t *testing.T) {
	t.Parallel()
	for _, s := range settings.All() {
		offered, directive := completed(t, "serve", "--"+s.Name, "")
		want := append(s.Words, s.Offer...)
		require.ElementsMatch(t, want, offered, s.Name)
		switch s.Kind {
		case settings.KindFile:
			require.Equal(t, files, directive, s.Name)
		case settings.KindDirectory:
			require.Equal(t, dirs, directive, s.Name)
		default:
			require.Equal(t, noFiles, directive, s.Name)
		}
	}
	for _, tc := range []struct {
		line string // its last word is not completed yet
		want []string
	}{
		{"serve --modes s", []string{"snowflake", "segment"}},
		{"serve --modes snowflake,", []string{"snowflake,segment"}},
		{"serve --segment-guard=", []string{"prefer", "require"}},
		{"worker list -o ", []string{"text", "json"}},
		{"config -o ", []string{"text", "json", "yaml"}},
		{"worker list --state live,e", []string{"live,expired"}},
		{"bench --mode ", []string{"snowflake", "segment"}},
		{"bench --key ", nil},
		{"segment create ", nil},
		{"id decode ", nil},
		{"worker show 7 ", nil},
	} {
		offered, directive := completed(t, strings.Split(tc.line, " ")...)
		require.ElementsMatch(t, tc.want, offered, tc.line)
		require.Equal(t, noFiles, directive, tc.line)
	}
	for line, want := range map[string]string{"serve --config ": files, "id next --ca-file ": files, "bench --unique-dir ": dirs} {
		offered, directive := completed(t, strings.Split(line, " ")...)
		require.Empty(t, offered)
		require.Equal(t, want, directive, line)
	}
}

// Words that a flag's usage names as a choice are completed: the table's by TestCompletionOfWords,
// and a command's own.
func TestEachOutputIsCompleted(t *testing.T) {
	t.Parallel()
	eachCommand(newApp(Process{}).root(), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "output" || f.Name == "mode" {
				require.NotEmpty(t, f.Annotations[wordsAnnotation], cmd.CommandPath())
			}
		})
	})
}

func TestCompletionOfTags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tag := range []string{"order", "order-de", "user", "$(reboot)", "订单"} {
		leafd(t, "segment", "create", tag, "--data-dir", dir, "--description", "what\tfor").OK(t)
	}
	for line, want := range map[string][]string{
		"segment delete ":       {"leaf-segment-test", "order", "order-de", "user", "订单"},
		"segment update order":  {"order", "order-de"},
		"segment forget 订":      {"订单"},
		"segment update order ": nil,
	} {
		words := strings.Split(line, " ")
		words = append([]string{"segment", words[1], "--data-dir", dir}, words[2:]...)
		offered, directive := completed(t, words...)
		require.ElementsMatch(t, want, offered, line)
		require.Equal(t, noFiles, directive)
	}
	out := invocation{args: []string{"__complete", "segment", "delete", "--data-dir", dir, "us"}}.run(t)
	require.Contains(t, out.Stdout, "user\twhat?for\n")

	url, asked := served(t, 200, `{"segments":[{"tag":"order","high":"1","table_step":"1"},{"tag":"-x","high":"1","table_step":"1"}],"next":"z"}`)
	for _, line := range []string{"id next --url " + url + " --tag order", "bench --mode segment --url " + url + " --key order"} {
		offered, _ := completed(t, strings.Split(line, " ")...)
		require.Equal(t, []string{"order"}, offered, line)
		require.Equal(t, "orde", asked().URL.Query().Get("after"))
	}
}

// What doesn't answer offers nothing, soon, and without a word.
func TestCompletionIsSilent(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = deaf.Close() })
	notFound, _ := served(t, 404, "<html>")
	for _, args := range [][]string{
		{"segment", "update", "--data-dir", t.TempDir() + "/none"},
		{"segment", "update", "--mysql", "leafd:x@tcp(" + deaf.Addr().String() + ")/leaf"},
		{"segment", "update", "--config", "/does/not/exist"},
		{"segment", "update", "--url", "http://" + deaf.Addr().String()},
		{"segment", "update", "--url", notFound},
		{"id", "next", "--url", "nonsense", "--tag"},
		{"worker", "show", "--zk", deaf.Addr().String()},
		{"worker", "release"},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			offered, directive := completed(t, append(args, "")...)
			require.Empty(t, offered)
			require.Equal(t, noFiles, directive)
			require.Less(t, time.Since(began), defaultRegistryTimeout, "the shortest that a command waits by itself")
		})
	}
}
