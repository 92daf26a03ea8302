package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/test/clitest"
)

// FuzzAddresses compares the addresses that are taken with net and netip.
func FuzzAddresses(f *testing.F) {
	for _, s := range []string{"127.0.0.1:8080", ":8080", "[::]:0", "[::1]:65536", "host:1", "10.0.0.5:0", "0.0.0.0:1", "[::ffff:0.0.0.0]:1", "[fe80::1%eth0]:1", "a:+1", "a:080", "unix:/x", "a", "", "[::1]", "a:b:c", "@x", strings.Repeat("x", 108), "/run/a\x00b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, a string) {
		if path, unix := strings.CutPrefix(a, UnixScheme); unix {
			require.Equal(t, CheckSocketPath(path), checkListen(a))
		} else if checkListen(a) == "" {
			_, port, err := net.SplitHostPort(a)
			require.NoError(t, err)
			n, err := strconv.Atoi(port)
			require.True(t, err == nil && n >= 0 && n <= 65535)
		}
		if checkAdvertise(a) == "" {
			at, err := netip.ParseAddrPort(a)
			require.NoError(t, err)
			require.False(t, at.Addr().Unmap().IsUnspecified() || at.Addr().Zone() != "" || at.Port() == 0, "no other machine reaches %s", a)
			require.Empty(t, checkListen(a))
		}
		if CheckSocketPath(a) == "" {
			_, err := net.ResolveUnixAddr("unix", a)
			require.NoError(t, err)
			require.LessOrEqual(t, len(a), 107)
		}
		if checkNode(a) == "" && a != "" {
			require.Regexp(t, `^[!-.0-~]{1,200}$`, a)
		}
	})
}

// FuzzSources: one text, given as a flag, as a variable or as a line of the file, is
// the same value or wrong in all three; the flag counts before the variable, and that
// before the file; no secret is shown.
func FuzzSources(f *testing.F) {
	for name, texts := range map[string][]string{
		"max-batch":   {"1", "+1", "007", "0x10", "1e3", "1_000", "9223372036854775807", "9223372036854775808", "1.5", "-1", "0", "١", ""},
		"drain-delay": {"10m", "1h30m", "-5s", "1d", "0", "0s", ".5s", "1e9s", "9999999h", "500ms"},
		"modes":       {"snowflake", "snowflake,segment", "segment,segment", " segment , snowflake ", ","},
		"node":        {"127.0.0.1:8080", "\x00", "\xff", "a\nb", "~", "null", "true", "!!int 5", "&a x", "\"", "'", "# x", "- a", "{}", "é", "0660"},
		"mysql":       {"a:b@tcp(c)/d", "s3cret"},
		"log-level":   {"info", "INFO"},
	} {
		number := slices.IndexFunc(All(), func(s Setting) bool { return s.Name == name })
		for _, text := range texts {
			f.Add(uint8(number), text, "5", true)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, text, other string, quoted bool) {
		all := All()
		s := all[int(number)%len(all)]
		if strings.ContainsRune(text, 0) || strings.ContainsRune(other, 0) || text == "" || other == "" || s.Kind == KindRates {
			return // no argument and no variable has a NUL; an empty variable is none
		}
		load := func(env map[string]string, file string, args ...string) (*Value, []string) {
			fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			AddFlags(fs)
			require.NoError(t, fs.Parse(args))
			layers, err := Sources{Env: env}.loadLayers(fs)
			require.NoError(t, err)
			require.Empty(t, layers.warnings)
			if file != "" {
				layers.path = "f"
				require.NoError(t, layers.parseFile([]byte(file)))
			}
			v := layers.parse(fs)
			return v.Find(s.Name), v.problems
		}
		flag, problems := load(map[string]string{EnvName(s.Name): other}, "", "--"+s.Name+"="+text)
		require.Equal(t, FromFlag, flag.source)
		requireValue(t, s, text, flag, problems)
		variable, problems := load(map[string]string{EnvName(s.Name): text}, "")
		require.Equal(t, FromEnv, variable.source)
		requireValue(t, s, text, variable, problems)
		require.Equal(t, flag.Parsed, variable.Parsed)
		if !quoted || len(text) > 1000 {
			return
		}
		line, err := yaml.Marshal(map[string]string{s.Name: text})
		require.NoError(t, err)
		if yaml.Unmarshal(line, &map[string]string{}) != nil { // of a tab and a line end it writes what it can't read
			line = fmt.Appendf(nil, "%s: %s", s.Name, jsonString(t, text))
		}
		if !bytes.Contains(line, []byte("!!binary")) {
			written, problems := load(nil, string(line))
			require.Equal(t, FromFile, written.source)
			requireValue(t, s, text, written, problems)
			require.Equal(t, flag.Parsed, written.Parsed, "%q", line)
		}
	})
}

