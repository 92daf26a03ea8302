package com.github.leafd.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Asks the daemons on behalf of one source, or for slices. One thread at a time uses it. */
final class Requests {
    private static final int RECENT = 1024;

    private final LeafdClient client;
    private final IdSource source; // null: for slices
    private final String path;
    private final List<Daemon> daemons = new ArrayList<>(); // its home first
    private final Map<Daemon, Long> until = new HashMap<>(); // System.nanoTime(): this source doesn't ask the daemon before
    private LeafdException refused; // by a daemon, for good
    private final Set<Long> recent = new LinkedHashSet<>(); // the first IDs of the last responses

    Requests(LeafdClient client, IdSource source, String path) {
        this.client = client;
        this.source = source;
        this.path = path;
    }

    Requests(LeafdClient client) {
        this(client, null, null);
    }

    /** One request of a daemon. */
    interface Ask {
        void of(Daemon daemon) throws InterruptedException;
    }

    /** Takes the daemons that there are now, each at a random place, so that sources spread over them. */
    private void update(List<Daemon> now) {
        daemons.retainAll(now);
        until.keySet().retainAll(now);
        for (Daemon daemon : now) {
            if (!daemons.contains(daemon)) {
                daemons.add(ThreadLocalRandom.current().nextInt(daemons.size() + 1), daemon);
            }
        }
    }

    /** Asks the daemons for n IDs, until one brings them. Returns false where that is of no use (rule 7). */
    boolean fetch(int n) throws InterruptedException {
        refused = null;
        if (each(daemon -> ask(daemon, n))) {
            return true;
        }
        if (refused != null) {
            source.stop(refused);
            return false;
        }
        long pause = TimeUnit.SECONDS.toNanos(1);
        for (Daemon daemon : daemons) {
            pause = Math.min(pause, Math.max(daemon.pause(), pause(daemon)));
        }
        TimeUnit.NANOSECONDS.sleep(Math.max(pause, 1_000_000));
        return true;
    }

    /** Asks the daemons, home first, and returns whether one gave what it was asked for. */
    boolean each(Ask ask) throws InterruptedException {
        update(client.names.known());
        for (boolean second : new boolean[] {false, true}) {
            for (Daemon daemon : daemons) {
                if (pause(daemon) > 0 || !daemon.isUsable(second)) {
                    continue;
                }
                try {
                    ask.of(daemon);
                    daemon.worked();
                    return true;
                } catch (LeafdException e) {
                    note(daemon, e);
                }
            }
        }
        return false;
    }

    private void note(Daemon daemon, LeafdException e) {
        boolean badSlice = source == null && e.code().equals("bad_response"); // doesn't count against the daemon
        if (e.status() == 0 && !badSlice) {
            daemon.failed(e.code().equals("timeout"));
            return;
        }
        daemon.worked(); // it answered: what it refuses is of this source
        if (e.isFinal()) {
            refused = e; // another daemon may know a tag that is new
        } else {
            // Behind the address of the only one may be others (a Kubernetes Service).
            long seconds = daemons.size() == 1 && e.status() != 429 ? 0 : e.retryAfter();
            until.put(daemon, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.max(100, 1000 * seconds)));
        }
    }

    private long pause(Daemon daemon) {
        Long end = until.get(daemon);
        return end == null ? 0 : end - System.nanoTime();
    }

    private void ask(Daemon daemon, int n) throws InterruptedException {
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
            source.put(ranges, n);
        } catch (LeafdException e) {
            failed = e;
            source.failed(e);
        }
        LeafdException outcome = failed;
        client.tell(l -> l.requested(source, daemon.url, n, Duration.ofNanos(System.nanoTime() - start), outcome));
        if (failed != null && failed.code().equals("bad_count") && n > 1) {
            source.limitTo(n / 2);
        } else if (failed != null) {
            throw failed;
        }
    }
}
