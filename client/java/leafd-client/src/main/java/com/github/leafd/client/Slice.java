package com.github.leafd.client;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Sequence numbers of a daemon's that this process has for a time: IDs are made of them without a request. The borrower's time is the
 * daemon's, {@code now} of the answer, plus {@link System#nanoTime} since the answer came. It keeps:
 *
 * <ul>
 *   <li>B1: An ID carries the borrower's time, from <= time < until. What is checked is the value in the ID, so that no pause between
 *       reading the clock and making the ID repeats one.
 *   <li>B2: A place (a millisecond and one of its numbers) goes to one ID, and places grow: next moves by compare-and-set, and up. So
 *       times never fall.
 *   <li>B3: After end no ID is made: the daemon may lend the numbers again from the millisecond after the one that end returns.
 *   <li>B4: A slice is made of an answer that is whole, has the name that was asked for, and fits its own layout and epoch.
 * </ul>
 */
final class Slice {
    static final Slice NONE = new Slice(null, null, System.nanoTime(), 0, 0, 0, 0, 1, 0);
    private static final long MS = 1_000_000;
    /** That daemons have, in ms. */
    private static final long LONGEST = 3_600_000;
    private static final Pattern LAYOUT = Pattern.compile("\"layout\"\\s*:\\s*\"(\\d{1,2})\\+(?:(\\d{1,2})\\+)?(\\d{1,2})\\+(\\d{1,2})\"");

    final String name;
    final Daemon daemon; // null: NONE
    final long begins; // System.nanoTime() when the borrower's time is from
    private final long from; // ms since 1970
    private final long epoch;
    private final int shift; // bits below the time
    private final long bits; // of the datacenter, the worker and the first number
    private final long size; // numbers of a millisecond
    private final long lasts; // ms
    private final AtomicLong next = new AtomicLong(); // the first place without an ID; places count from the first number at from

    Slice(String name, Daemon daemon, long begins, long from, long epoch, int shift, long bits, long size, long lasts) {
        this.name = name;
        this.daemon = daemon;
        this.begins = begins;
        this.from = from;
        this.epoch = epoch;
        this.shift = shift;
        this.bits = bits;
        this.size = size;
        this.lasts = lasts;
    }

    /** Returns an ID. Where there is none: -1, or where there may be one in some nanoseconds that many below -1. */
    long take(long now) {
        long since = now - begins;
        if (since < 0) {
            return -1; // one that hasn't begun isn't waited for
        }
        long ms = since / MS;
        long first = ms * size;
        while (true) {
            long last = next.get();
            // It begins at the number of this part of the millisecond, so that single IDs have all numbers as often: shards are id % 16.
            long place = last >= first ? last : first + since % MS * size / MS;
            if (place >= lasts * size) {
                return -1;
            }
            if (place >= first + size) {
                return -1 - (place / size * MS - since);
            }
            if (next.compareAndSet(last, place + 1)) {
                return from + ms - epoch << shift | bits + (place - first);
            }
        }
    }

    /** Ends the slice, and returns the last millisecond that has an ID; the one before from: none has. */
    long end() {
        return daemon == null ? 0 : from + (next.getAndSet(Long.MAX_VALUE - size) + size - 1) / size - 1;
    }

    /** Begins after the IDs of a slice that was used up to a time, where it is less than some nanoseconds behind. */
    void follow(long used, long most) {
        if ((used - from) * MS + begins - System.nanoTime() < most) {
            next.set(Math.max(0, (used + 1 - from) * size));
        }
    }

    /** For how long IDs can be made from now on, in ns. */
    long left() {
        return Math.max(0, Math.min(lasts * MS, lasts * MS + begins - System.nanoTime()));
    }

    /**
     * Reads an answer that came at a nanoTime.
     *
     * @throws IllegalArgumentException where it isn't as B4 says
     */
    static Slice parse(String body, String name, Daemon daemon, long came, Duration lease) {
        Matcher layout = LAYOUT.matcher(body);
        if (!layout.find() || !body.matches("(?s)\\{.*\"slice\"\\s*:\\s*\"" + name + "\".*\\}\\s*")) {
            throw new IllegalArgumentException("not the slice " + name + ": " + body);
        }
        int time = Integer.parseInt(layout.group(1));
        int center = layout.group(2) == null ? 0 : Integer.parseInt(layout.group(2));
        int worker = Integer.parseInt(layout.group(3));
        int sequence = Integer.parseInt(layout.group(4));
        long first = number(body, "first");
        long last = number(body, "last");
        long from = number(body, "from");
        long until = number(body, "until");
        long now = number(body, "now");
        long epoch = number(body, "epoch");
        long at = number(body, "worker");
        long site = number(body, "datacenter");
        if (time + center + worker + sequence > 63 || !fits(site, center) || !fits(at, worker) || !fits(last, sequence) || first > last
                || last - first >= 1 << 20 || from < epoch || !fits(until, 43) || !fits(until - 1 - epoch, time) || until <= Math.max(from, now)
                || until - Math.min(from, now) > LONGEST) {
            throw new IllegalArgumentException("a slice that doesn't fit: " + body);
        }
        return new Slice(name, daemon, came + (from - now) * MS, from, epoch, center + worker + sequence,
                (site << worker | at) << sequence | first, last - first + 1, Math.min(until, now + lease.toMillis()) - from);
    }

    private static long number(String body, String name) {
        Matcher number = Pattern.compile("\"" + name + "\"\\s*:\\s*(0|[1-9]\\d{0,17})\\s*[,}]").matcher(body);
        if (!number.find()) {
            throw new IllegalArgumentException("no " + name + ": " + body);
        }
        return Long.parseLong(number.group(1));
    }

    /** Whether n is a number of so many bits. */
    private static boolean fits(long n, int bits) {
        return n >= 0 && n >> bits == 0;
    }
}
