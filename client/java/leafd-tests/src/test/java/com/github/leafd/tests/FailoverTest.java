package com.github.leafd.tests;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import com.github.leafd.client.LeafdListener;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Three daemons under load, one of which is killed, stopped and frozen: no call fails, no ID comes twice, and it is used again after. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class FailoverTest {
    private static final int THREADS = 8;

    private final Map<String, AtomicLong> answers = new ConcurrentHashMap<>(); // by daemon
    private final AtomicLong refused = new AtomicLong();
    private final AtomicLong longest = new AtomicLong(); // ns that a call took
    private final AtomicLong calls = new AtomicLong();
    private final List<RuntimeException> failed = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean end;

    @Test
    void noCallFailsAndNoIdComesTwice() throws Exception {
        try (Leafd a = new Leafd(1); Leafd b = new Leafd(2); Leafd c = new Leafd(3);
                LeafdClient client = LeafdClient.builder(a.url(), b.url(), c.url()).timeout(Leafd.PATIENCE).ahead(Duration.ofMillis(50)).listener(new LeafdListener() {
                    @Override
                    public void requested(IdSource source, String daemon, int ids, Duration took, LeafdException failure) {
                        (failure == null ? answers.computeIfAbsent(daemon, d -> new AtomicLong()) : refused).incrementAndGet();
                    }
                }).build()) {
            List<IdSource> sources = new ArrayList<>();
            while (sources.size() < 8 || answers.size() < 3) { // each daemon is the home of one
                sources.add(client.snowflake("order-" + sources.size()));
                sources.get(sources.size() - 1).next();
            }
            long[][] taken = new long[THREADS][];
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                int own = i;
                threads.add(new Thread(() -> taken[own] = take(sources)));
            }
            threads.forEach(Thread::start);
            eventually(() -> calls.get() > 1000);
            disturb("KILL", a);
            disturb("TERM", b);
            disturb("STOP", c);
            end = true;
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(List.of(), failed);
            long[] all = Arrays.stream(taken).flatMapToLong(LongStream::of).toArray();
            assertEquals(all.length, Arrays.stream(all).distinct().count(), "an ID came twice");
            System.out.printf("%d calls, 0 failed, 0 twice; the longest took %d ms; %d requests failed, answers %s%n", all.length,
                    longest.get() / 1_000_000, refused.get(), answers);
        }
    }

    /** Of three daemons behind one URL one is frozen: that costs a request of a source its time-out. */
    @Test
    void eachAddressOfANameIsADaemon() throws Exception {
        int port = Leafd.freePort();
        try (Leafd a = new Leafd("127.0.0.1", port, 1); Leafd b = new Leafd("127.0.0.2", port, 2); Leafd c = new Leafd("127.0.0.3", port, 3);
                LeafdClient client = LeafdClient.builder("http://leafd.test:" + port).timeout(Leafd.PATIENCE).maxAhead(2).build()) {
            List<IdSource> sources = new ArrayList<>();
            Set<Long> workers = new HashSet<>();
            while (sources.size() < 12 || workers.size() < 3) {
                sources.add(client.snowflake("order-" + sources.size()));
                workers.add(sources.get(sources.size() - 1).next() >> 12 & 1023);
            }
            assertEquals(Map.of(a.url(), true, b.url(), true, c.url(), true), client.ready());
            b.signal("STOP");
            for (IdSource source : sources) {
                for (int i = 0; i < 3; i++) {
                    long start = System.nanoTime();
                    source.next(2);
                    longest.accumulateAndGet(System.nanoTime() - start, Math::max);
                }
            }
            long failures = sources.stream().mapToLong(s -> s.stats().failures()).sum();
            System.out.printf("one of three frozen: %d requests failed, the longest call took %d ms%n", failures, longest.get() / 1_000_000);
            assertTrue(sources.stream().allMatch(s -> s.stats().failures() <= 1), "of each source the one that was under way, at most");
        }
    }

    /** IDs of tags go on for the client's ahead, at the rate at which they were used. */
    @Test
    void allDaemonsGone() throws Exception {
        try (Leafd a = new Leafd(1); LeafdClient client = LeafdClient.builder(a.url()).timeout(Leafd.PATIENCE).ahead(Duration.ofSeconds(1)).build()) {
            CountDownLatch used = new CountDownLatch(2);
            CountDownLatch gone = new CountDownLatch(1);
            List<CompletableFuture<Void>> all = new ArrayList<>();
            for (int rate : new int[] {20, 100}) {
                a.tag("tag" + rate);
                all.add(CompletableFuture.runAsync(() -> {
                    IdSource source = client.segment("tag" + rate);
                    for (int i = 0; i < 2 * rate; i++) {
                        source.next();
                        LockSupport.parkNanos(1_000_000_000 / rate);
                    }
                    used.countDown();
                    assertDoesNotThrow(() -> gone.await());
                    long start = System.nanoTime();
                    int n = 0;
                    for (; n == 0 || source.stats().ahead() > 0; n++) {
                        source.next(Duration.ZERO);
                        LockSupport.parkNanos(1_000_000_000 / rate);
                    }
                    long lasted = System.nanoTime() - start;
                    System.out.printf("all daemons gone: at %d a second %d IDs, for %d ms%n", rate, n, lasted / 1_000_000);
                    assertTrue(lasted >= 1_000_000_000, "they lasted for " + lasted + " ns");
                }, task -> new Thread(task).start()));
            }
            used.await();
            a.signal("KILL");
            a.waitUntilGone();
            gone.countDown();
            all.forEach(CompletableFuture::join);
        }
    }

    /** Does it to a daemon, and undoes it. */
    private void disturb(String signal, Leafd daemon) throws Exception {
        long failures = refused.get();
        daemon.signal(signal);
        eventually(() -> refused.get() > failures);
        long before = calls.get();
        eventually(() -> calls.get() > before + 20_000);
        if (signal.equals("STOP")) {
            daemon.signal("CONT");
        } else {
            daemon.waitUntilGone();
            daemon.start();
        }
        long answered = answers.get(daemon.url()).get();
        eventually(() -> answers.get(daemon.url()).get() > answered + 10);
    }

    private static void eventually(BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + Leafd.PATIENCE.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "it didn't happen in " + Leafd.PATIENCE);
            Thread.sleep(1);
        }
    }

    private long[] take(List<IdSource> sources) {
        long[] ids = new long[1 << 16];
        int n = 0;
        while (!end) {
            long start = System.nanoTime();
            try {
                long id = sources.get(n % sources.size()).next();
                ids = n < ids.length ? ids : Arrays.copyOf(ids, 2 * n);
                ids[n++] = id;
                calls.incrementAndGet();
            } catch (RuntimeException e) {
                failed.add(e);
                return Arrays.copyOf(ids, n);
            }
            longest.accumulateAndGet(System.nanoTime() - start, Math::max);
            LockSupport.parkNanos(50_000);
        }
        return Arrays.copyOf(ids, n);
    }
}
