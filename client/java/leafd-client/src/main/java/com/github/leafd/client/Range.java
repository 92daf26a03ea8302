package com.github.leafd.client;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** IDs from first on, of one line of a response, which callers take from the front. */
final class Range {
    static final Range EMPTY = new Range(0, 0, Long.MAX_VALUE, 0);
    private static final Pattern LINE = Pattern.compile("(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})\n");

    final long first;
    final long size;
    final long mask; // a call that takes an ID whose place has none of these bits looks how many are wanted
    final long born; // System.nanoTime() before the request was sent
    private final AtomicLong taken = new AtomicLong(); // may go beyond size

    private Range(long first, long size, long mask, long born) {
        this.first = first;
        this.size = size;
        this.mask = mask;
        this.born = born;
    }

    /** Takes n IDs, rule 1: returns the place of the first in the range; those with a place of size or more aren't there. */
    long take(int n) {
        return taken.getAndAdd(n);
    }

    long left() {
        return Math.max(0, size - taken.get());
    }

    /** Takes all that are left, which are used by no caller, and returns how many. */
    long drop() {
        return Math.max(0, size - taken.getAndAdd(size));
    }

    /**
     * Reads a response, rule 2.
     *
     * @throws IllegalArgumentException where it isn't n IDs in lines of {@code first-last} that grow
     */
    static List<Range> parse(String body, int n, long born) {
        List<Range> ranges = new ArrayList<>();
        Matcher line = LINE.matcher(body);
        long before = -1;
        long count = 0;
        for (int at = 0; at < body.length(); at = line.end()) {
            if (!line.region(at, body.length()).lookingAt()) {
                throw new IllegalArgumentException("not a range: " + body.substring(at, Math.min(at + 50, body.length())));
            }
            long first = Long.parseLong(line.group(1));
            long last = Long.parseLong(line.group(2));
            if (first <= before || last < first) {
                throw new IllegalArgumentException(first + "-" + last + " after " + before);
            }
            long size = last - first + 1;
            ranges.add(new Range(first, size, Math.max(Integer.highestOneBit(n) >> 4, 1) - 1, born)); // 16 to 32 times
            count += size;
            before = last;
        }
        if (count != n) {
            throw new IllegalArgumentException(count + " IDs of the " + n + " asked for");
        }
        return ranges;
    }
}
