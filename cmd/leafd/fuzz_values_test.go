package main

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

	"github.com/leafd/leafd/clock/clocktest"
	"github.com/leafd/leafd/snowflake"
)

// FuzzSources: one text, given as a flag, as a variable or as a line of the file, is
// the same value or wrong in all three; the flag counts before the variable, and that
// before the file; no secret is shown.
func FuzzSources(f *testing.F) {
	for name, texts := range map[string][]string{
		"max-batch":    {"1", "+1", "007", "0x10", "1e3", "1_000", "9223372036854775807", "9223372036854775808", "1.5", "-1", "0", "١", ""},
		"segment-wait": {"10m", "1h30m", "-5s", "1d", "0", "0s", ".5s", "1e9s", "9999999h", "500ms"},
		"modes":        {"snowflake", "snowflake,segment", "segment,segment", " segment , snowflake ", ","},
		"node":         {"127.0.0.1:8080", "\x00", "\xff", "a\nb", "~", "null", "true", "!!int 5", "&a x", "\"", "'", "# x", "- a", "{}", "é", "0660"},
		"mysql":        {"a:b@tcp(c)/d", "s3cret"},
		"log-level":    {"info", "INFO"},
	} {
		number := slices.IndexFunc(settings(), func(s setting) bool { return s.name == name })
		for _, text := range texts {
			f.Add(uint8(number), text, "5", true)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, text, other string, quoted bool) {
		all := settings()
		s := all[int(number)%len(all)]
		if strings.ContainsRune(text, 0) || strings.ContainsRune(other, 0) || text == "" || other == "" {
			return // no argument and no variable has a NUL; an empty variable is none
		}
		load := func(env map[string]string, file string, args ...string) (*value, []string) {
			fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			addSettings(fs)
			require.NoError(t, fs.Parse(args))
			a := newApp(process{Clock: clocktest.New(testNow), Env: env})
			layers, err := a.loadLayers(fs)
			require.NoError(t, err)
			require.Empty(t, layers.warnings)
			if file != "" {
				layers.path = "f"
				require.NoError(t, layers.parseFile([]byte(file)))
				require.NoError(t, layers.merged.Merge(layers.file))
			}
			v := layers.parse(fs)
			return v.find(s.name), v.problems
		}
		flag, problems := load(map[string]string{envName(s.name): other}, "", "--"+s.name+"="+text)
		require.Equal(t, fromFlag, flag.source)
		requireValue(t, s, text, flag, problems)
		variable, problems := load(map[string]string{envName(s.name): text}, "")
		require.Equal(t, fromEnv, variable.source)
		requireValue(t, s, text, variable, problems)
		require.Equal(t, flag.parsed, variable.parsed)
		if s.kind == kindNumber || !quoted || len(text) > 1000 {
			return
		}
		line, err := yaml.Marshal(map[string]string{s.name: text})
		require.NoError(t, err)
		if yaml.Unmarshal(line, &map[string]string{}) != nil { // of a tab and a line end it writes what it can't read
			line = fmt.Appendf(nil, "%s: %s", s.name, jsonString(t, text))
		}
		if !bytes.Contains(line, []byte("!!binary")) {
			written, problems := load(nil, string(line))
			require.Equal(t, fromFile, written.source)
			requireValue(t, s, text, written, problems)
			require.Equal(t, flag.parsed, written.parsed, "%q", line)
		}
	})
}

// jsonString is text as JSON has it, and so YAML.
func jsonString(t *testing.T, text string) []byte {
	t.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(t, err)
	return quoted
}

// requireValue compares what was made of text with another reading of it.
func requireValue(t *testing.T, s setting, text string, v *value, problems []string) {
	t.Helper()
	require.Equal(t, v.bad, len(problems) == 1, problems)
	if v.bad {
		require.Nil(t, v.parsed)
		require.Contains(t, strings.ReplaceAll(strings.ToLower(problems[0]), "_", "-"), s.name, "names the setting")
		if s.secret {
			require.Contains(t, problems[0], "(hidden)")
		}
		require.Less(t, len(problems[0]), 1000)
	}
	switch s.kind {
	case kindNumber:
		n, ok := new(big.Int).SetString(text, 10)
		ok = ok && !strings.Contains(text, "_") && n.Cmp(big.NewInt(s.min)) >= 0 && n.Cmp(big.NewInt(s.max)) <= 0
		require.Equal(t, ok, !v.bad, "%s %q", s.name, text)
		if ok {
			require.Equal(t, n.Int64(), v.parsed)
		}
	case kindDuration:
		if !v.bad {
			d := v.parsed.(time.Duration)
			require.True(t, int64(d) >= s.min && int64(d) <= s.max)
			again, err := time.ParseDuration(short(d))
			require.NoError(t, err)
			require.Equal(t, d, again)
		}
	case kindList:
		if !v.bad {
			list := v.parsed.([]string)
			require.NotEmpty(t, list)
			for i, word := range list {
				require.Contains(t, s.words, word)
				require.NotContains(t, list[:i], word)
			}
			require.Equal(t, strings.Join(list, ","), strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), ","))
		}
	default:
		require.Equal(t, s.words == nil || slices.Contains(s.words, text), !v.bad)
		if !v.bad {
			require.Equal(t, text, v.parsed)
		}
	}
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
		addSettings(fs)
		l, err := newApp(process{Clock: clocktest.New(testNow)}).loadLayers(fs)
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

