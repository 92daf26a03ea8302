package com.github.leafd.client;

/** Puts shards into snowflake IDs. */
public final class Shards {
    private Shards() {}

    /**
     * Returns a snowflake ID with a shard in the bits of its datacenter. The last three arguments are the bits of the daemons'
     * layout, {@code 5, 5, 12} for 41+5+5+12: shards are 0 to 31 there.
     *
     * <p>IDs stay unique, whatever their shards, for (time, worker, sequence) is unique, provided that all daemons of the cluster
     * have {@code --datacenter 0}, and no other cluster's IDs meet these. IDs of one millisecond sort by their shards.
     *
     * @throws IllegalArgumentException for bits that no layout has, for a negative ID, for one with a datacenter or a shard in it
     *     already, and for a shard that doesn't fit
     */
    public static long withShard(long id, long shard, int datacenter, int worker, int sequence) {
        if (Math.min(datacenter, Math.min(worker, sequence)) < 1 || (long) datacenter + worker + sequence > 62) {
            throw new IllegalArgumentException("a layout with " + datacenter + "+" + worker + "+" + sequence
                    + " bits of datacenter, worker and sequence: want 1 each, 62 at most");
        }
        long most = (1L << datacenter) - 1;
        if (shard < 0 || shard > most) {
            throw new IllegalArgumentException("shard " + shard + ": want 0 to " + most + ", for " + datacenter + " bits");
        }
        if (id < 0) {
            throw new IllegalArgumentException(id + " is no ID");
        }
        long set = id >> (worker + sequence) & most;
        if (set != 0) {
            throw new IllegalArgumentException("ID " + id + " has datacenter or shard " + set + " already: daemons need --datacenter 0");
        }
        return id | shard << (worker + sequence);
    }
}
