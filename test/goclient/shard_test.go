package goclient

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/client"
	"github.com/leafd/leafd/test/proctest"
)

// TestShards: an ID decodes to its shard, and to the time, worker and sequence that it had, which are unique.
func TestShards(t *testing.T) {
	const layout = "41+5+5+12"
	d := startLeafd(t, "--layout", layout, "--datacenter", "0", "--worker-id", "7")
	c, err := client.New(client.Config{Addresses: []string{"http://" + d.cfg.Address}})
	require.NoError(t, err)
	defer c.Close()
	ids := make([]int64, 32)
	require.NoError(t, c.Snowflake("order").NextN(within(t), ids))
	decode := func(ids []int64) (parts []struct{ Datacenter, Timestamp, Worker, Sequence int64 }) {
		args := []string{"id", "decode", "-o", "json", "--layout", layout}
		for _, id := range ids {
			args = append(args, strconv.FormatInt(id, 10))
		}
		out, err := exec.CommandContext(within(t), proctest.Leafd(t), args...).Output()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(out, &parts))
		return parts
	}
	want := decode(ids)
	for shard := range ids {
		require.Zero(t, want[shard].Datacenter)
		want[shard].Datacenter = int64(shard)
		ids[shard], err = client.WithShard(ids[shard], int64(shard), 5, 5, 12)
		require.NoError(t, err)
	}
	require.Equal(t, want, decode(ids))
}