// FuzzReadIDs: of IDs on the command line or standard input each is taken apart and
// composed to itself, or all of them are refused.
func FuzzReadIDs(f *testing.F) {
	for _, s := range []string{"1\n", " 1 \n\n2", "-0", "+1", "-1", "007", "9223372036854775808", "2124140238493188149\r\n1", "x", "1\x002", "１", strings.Repeat("1", 70_000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := newApp(process{Clock: clocktest.New(testNow), Stdin: strings.NewReader(text)})
		layout := snowflake.DefaultLayout()
		got, err := a.readIDs([]string{"-"}, layout)
		var want []*big.Int
		right := true
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSpace(line)
			n, ok := new(big.Int).SetString(line, 10)
			if line != "" {
				want = append(want, n)
				right = right && ok && strings.Trim(line, "0123456789") == "" && n.IsInt64()
			}
		}
		if err != nil {
			require.True(t, !right || len(text) > 60_000, "%v", err) // a line may be too long for any ID
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.True(t, right)
		require.Len(t, got, len(want))
		for i, d := range got {
			require.Equal(t, want[i].Int64(), d.id)
			back, err := layout.Compose(d.parts)
			require.NoError(t, err)
			require.Equal(t, d.id, back)
		}
	})
}

// FuzzDaemonAnswer: what a daemon answers is its IDs, as it writes them, or an error
// on one printable line.
func FuzzDaemonAnswer(f *testing.F) {
	for _, s := range []string{`{"ids":["1","2"]}`, `{"ids":["+1"]}`, `{"ids":["-1"]}`, `{"ids":["007"]}`, `{"ids":[1]}`, `{"ids":null}`, `{"IDS":["1"]}`, `{"code":"x","message":"\u001b[2J\n"}`, `<html>`, ``, `{"ids":["9223372036854775808"]}`, `{"ids":["1\n2"]}`} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 2)
	}
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		got, err := readAnswer(body, n)
		if err == nil {
			require.Len(t, got.IDs, n)
			for _, text := range got.IDs {
				id, err := strconv.ParseInt(text, 10, 64)
				require.NoError(t, err)
				require.Equal(t, strconv.FormatInt(id, 10), text)
				require.GreaterOrEqual(t, id, int64(0))
			}
		}
		for _, err := range []error{err, refused("503 Service Unavailable", body)} {
			if err != nil {
				require.Equal(t, -1, strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
			}
		}
	})
}

// FuzzAddresses compares the addresses that are taken with net and netip.
func FuzzAddresses(f *testing.F) {
	for _, s := range []string{"127.0.0.1:8080", ":8080", "[::]:0", "[::1]:65536", "host:1", "10.0.0.5:0", "0.0.0.0:1", "[::ffff:0.0.0.0]:1", "[fe80::1%eth0]:1", "a:+1", "a:080", "unix:/x", "a", "", "[::1]", "a:b:c", "@x", strings.Repeat("x", 108), "/run/a\x00b"} {
		f.Add(s, "0.0.0.0:8080")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if checkListen(a) == "" {
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
		require.True(t, sameAddress(a, a))
		require.Equal(t, sameAddress(a, b), sameAddress(b, a))
		if checkSocketPath(a) == "" {
			_, err := net.ResolveUnixAddr("unix", a)
			require.NoError(t, err)
			require.LessOrEqual(t, len(a), 107)
		}
		if checkNode(a) == "" && a != "" {
			require.Regexp(t, `^[!-.0-~]{1,200}$`, a)
		}
	})
}

// FuzzToken: a token file holds one word that an HTTP header carries, or is refused
// without a word of it.
func FuzzToken(f *testing.F) {
	for _, s := range []string{adminToken, adminToken + "\n", "\t" + adminToken + "\r\n", "short", "two words of sixteen", adminToken + "\n" + adminToken, adminToken + "\x00", "sixteen-bytes-é", strings.Repeat("x", 4096), strings.Repeat("x", 4097), strings.Repeat(" ", 5000), ""} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "token")
	word := regexp.MustCompile(`^[!-~]{16,}$`)
	f.Fuzz(func(t *testing.T, content []byte) {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		token, warning, err := readToken(path)
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
