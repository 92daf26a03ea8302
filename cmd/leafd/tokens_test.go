package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// Callers of a daemon with a tokens-file, over HTTP, the command line and the Redis protocol; a reload
// takes the file as a whole.
func TestTokensOfTheDaemon(t *testing.T) {
	t.Parallel()
	const shop, other = "the-token-of-the-shop", "the-token-of-another"
	entry := func(name, token, rest string) string {
		sum := sha256.Sum256([]byte(token))
		return "- {name: " + name + ", sha256: " + hex.EncodeToString(sum[:]) + ", " + rest + "}\n"
	}
	m := newMachine(t)
	address, tokens := freeAddress(t), m.dir+"/tokens.yaml"
	rewrite(t, tokens, entry("shop", shop, `ids: "leaf-segment-test,leafd"`))
	l := m.ready("--listen-redis", address, "--tokens-file", tokens, tune("SegmentWait", "10s")) // a busy machine's range is no refusal
	status := func(token string) int { return l.send("GET", "/api/snowflake/get/leafd", token, "").status }
	require.Equal(t, http.StatusUnauthorized, l.mustGet("/api/snowflake/get/leafd").status)
	require.Equal(t, http.StatusUnauthorized, status(other))
	require.Equal(t, http.StatusOK, status(shop))
	require.Equal(t, http.StatusUnauthorized, l.send("GET", "/api/snowflake/get/other", shop, "").status)

	next := func(args ...string) clitest.Outcome {
		return leafd(t, append([]string{"id", "next", "--url", l.url}, args...)...)
	}
	next().Failed(t, cli.ExitFailure, "unauthorized")
	next("--token-file", clitest.WriteFile(t, "token", shop+"\n")).OK(t)
	next("--token-file", "/nothing").Failed(t, cli.ExitUsage, "--token-file")

	caller, none := dialRedis(t, "tcp", address, nil), dialRedis(t, "tcp", address, nil)
	require.Equal(t, "+OK", caller("AUTH shop "+shop))
	require.Regexp(t, anID, caller(incrTag))
	require.Contains(t, caller("INCR other"), "NOPERM")
	require.Contains(t, none(incrTag), "NOAUTH")
	require.Contains(t, none("AUTH another "+shop), "WRONGPASS")

	rewrite(t, tokens, entry("shop", other, "ids: leafd")+entry("shop", other, "admin: true"))
	l.hup()
	l.awaitLog("reload: refused", "tokens-file")
	require.Equal(t, http.StatusOK, status(shop))
	rewrite(t, tokens, entry("shop", other, "ids: leafd"))
	l.hup()
	l.awaitLog("reload: settings taken", "tokens-file: (content) -> (new content)")
	require.Equal(t, http.StatusUnauthorized, status(shop))
	require.Equal(t, http.StatusOK, status(other))
	require.Contains(t, caller(incrTag), "NOAUTH", "the open connection too")
	require.NotEqual(t, "0", l.metric(`leafd_caller_requests_total{caller="shop"}`))
	require.NotContains(t, l.Log(), "the-token")
	require.Equal(t, cli.ExitOK, l.stop())
}
