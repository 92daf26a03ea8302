package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
		} else if checkListen(a) == nil {
			_, port, err := net.SplitHostPort(a)
			require.NoError(t, err)
			n, err := strconv.Atoi(port)
			require.True(t, err == nil && n >= 0 && n <= 65535)
		}
		if v := validated(&Config{Listen: Listen{Advertise: a}}, "advertise"); len(v.problems) == 0 && a != "" {
			at, err := netip.ParseAddrPort(a)
			require.NoError(t, err)
			require.False(t, at.Addr().Unmap().IsUnspecified() || at.Addr().Zone() != "" || at.Port() == 0, "no other machine reaches %s", a)
			require.NoError(t, checkListen(a))
		}
		if CheckSocketPath(a) == nil {
			_, err := net.ResolveUnixAddr("unix", a)
			require.NoError(t, err)
			require.LessOrEqual(t, len(a), 107)
		}
		if v := validated(&Config{Node: a}, "node"); len(v.problems) == 0 && a != "" {
			require.Regexp(t, `^[!-.0-~]{1,200}$`, a)
		}
	})
}

// validated checks c for a command that takes one setting.
func validated(c *Config, name string) *Values {
	v := &Values{All: []*Value{{Name: name, Setting: Setting{Name: name}}}}
	c.validate(context.Background(), Sources{}, v)
	return v
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
	path := filepath.Join(f.TempDir(), "f")
	f.Fuzz(func(t *testing.T, number uint8, text, other string, quoted bool) {
		all := All()
		s := all[int(number)%len(all)]
		if strings.ContainsRune(text, 0) || strings.ContainsRune(other, 0) || text == "" || other == "" || s.Kind == KindRates {
			return // no argument and no variable has a NUL; an empty variable is none
		}
		load := func(env map[string]string, args ...string) (*Value, []string) {
			v, err := loaded(t, Sources{Env: env}, args...)
			var wrong Errors
			_ = errors.As(err, &wrong)
			for i, problem := range wrong { // of another setting, that this one doesn't go with
				if !strings.Contains(strings.ReplaceAll(strings.ToLower(problem), "_", "-"), s.Name+" ") {
					wrong[i] = ""
				}
			}
			return v.Find(s.Name), slices.DeleteFunc(wrong, func(problem string) bool { return problem == "" })
		}
		flag, problems := load(map[string]string{EnvName(s.Name): other}, "--"+s.Name+"="+text)
		require.Equal(t, "flag", flag.Source)
		requireValue(t, s, text, flag, problems)
		if strings.TrimSpace(text) == "" { // an empty variable is none
			return
		}
		variable, problems := load(map[string]string{EnvName(s.Name): text})
		require.Equal(t, "env", variable.Source)
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
			require.NoError(t, os.WriteFile(path, line, 0o600))
			written, problems := load(nil, "--config="+path)
			require.Equal(t, "file", written.Source)
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
		if _, err := parseFile(content); err != nil {
			return
		}
		documents := yaml.NewDecoder(bytes.NewReader(content))
		var first, second yaml.Node
		if documents.Decode(&first) != nil {
			return
		}
		require.ErrorIs(t, documents.Decode(&second), io.EOF, "what follows on the first document was dropped: %q", content)
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
		token, err := ReadToken(path)
		trimmed := string(bytes.TrimSpace(content))
		require.Equal(t, len(content) <= 4096 && word.MatchString(trimmed), err == nil, "%v", err)
		if err != nil {
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
		if s.Secret {
			require.Contains(t, problems[0], "(hidden)")
		}
		require.Less(t, len(problems[0]), 1000)
	}
	text, err := plain(text)
	if err != nil {
		require.True(t, v.bad)
		return
	}
	switch s.Kind {
	case KindNumber:
		n, ok := new(big.Int).SetString(text, 10)
		least, most := int64(0), int64(math.MaxInt64)
		_, _ = fmt.Sscanf(s.Range, "%d to %d", &least, &most) // else "0 or more"
		ok = ok && !strings.Contains(text, "_") && n.Cmp(big.NewInt(least)) >= 0 && n.Cmp(big.NewInt(most)) <= 0
		require.Equal(t, ok, v.Parsed != nil, "%s %q", s.Name, text)
		if v.Parsed != nil {
			require.Equal(t, n.Int64(), v.Parsed)
		}
	case KindDuration:
		if v.Parsed != nil {
			again, err := time.ParseDuration(Short(v.Parsed.(time.Duration)))
			require.NoError(t, err)
			require.Equal(t, v.Parsed, again)
		}
	case KindBool:
		require.Equal(t, text == "true" || text == "false", !v.bad)
	case KindList:
		if v.Parsed != nil {
			list := v.Parsed.([]string)
			require.NotEmpty(t, list)
			for i, word := range list {
				require.Contains(t, s.Words, word)
				require.NotContains(t, list[:i], word)
			}
			require.Equal(t, strings.Join(list, ","), strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), ","))
		}
	default:
		require.Equal(t, len(s.Words) == 0 || slices.Contains(s.Words, text), v.Parsed != nil)
		if v.Parsed != nil {
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
