package client_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/client"
)

// The daemons have --layout 41+5+5+12 and --datacenter 0.
func ExampleWithShard() {
	id := int64(2124080377352974378) // as leafd issues it
	id, err := client.WithShard(id, 9, 5, 5, 12)
	fmt.Println(id, id>>17&31, err)
	// Output: 2124080377354154026 9 <nil>
}

func TestWithShardRefuses(t *testing.T) {
	for _, tc := range []struct {
		name                         string
		id, shard                    int64
		datacenter, worker, sequence int
		says                         string
	}{
		{"a shard that doesn't fit", 0, 32, 5, 5, 12, "shard 32: want 0 to 31, for 5 bits"},
		{"a negative shard", 0, -1, 5, 5, 12, "shard -1"},
		{"a negative ID", -1, 0, 5, 5, 12, "-1 is no ID"},
		{"a shard twice", 1 << 17, 1, 5, 5, 12, "has datacenter or shard 1 already"},
		{"another datacenter", 31 << 17, 0, 5, 5, 12, "has datacenter or shard 31 already"},
		{"no datacenter", 0, 0, 0, 10, 12, "0+10+12 bits"},
		{"no time", 0, 0, 31, 20, 12, "31+20+12 bits"},
		{"bits that overflow", 0, 0, 1, math.MaxInt, 1, "want 1 each"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := client.WithShard(tc.id, tc.shard, tc.datacenter, tc.worker, tc.sequence)
			require.ErrorContains(t, err, tc.says)
		})
	}
}
