package snowflake_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// golden is testdata/snowflake/golden.json, made by programs that share nothing
// with this package; the README beside it says how.
type golden struct {
	Vectors []struct {
		Layout     string       `json:"layout"`
		Epoch      clock.Millis `json:"epoch"`
		Timestamp  clock.Millis `json:"timestamp"`
		Datacenter int64        `json:"datacenter"`
		Worker     int64        `json:"worker"`
		Sequence   int64        `json:"sequence"`
		ID         string       `json:"id"`
	} `json:"vectors"`
	InvalidLayouts []invalidLayout `json:"invalid_layouts"`
}

type invalidLayout struct{ Layout, Reason string }

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("../testdata/snowflake/golden.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(raw, &g))
	require.NotEmpty(t, g.Vectors)
	require.NotEmpty(t, g.InvalidLayouts)
	return g
}

func TestGoldenVectors(t *testing.T) {
	for _, v := range readGolden(t).Vectors {
		layout, err := snowflake.ParseLayout(v.Layout, v.Epoch)
		require.NoError(t, err)
		id, err := strconv.ParseInt(v.ID, 10, 64)
		require.NoError(t, err)
		parts := snowflake.Parts{Time: v.Timestamp, Datacenter: v.Datacenter, Worker: v.Worker, Sequence: v.Sequence}
		composed, err := layout.Compose(parts)
		require.NoError(t, err, "%+v", v)
		require.Equal(t, id, composed, "%+v", v)
		decoded, err := layout.Decode(id)
		require.NoError(t, err, "%+v", v)
		require.Equal(t, parts, decoded, "%+v", v)
	}
}

func TestGoldenInvalidLayouts(t *testing.T) {
	for _, v := range append(readGolden(t).InvalidLayouts, invalidLayout{"041+10+12", "a zero in front"}) {
		_, err := snowflake.ParseLayout(v.Layout, snowflake.DefaultEpoch)
		require.ErrorIs(t, err, snowflake.ErrBadLayout, "%q: %s", v.Layout, v.Reason)
	}
}
