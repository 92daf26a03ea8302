package client

import "fmt"

// WithShard returns a snowflake ID with a shard in the bits of its datacenter. The last three arguments are the bits of
// the daemons' layout, 5, 5, 12 for 41+5+5+12: shards are 0 to 31 there, (1<<datacenter)-1 at most. The shard is
// id>>(worker+sequence) & (1<<datacenter - 1) again.
//
// IDs stay unique with any shards, for (time, worker, sequence) is unique, provided that all daemons of the cluster
// have --datacenter 0, and no other cluster's IDs meet these. IDs of one millisecond sort by their shards.
//
// It returns an error for bits that no layout has, for a negative ID, for one with a datacenter or a shard in it
// already, and for a shard that doesn't fit. Segment IDs have no such bits.
func WithShard(id, shard int64, datacenter, worker, sequence int) (int64, error) {
	if min(datacenter, worker, sequence) < 1 || max(datacenter, worker, sequence) > 60 || datacenter+worker+sequence > 62 {
		return 0, fmt.Errorf("client: a layout with %d+%d+%d bits of datacenter, worker and sequence: want 1 each, 62 at most", datacenter, worker, sequence)
	}
	most := int64(1)<<datacenter - 1
	if shard < 0 || shard > most {
		return 0, fmt.Errorf("client: shard %d: want 0 to %d, for %d bits", shard, most, datacenter)
	}
	if id < 0 {
		return 0, fmt.Errorf("client: %d is no ID", id)
	}
	if set := id >> (worker + sequence) & most; set != 0 {
		return 0, fmt.Errorf("client: ID %d has datacenter or shard %d already: daemons need --datacenter 0", id, set)
	}
	return id | shard<<(worker+sequence), nil
}
