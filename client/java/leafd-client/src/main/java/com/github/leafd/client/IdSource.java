package com.github.leafd.client;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Gives the IDs of one key or tag; see {@link LeafdClient} for the rules that it keeps. It is safe for use by many threads. */
public final class IdSource {
    private static final int FIRST_SIZE = 64;

    private final LeafdClient client;
    private final String name;
    private final long maxAge; // ns; 0: any
    private final Requests sender; // of the thread in run()
    private final String key; // as in a path
    private final Borrower borrower; // null: IDs are fetched ahead alone
    private final AtomicLong lent = new AtomicLong(); // IDs of slices

    private volatile Range current = Range.EMPTY;

    private final ReentrantLock lock = new ReentrantLock(); // never held during a request
    private final Condition changed = lock.newCondition();
    // Guarded by lock.
    private final ArrayDeque<Range> queued = new ArrayDeque<>(); // follow on current
    private final Pace pace;
    private boolean fetching; // run() runs, or will
    private boolean stale; // a checkpoint was since the request that is under way was wanted
    private int waiting;
    private int owed; // IDs that the calls which wait want
    private int limit; // of a request
    private long refusals;
    private LeafdException failure; // of the last request; null: it brought IDs
    private long fetched;
    private long dropped;
    private long requests;
    private long failures;

    IdSource(LeafdClient client, String name, String path, Duration ahead, Duration maxAge, Borrower borrower) {
        this.client = client;
        this.borrower = borrower;
        key = path.substring(path.lastIndexOf('/') + 1);
        this.name = name;
        this.maxAge = maxAge.toNanos();
        limit = client.maxAhead / 2; // rule 5
        pace = new Pace(ahead.toNanos(), limit, System.nanoTime());
        sender = new Requests(client, this, path);
    }

    /**
     * What a source has done.
     *
     * @param ahead IDs that are fetched and not handed out
     * @param waiting calls that wait for an ID
     * @param fetched IDs received
     * @param dropped of them, those too old to be handed out, or left at close
     * @param requests answered with IDs
     * @param failures requests that failed
     * @param lent IDs made of slices, which are none of those above
     * @param lease for how long IDs can be made of the client's slice from now on; zero: it has none
     */
    public record Stats(long ahead, int waiting, long fetched, long dropped, long requests, long failures, long lent, Duration lease) {}

    /** The kind and the key, such as {@code snowflake order}. */
    public String name() {
        return name;
    }

    String key() {
        return key;
    }

    /** The counters since the source's first call. */
    public Stats stats() {
        lock.lock();
        try {
            return new Stats(ahead(), waiting, fetched, dropped, requests, failures, lent.get(), borrower == null ? Duration.ZERO : borrower.left());
        } finally {
            lock.unlock();
        }
    }

    /**
     * Returns an ID, 0 to 2^63-1, and waits for one as long as the client's time-out.
     *
     * @throws LeafdException as {@link #next(Duration)}
     */
    public long next() {
        return next(client.timeout);
    }

    /**
     * Returns an ID, and waits for one as long as it is told; zero: not at all.
     *
     * @throws LeafdException with the code {@code timeout}, and the failure of the last request as its cause; with leafd's code
     *     where a daemon refuses the request for good, as for an unknown tag, and no other brings IDs; {@code closed}; or
     *     {@code interrupted}, where the thread's interrupted status is set again
     */
    public long next(Duration timeout) {
        if (borrower != null) {
            long id = borrower.next(this, timeout);
            if (id >= 0) {
                lent.getAndIncrement();
                return id;
            }
        }
        Range r = current;
        if (!isOld(r)) {
            long place = r.take(1);
            if ((place & r.mask) == 0) {
                wake();
            }
            if (place < r.size) {
                return r.first + place;
            }
        }
        return await(new long[1], 0, timeout.toNanos())[0];
    }

    /**
     * Returns so many IDs, as {@link #next()}: all of them or none. Those that it had when it fails go to no call.
     *
     * @throws LeafdException as {@link #next(Duration)}
     */
    public long[] next(int count) {
        return next(count, client.timeout);
    }

    /**
     * Returns so many IDs, as {@link #next(int)}, and waits for them as long as it is told.
     *
     * @throws LeafdException as {@link #next(Duration)}
     */
    public long[] next(int count, Duration timeout) {
        long[] ids = new long[count];
        int have = take(current, ids, 0);
        return have == count ? ids : await(ids, have, timeout.toNanos());
    }

    /** Fills ids from r, and returns how many there are then; none are taken where all of r are too old (rule 6). */
    private int take(Range r, long[] ids, int have) {
        int want = ids.length - have;
        if (want == 0 || isOld(r)) {
            return have;
        }
        long place = r.take(want);
        if ((place & r.mask) == 0 || (place | r.mask) < place + want - 1) {
            wake();
        }
        for (long end = Math.min(place + want, r.size); place < end; place++) {
            ids[have++] = r.first + place;
        }
        return have;
    }

