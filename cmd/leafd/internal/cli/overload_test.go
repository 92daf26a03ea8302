package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/test/clitest"
)

// Rates of single keys stand in the file alone, and a reload takes them.
func TestRateLimitsSetting(t *testing.T) {
	t.Parallel()
	with := func(line string) invocation {
		return invocation{args: []string{"--config", clitest.WriteFile(t, "leafd.yaml", line+"\n")}}
	}
	start := captured(t, invocation{})
	next := captured(t, with(`rate-limits: {order: 5000, 7: 0}`))
	require.Equal(t, map[string]int{"order": 5000, "7": 0}, next.Live().RateLimits)
	require.Equal(t, next.Limits, start.WithLive(next).Limits)
	require.Empty(t, captured(t, with("rate-limits: {}")).Limits.RateLimits)
	for _, bad := range []string{"rate-limits: 5", "rate-limits: {order: -1}", "rate-limits: {order: 1.5}", "rate-limits: {order: 10000001}", "rate-limits: {order: 1, order: 2}", "rate-limits: [order]", `rate-limits: "order"`, `rate-limits: {"": 5}`} {
		run := with(bad)
		run.args = append([]string{"serve"}, run.args...)
		run.run(t).Failed(t, ExitUsage, "rate-limits", "0 to 10000000")
	}
	invocation{args: []string{"serve"}, env: map[string]string{"LEAFD_RATE_LIMITS": "order=5"}}.run(t).Failed(t, ExitUsage, "LEAFD_RATE_LIMITS", "in the file")
}

func TestTokensFile(t *testing.T) {
	t.Parallel()
	hash := func(digits string) string { return strings.Repeat(digits, 32) }
	file := func(content string) string { return clitest.WriteFile(t, "tokens.yaml", content) }
	entry := func(rest string) string { return "- {sha256: " + hash("1f") + ", " + rest + "}\n" }

	cfg := captured(t, invocation{args: []string{"--tokens-file", file(entry(`name: shop, ids: "order, pay*"`) +
		"- name: ops\n  sha256: " + hash("2F") + "\n  admin: true\n- {name: shop, ids: '*', sha256: " + hash("3f") + "}\n")}})
	require.Len(t, cfg.Live().Callers, 3)
	require.Equal(t, ids.Caller{Name: "shop", SHA256: [32]byte(bytes.Repeat([]byte{0x1f}, 32)), IDs: []string{"order", "pay*"}}, cfg.HTTP.Callers[0])
	require.Equal(t, ids.Caller{Name: "ops", SHA256: [32]byte(bytes.Repeat([]byte{0x2f}, 32)), Admin: true}, cfg.HTTP.Callers[1])
	require.Empty(t, cfg.Warnings)
	require.Equal(t, cfg.HTTP.Callers, captured(t, invocation{}).WithLive(cfg).HTTP.Callers)

	for content, says := range map[string]string{
		"":                             "1 to 1000 entries",
		"[]":                           "1 to 1000 entries",
		strings.Repeat("- {}\n", 1001): "1 to 1000 entries",
		"hunter2":                      "want a list",
		"- {name: [hunter2]}":          "want a list",
		"- {nam: hunter2}":             "want a list",
		"- \"":                         "want a list",
		entry("name: a, ids: b") + "---\n" + entry("name: a, ids: b"): "one YAML document",
		entry("ids: b"):                                     "want a name",
		entry("name: a b, ids: b"):                          "want a name",
		entry("name: " + strings.Repeat("a", 65)):           "want a name",
		entry("name: a"):                                    "want ids, or admin",
		entry(`name: a, ids: "b,,c"`):                       "in ids keys",
		entry(`name: a, ids: "*b"`):                         "in ids keys",
		entry(`name: a, ids: "b**"`):                        "in ids keys",
		entry("name: a, ids: " + strings.Repeat("b", 513)):  "in ids keys",
		entry("name: a, ids: b") + entry("name: c, ids: d"): "that of entry 1",
		"- {name: a, ids: b, sha256: hunter2}":              "64 hexadecimal",
		"- {name: a, ids: b, sha256: " + hash("1f") + "0}":  "64 hexadecimal",
		"- {name: a, ids: b, sha256: " + hash("00") + "}":   "token of its own",
	} {
		out := leafd(t, "serve", "--tokens-file", file(content))
		out.Failed(t, ExitUsage, "tokens-file", says)
		require.NotContains(t, out.Stderr, "hunter2")
	}
	const token = "0123456789abcdef"
	sum := sha256.Sum256([]byte(token))
	leafd(t, "serve", "--admin-token-file", clitest.WriteFile(t, "token", token),
		"--tokens-file", file("- {name: a, ids: b, sha256: "+hex.EncodeToString(sum[:])+"}")).Failed(t, ExitUsage, "not that of admin-token-file")
	leafd(t, "serve", "--tokens-file", "/nothing").Failed(t, ExitUsage, "it can't be read")

	path := file(entry("name: a, ids: b"))
	require.NoError(t, os.Chmod(path, 0o666))
	require.Contains(t, captured(t, invocation{args: []string{"--tokens-file", path}}).Warnings[0], "writable to every user")
}
