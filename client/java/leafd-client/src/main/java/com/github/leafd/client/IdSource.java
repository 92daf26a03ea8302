package com.github.leafd.client;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Gives the IDs of one key or tag; see {@link LeafdClient} for the rules that it keeps. It is safe for use by many threads. */
public final class IdSource {
    private static final int FIRST_SIZE = 64;
    private static final int RECENT = 1024;
    /** IDs of a response that last less than this double the next request, more than {@link #SLOW} halve it. */
    private static final long QUICK = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long SLOW = TimeUnit.MILLISECONDS.toNanos(500);

    private final LeafdClient client;
    private final String name;
    private final String path;
    private final long maxAge; // ns; 0: any

    private volatile Range current = Range.EMPTY;

    private final ReentrantLock lock = new ReentrantLock(); // never held during a request
    private final Condition changed = lock.newCondition();
    // Guarded by lock.
    private final ArrayDeque<Range> queued = new ArrayDeque<>(); // follow on current
    private boolean fetching; // run() runs, or will
    private int waiting;
    private int limit; // of a request
    private int size; // of the next request
    private int received; // IDs of the last response
    private long receivedAt; // System.nanoTime()
    private long refusals;
    private LeafdException failure; // of the last request; null: it brought IDs
    private long fetched;
    private long dropped;
    private long requests;
    private long failures;

    // Of the fetching thread.
    private final List<Daemon> daemons; // its home first
    private final long[] until; // System.nanoTime(): this source doesn't ask the daemon before
    private final Set<Long> recent = new LinkedHashSet<>(); // the first IDs of the last responses

