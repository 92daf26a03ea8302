//go:build long

package main

import (
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// program runs a program of Redis, and returns what it prints on both outputs.
func program(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// go-redis, redis-cli and redis-benchmark against one daemon: they connect as they do to
// Redis, no ID is given twice, by HTTP neither, and a stop disturbs no client.
func TestRedisClients(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	address := freeAddress(t)
	l := m.ready("--listen-redis", address, tune("SegmentWait", "10s"), "--admin-token-file", clitest.WriteFile(t, "token", clitest.AdminToken)) // a busy machine's range is no refusal
	l.awaitLog("leafd starts", `"listen_redis":"`+address+`"`)
	ctx := t.Context()

	var mu sync.Mutex
	seen := map[int64]bool{}
	add := func(ids ...int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if seen[id] {
				t.Errorf("%d came twice", id)
			}
			seen[id] = true
		}
	}
	const tag = "leaf-segment-test"
	var all sync.WaitGroup
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, ClientName: "shop", Password: clitest.AdminToken, ReadTimeout: eventually})
		defer func() { require.NoError(t, client.Close()) }()
		for range 4 {
			all.Go(func() {
				for range 50 {
					id, err := client.Incr(ctx, tag).Result()
					if err != nil {
						t.Error(err)
						return
					}
					many, err := client.Do(ctx, "LEAF.SEGMENT", tag, 10).Int64Slice()
					if err != nil {
						t.Error(err)
						return
					}
					add(append(many, id)...)
					piped, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
						for range 16 {
							p.Incr(ctx, tag)
						}
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
					for _, one := range piped {
						add(one.(*redis.IntCmd).Val())
					}
				}
			})
		}
		flake, err := client.Do(ctx, "LEAF.SNOWFLAKE", "order").Int64()
		require.NoError(t, err)
		decoded, err := client.Do(ctx, "LEAF.DECODE", flake).Result()
		require.NoError(t, err)
		if protocol == 3 {
			require.Equal(t, flake, decoded.(map[any]any)["id"])
		} else {
			require.Equal(t, []any{"id", flake}, decoded.([]any)[:2])
		}
		require.Equal(t, "PONG", client.Ping(ctx).Val())
		require.Equal(t, "shop", client.ClientGetName(ctx).Val())
		require.Contains(t, client.Info(ctx).Val(), "server_name:leafd")
		require.ErrorContains(t, client.Get(ctx, tag).Err(), "ERR unknown command 'get'")
		require.ErrorContains(t, client.Incr(ctx, "none").Err(), "UNKNOWN_KEY ")
		_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, tag).Err() })
		require.ErrorContains(t, err, "ERR leafd has no transactions")
	}
	all.Wait()
	require.Len(t, seen, 2*4*50*27)
	wrong := redis.NewClient(&redis.Options{Addr: address, Password: "not-the-admin-token"})
	defer func() { require.NoError(t, wrong.Close()) }()
	require.ErrorContains(t, wrong.Ping(ctx).Err(), "WRONGPASS")

	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	shell := program(t, "INCR "+tag+"\nLEAF.SNOWFLAKE x 2\nGET x\n", "redis-cli", "-3", "-p", port)
	require.Regexp(t, `^\d+\n\d{19}\n\d{19}\nERR unknown command 'GET'`, strings.ReplaceAll(shell, "\n\n", "\n"))
	load := program(t, "", "redis-benchmark", "-p", port, "-n", "20000", "-c", "50", "-P", "16", "-q", "INCR", tag)
	require.Contains(t, load, "requests per second")
	require.Contains(t, l.scrape(), `leafd_redis_errors_total{code="segment_unavailable"} 0`)

	require.Equal(t, cli.ExitOK, l.stop())
	require.False(t, l.hasLogged("were given up"), l.Log())
}
