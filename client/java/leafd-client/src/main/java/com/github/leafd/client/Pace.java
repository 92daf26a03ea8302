package com.github.leafd.client;

/** Finds how many IDs last for a time at the rate at which they are used. The lock of its source guards it. */
final class Pace {
    /** For how long a rate is measured, at most, before it is measured anew. */
    private static final long LONGEST_MEASURE = 10_000_000_000L;
    /** The time that a burst is taken to last, at most: a few IDs that were used at once are no rate. */
    private static final long LONGEST_BURST = 1_000_000_000L;
    /** For what is used before it is looked again, and for a rate that isn't even. */
    private static final double SPARE = 1.125;

    private final long ahead; // ns
    private final int most;
    private int goal; // IDs that last for ahead, and some to spare; 0: none was used yet
    private long begun; // System.nanoTime(): when the rate began to be measured
    private long before; // IDs used until then

    Pace(long ahead, int most, long now) {
        this.ahead = ahead;
        this.most = most;
        begun = now;
    }

    int goal() {
        return goal;
    }

    /** Moves the goal when so many IDs have been used. A rate that rises counts at once, one that falls when it was measured for long
     * enough, and halves the goal at most. */
    void look(long now, long used) {
        long took = now - begun;
        double rate = (double) (used - before) / Math.max(took, Math.min(LONGEST_BURST, ahead / 4));
        int next = (int) Math.min(Math.ceil(SPARE * rate * ahead), most);
        if (took < Math.min(LONGEST_MEASURE, ahead)) {
            goal = Math.max(goal, next);
            return;
        }
        goal = Math.max(Math.max(next, goal / 2), used > 0 ? 1 : 0);
        begun = now;
        before = used;
    }
}