    private boolean isOld(Range r) {
        return maxAge > 0 && System.nanoTime() - r.born > maxAge;
    }

    private long[] await(long[] ids, int have, long nanos) {
        long start = System.nanoTime();
        LeafdException failed = null;
        int missing;
        lock.lock();
        try {
            have = client.closed ? have : takeLocked(ids, have);
            if (have == ids.length) {
                return ids;
            }
            missing = ids.length - have;
            waiting++;
            owed += missing;
        } finally {
            lock.unlock();
        }
        lock.lock();
        try {
            return awaitLocked(ids, have, nanos);
        } catch (LeafdException e) {
            failed = e;
            throw e;
        } finally {
            waiting--;
            owed -= missing;
            lock.unlock();
            LeafdException outcome = failed;
            client.tell(l -> l.waited(this, Duration.ofNanos(System.nanoTime() - start), outcome));
        }
    }

    private long[] awaitLocked(long[] ids, int have, long nanos) {
        for (long left = nanos, seen = refusals; ; ) {
            if (client.closed) {
                throw new LeafdException("closed", "the client is closed", null);
            }
            have = takeLocked(ids, have);
            if (have == ids.length) {
                return ids;
            }
            if (refusals != seen) {
                throw new LeafdException(failure.code(), failure.getMessage(), failure, failure.status(), 0);
            }
            wake();
            if (left <= 0) {
                throw new LeafdException("timeout", "no ID of " + name + " in " + Duration.ofNanos(nanos), failure);
            }
            try {
                left = changed.awaitNanos(left);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new LeafdException("interrupted", "interrupted while waiting for an ID of " + name, e);
            }
        }
    }

    private int takeLocked(long[] ids, int have) {
        for (Range r = current; r != null && have < ids.length; r = have < ids.length ? queued.poll() : null) {
            current = r;
            have = take(r, ids, have);
            if (have < ids.length) {
                dropped += r.drop();
            }
        }
        return have;
    }

    /** Has IDs fetched, where they are wanted and that doesn't go on already. */
    private void wake() {
        lock.lock();
        try {
            if (!fetching && wanted() > 0) {
                client.pool.execute(this::run);
                fetching = true;
            }
        } catch (RejectedExecutionException e) {
            // The client is closed, which a call that waits is told.
        } finally {
            lock.unlock();
        }
    }

    private long ahead() {
        return current.left() + queued.stream().mapToLong(Range::left).sum();
    }

    /** Fetches IDs as they are wanted. One thread at a time runs it. */
    private void run() {
        try {
            for (int n = begin(); n > 0; n = begin()) {
                if (!sender.fetch(n)) {
                    return;
                }
            }
        } catch (InterruptedException e) {
            stop(null); // the client is closed
        } catch (RuntimeException | Error e) {
            stop(null);
            throw e;
        }
    }

    private int begin() {
        lock.lock();
        try {
            stale = false;
            int n = wanted();
            fetching = n > 0;
            return n;
        } finally {
            lock.unlock();
        }
    }

    /**
     * How many IDs to fetch now; 0: none. They are asked for when those that are there last no longer than the client's ahead, or
     * aren't what calls wait for, and are as many again: rule 5.
     */
    private int wanted() {
        long ahead = ahead();
        long used = fetched - dropped - ahead;
        pace.look(System.nanoTime(), used);
        if (client.closed || client.held || ahead >= owed && (ahead > pace.goal() || used == 0)) {
            return 0;
        }
        long n = Math.max(pace.goal() == 0 ? FIRST_SIZE : pace.goal(), owed - ahead);
        return (int) Math.min(Math.min(n, limit), client.maxAhead - ahead);
    }

    /** Ends run(), and where daemons refuse the calls that wait. */
    void stop(LeafdException refused) {
        lock.lock();
        try {
            fetching = false;
            if (refused != null) {
                failure = refused;
                refusals++;
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    void put(List<Range> ranges, int n) {
        lock.lock();
        try {
            failure = null;
            fetched += n;
            requests++;
            if (client.closed || stale) {
                dropped += n;
            } else {
                queued.addAll(ranges);
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    void failed(LeafdException e) {
        lock.lock();
        failure = e;
        failures++;
        lock.unlock();
    }

    void limitTo(int n) {
        lock.lock();
        limit = n;
        lock.unlock();
    }

    private void drop() {
        dropped += current.drop() + queued.stream().mapToLong(Range::drop).sum();
        queued.clear();
    }

    void close() {
        lock.lock();
        try {
            drop();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Rule 9: drops what is there, and what a request brings that is under way. */
    void checkpoint() {
        lock.lock();
        try {
            stale = true;
            drop();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }
}
