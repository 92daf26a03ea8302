package com.github.leafd.client;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Has the slice of a client. It keeps, beside the rules of {@link Slice}:
 *
 * <ul>
 *   <li>B5: A slice is taken from an answer that came within a second, once: its name is drawn for it, and another one is drawn then. A
 *       request that is repeated has the name of the one before, for which a daemon has the same slice.
 *   <li>B6: While there is a slice, next takes no range. One that follows on another begins after it, where its time is less than a
 *       second behind; then the one before is given back.
 *   <li>B7: No failure to borrow reaches a caller: without a slice there are ranges. It is asked for again at half of a slice's time, or
 *       after a rest that doubles.
 *   <li>B8: At a checkpoint the slice is dropped, and one that comes of a request before it.
 * </ul>
 */
final class Borrower {
    private static final String PATH = "/api/snowflake/lend/";
    private static final long SECOND = 1_000_000_000;

    private final LeafdClient client;
    private final Requests requests; // of run()
    private final ReentrantLock turn = new ReentrantLock(true); // of the call that waits for the next millisecond
    private String name = UUID.randomUUID().toString(); // of the next slice; run()'s
    private volatile Slice lent = Slice.NONE; // changed under the lock of this
    // Guarded by this.
    private String path; // that slices are asked for at, of the first source; null: run() hasn't begun
    private int checkpoints;

    Borrower(LeafdClient client) {
        this.client = client;
        requests = new Requests(client);
    }

    /** Returns an ID, or less than 0 where there is no slice. It waits for the next millisecond, where the numbers of this one are used up. */
    long next(IdSource source, Duration timeout) {
        long id = lent.take(System.nanoTime());
        return id >= 0 ? id : await(source, timeout);
    }

    private long await(IdSource source, Duration timeout) {
        long id = take(source);
        if (id >= -1) {
            return id;
        }
        long end = System.nanoTime() + timeout.toNanos();
        try {
            if (!turn.tryLock(timeout.toNanos(), TimeUnit.NANOSECONDS)) {
                throw late(source, timeout);
            }
            try {
                for (id = take(source); id < -1; id = take(source)) {
                    long left = end - System.nanoTime();
                    if (left <= 0) {
                        throw late(source, timeout);
                    }
                    LockSupport.parkNanos(this, Math.min(-1 - id, left));
                    if (Thread.interrupted()) {
                        throw new InterruptedException();
                    }
                }
                return id;
            } finally {
                turn.unlock();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LeafdException("interrupted", "interrupted while waiting for an ID of " + source.name(), e);
        }
    }

    private static LeafdException late(IdSource source, Duration timeout) {
        return new LeafdException("timeout", "no ID of " + source.name() + " in " + timeout, null);
    }

    /** Takes an ID of the slice that there is, B6: never of one that another is following on. */
    private synchronized long take(IdSource source) {
        if (path == null) {
            path = PATH + source.key();
            try {
                client.pool.execute(this::run);
            } catch (RejectedExecutionException e) {
                // The client is closed.
            }
        }
        return lent.take(System.nanoTime());
    }

    Duration left() {
        return Duration.ofNanos(lent.left());
    }

    private void run() {
        try {
            for (int failures = 0, now = rest(0, 0); ; ) {
                Slice slice = ask();
                long rest = Math.min(SECOND << Math.min(failures, 6), 60 * SECOND);
                failures++;
                if (slice != null) {
                    failures = 0;
                    rest = Math.max(slice.left() / 2, SECOND);
                    TimeUnit.NANOSECONDS.sleep(slice.begins - System.nanoTime());
                    follow(slice, now);
                } else {
                    rest -= ThreadLocalRandom.current().nextLong(rest / 2); // clients don't come back together
                }
                now = rest(rest, now);
            }
        } catch (InterruptedException e) {
            // The client is closed.
        }
    }

    /** Waits, until a restore at most where there were other checkpoints than before, and returns how many there were. */
    private synchronized int rest(long nanos, int before) throws InterruptedException {
        for (long end = System.nanoTime() + nanos, left = nanos; client.held || left > 0 && before == checkpoints; left = end - System.nanoTime()) {
            wait(client.held ? 0 : Math.max(left / 1_000_000, 1));
        }
        return checkpoints;
    }

    private Slice ask() throws InterruptedException {
        Slice[] slice = {null};
        requests.each(daemon -> {
            try {
                slice[0] = daemon.lend(path, name);
            } catch (LeafdException e) {
                client.tell(l -> l.borrowed(daemon.url, Duration.ZERO, e));
                throw e;
            }
            name = UUID.randomUUID().toString();
            client.tell(l -> l.borrowed(daemon.url, Duration.ofNanos(slice[0].left()), null));
        });
        return slice[0];
    }

    /** Has IDs made of a slice from now on, B6, and gives the one before back, where its daemon can be told. */
    private void follow(Slice slice, int asked) throws InterruptedException {
        Slice before;
        long used;
        synchronized (this) {
            if (client.closed || asked != checkpoints) {
                return;
            }
            before = lent;
            used = before.end();
            slice.follow(used, SECOND);
            lent = slice;
        }
        giveBack(before, used);
    }

    private void giveBack(Slice slice, long used) throws InterruptedException {
        if (slice.daemon != null) {
            try {
                slice.daemon.answer("DELETE", PATH + slice.name + "?used=" + used, 1 << 16);
            } catch (LeafdException e) {
                // It ends by itself.
            }
        }
    }

    void close() {
        Slice before;
        long used;
        synchronized (this) {
            before = lent;
            used = before.end();
            lent = Slice.NONE;
        }
        try {
            giveBack(before, used);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Rule B8: at a checkpoint, and at the restore. */
    synchronized void checkpoint() {
        checkpoints++;
        lent.end();
        lent = Slice.NONE;
        notifyAll();
    }
}