// FuzzSecondDocument: of a file that is taken nothing is dropped unread.
func FuzzSecondDocument(f *testing.F) {
	for _, s := range []string{
		"node: a\n---\nnode: b\n", "---\nnode: a\n", "# x\n---\nnode: a\n...\n", "node: a\n...\nnode: b\n", "---\tx\n---\ty\n", "--- a\n--- b\n", "%YAML 1.1\n---\nnode: a\n", "node: a\r\n---\r\nnode: b\r\n", "node: a\r---\rnode: b\r",
		"node: |\n  x\n---\nb: c\n", "\xef\xbb\xbfnode: a\n", "node: a\n...\n---\nnode: b\n", "node: a\n... # end\nnode: b\n", "node: a\u2028---\u2028node: b\n", "--- # x\nnode: a\n", "---x\n", "node: \"\n---\n\"\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		AddFlags(fs)
		l, err := Sources{}.loadLayers(fs)
		require.NoError(t, err)
		if l.parseFile(content) != nil {
			return
		}
		documents := yaml.NewDecoder(bytes.NewReader(content))
		var first, second yaml.Node
		if documents.Decode(&first) != nil {
			return
		}
		err = documents.Decode(&second)
		require.ErrorIs(t, err, io.EOF, "what follows on the first document was dropped: %q", content)
	})
}

// FuzzToken: a token file holds one word that an HTTP header carries, or is refused
// without a word of it.
func FuzzToken(f *testing.F) {
	for _, s := range []string{clitest.AdminToken, clitest.AdminToken + "\n", "\t" + clitest.AdminToken + "\r\n", "short", "two words of sixteen", clitest.AdminToken + "\n" + clitest.AdminToken, clitest.AdminToken + "\x00", "sixteen-bytes-é", strings.Repeat("x", 4096), strings.Repeat("x", 4097), strings.Repeat(" ", 5000), ""} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "token")
	word := regexp.MustCompile(`^[!-~]{16,}$`)
	f.Fuzz(func(t *testing.T, content []byte) {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		token, warning, err := ReadToken(path)
		require.Empty(t, warning)
		trimmed := string(bytes.TrimSpace(content))
		require.Equal(t, len(content) <= 4096 && word.MatchString(trimmed), err == nil, "%v", err)
		if err != nil {
			require.Empty(t, token)
			require.False(t, len(trimmed) >= 8 && strings.Contains(err.Error(), trimmed))
			require.NotErrorIs(t, err, os.ErrNotExist)
			return
		}
		require.Equal(t, trimmed, token)
	})
}

// requireValue compares what was made of text with another reading of it.
func requireValue(t *testing.T, s Setting, text string, v *Value, problems []string) {
	t.Helper()
	require.Equal(t, v.bad, len(problems) == 1, problems)
	if v.bad {
		require.Nil(t, v.Parsed)
		require.Contains(t, strings.ReplaceAll(strings.ToLower(problems[0]), "_", "-"), s.Name, "names the setting")
		if s.Secret {
			require.Contains(t, problems[0], "(hidden)")
		}
		require.Less(t, len(problems[0]), 1000)
	}
	switch s.Kind {
	case KindNumber:
		n, ok := new(big.Int).SetString(text, 10)
		ok = ok && !strings.Contains(text, "_") && n.Cmp(big.NewInt(s.bounds.min)) >= 0 && n.Cmp(big.NewInt(s.bounds.max)) <= 0
		require.Equal(t, ok, !v.bad, "%s %q", s.Name, text)
		if ok {
			require.Equal(t, n.Int64(), v.Parsed)
		}
	case KindDuration:
		if !v.bad {
			d := v.Parsed.(time.Duration)
			require.True(t, int64(d) >= s.bounds.min && int64(d) <= s.bounds.max)
			again, err := time.ParseDuration(Short(d))
			require.NoError(t, err)
			require.Equal(t, d, again)
		}
	case KindBool:
		require.Equal(t, text == "true" || text == "false", !v.bad)
		if !v.bad {
			require.Equal(t, text == "true", v.Parsed)
		}
	case KindList:
		if !v.bad {
			list := v.Parsed.([]string)
			require.NotEmpty(t, list)
			for i, word := range list {
				require.Contains(t, s.Words, word)
				require.NotContains(t, list[:i], word)
			}
			require.Equal(t, strings.Join(list, ","), strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), ","))
		}
	default:
		require.Equal(t, s.Words == nil || slices.Contains(s.Words, text), !v.bad)
		if !v.bad {
			require.Equal(t, text, v.Parsed)
		}
	}
}

// jsonString is text as JSON has it, and so YAML.
func jsonString(t *testing.T, text string) []byte {
	t.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(t, err)
	return quoted
}