    IdSource(LeafdClient client, String name, String path, Duration maxAge) {
        this.client = client;
        this.name = name;
        this.path = path;
        this.maxAge = maxAge.toNanos();
        limit = client.maxAhead / 2; // rule 5
        size = Math.min(FIRST_SIZE, limit);
        daemons = new ArrayList<>(client.daemons);
        Collections.shuffle(daemons); // sources spread over the daemons
        until = new long[daemons.size()];
        Arrays.fill(until, System.nanoTime());
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
     */
    public record Stats(long ahead, int waiting, long fetched, long dropped, long requests, long failures) {}

    /** The kind and the key, such as {@code snowflake order}. */
    public String name() {
        return name;
    }

    /** The counters since the source's first call. */
    public Stats stats() {
        lock.lock();
        try {
            return new Stats(ahead(), waiting, fetched, dropped, requests, failures);
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
        long id = take(current);
        return id >= 0 ? id : await(timeout.toNanos());
    }

    /** Takes an ID of r; -1 where none is left, or all are too old (rule 6). */
    private long take(Range r) {
        if (isOld(r)) {
            return -1;
        }
        long place = r.take();
        if (place == r.mark) {
            wake();
        }
        return place < r.size ? r.first + place : -1;
    }

    private boolean isOld(Range r) {
        return maxAge > 0 && System.nanoTime() - r.born > maxAge;
    }

    private long await(long nanos) {
        long start = System.nanoTime();
        LeafdException failed = null;
        lock.lock();
        try {
            long id = client.closed ? -1 : takeLocked();
            if (id >= 0) {
                return id;
            }
            waiting++;
        } finally {
            lock.unlock();
        }
        lock.lock();
        try {
            return awaitLocked(nanos);
        } catch (LeafdException e) {
            failed = e;
            throw e;
        } finally {
            waiting--;
            lock.unlock();
            LeafdException outcome = failed;
            client.tell(l -> l.waited(this, Duration.ofNanos(System.nanoTime() - start), outcome));
        }
    }

    private long awaitLocked(long nanos) {
        for (long left = nanos, seen = refusals; ; ) {
            if (client.closed) {
                throw new LeafdException("closed", "the client is closed", null);
            }
            long id = takeLocked();
            if (id >= 0) {
                return id;
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

    private long takeLocked() {
        for (Range r = current; r != null; r = queued.poll()) {
            current = r;
            long id = take(r);
            if (id >= 0) {
                return id;
            }
            dropped += r.drop();
        }
        return -1;
    }

    /** Has IDs fetched, where that doesn't go on already. */
    private void wake() {
        lock.lock();
        try {
            if (!fetching) {
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
            for (int n = wanted(); n > 0; n = wanted()) {
                if (!fetch(n)) {
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

    /** How many IDs to fetch now; 0: none, and run() ends. At most half of maxAhead, where a quarter or less is there: rule 5. */
    private int wanted() {
        lock.lock();
        try {
            fetching = !client.closed && ahead() <= received / 2;
            return fetching ? Math.min(Math.max(size, waiting), limit) : 0;
        } finally {
            lock.unlock();
        }
    }

    /** Ends run(), and where daemons refuse the calls that wait. */
    private void stop(LeafdException refused) {
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

    /** Asks the daemons for n IDs, home first, until one brings them. Returns false where that is of no use (rule 7). */
    private boolean fetch(int n) throws InterruptedException {
        LeafdException refused = null;
        for (boolean second : new boolean[] {false, true}) {
            for (int i = 0; i < until.length; i++) {
                Daemon daemon = daemons.get(i);
                if (until[i] - System.nanoTime() > 0 || !daemon.isUsable(second)) {
                    continue;
                }
                LeafdException e = ask(daemon, n);
                if (e == null) {
                    return true;
                }
                if (e.status() == 0) {
                    daemon.failed(e.code().equals("timeout"));
                    continue;
                }
                daemon.worked(); // it answered: what it refuses is of this source
                if (e.code().equals("bad_count") && n > 1) {
                    limitTo(n / 2);
                    return true;
                }
                if (e.isFinal()) {
                    refused = e; // another daemon may know a tag that is new
                } else {
                    until[i] = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.max(100, 1000L * e.retryAfter()));
                }
            }
        }
        if (refused != null) {
            stop(refused);
            return false;
        }
        long pause = TimeUnit.SECONDS.toNanos(1);
        for (int i = 0; i < until.length; i++) {
            pause = Math.min(pause, Math.max(daemons.get(i).pause(), until[i] - System.nanoTime()));
        }
        TimeUnit.NANOSECONDS.sleep(Math.max(pause, 1_000_000));
        return true;
    }

    /** Makes one request, and returns why it failed, or null. */
    private LeafdException ask(Daemon daemon, int n) throws InterruptedException {
        long start = System.nanoTime();
        LeafdException failed = null;
        try {
            List<Range> ranges = daemon.fetch(path, n);
            if (!recent.add(ranges.get(0).first)) { // rule 3
                throw new LeafdException("bad_response", daemon.url + " repeats a response: IDs must not be cached", null);
            }
            if (recent.size() > RECENT) {
                recent.remove(recent.iterator().next());
            }
            put(ranges, n);
            daemon.worked();
        } catch (LeafdException e) {
            failed = e;
            lock.lock();
            failure = e;
            failures++;
            lock.unlock();
        }
        LeafdException outcome = failed;
        client.tell(l -> l.requested(this, daemon.url, n, Duration.ofNanos(System.nanoTime() - start), outcome));
        return failed;
    }

    private void put(List<Range> ranges, int n) {
        lock.lock();
        try {
            long now = System.nanoTime();
            long lasted = now - receivedAt;
            if (received > 0 && (lasted < QUICK || waiting > 0 && lasted < SLOW)) {
                size = Math.min(2 * size, limit);
            } else if (received > 0 && lasted > SLOW) {
                size = Math.max(size / 2, 1);
            }
            received = n;
            receivedAt = now;
            failure = null;
            fetched += n;
            requests++;
            queued.addAll(ranges);
            if (client.closed) {
                drop();
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void limitTo(int n) {
        lock.lock();
        limit = n;
        size = Math.min(size, n);
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
}
