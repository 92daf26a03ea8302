package com.github.leafd.tests;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import com.github.leafd.client.LeafdListener;
import com.github.leafd.client.Shards;
import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BinaryOperator;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import jdk.crac.Context;
import jdk.crac.Core;
import jdk.crac.Resource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The rules of slices, B1 to B8, on a daemon that lends, and misbehaves. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class SliceTest {
    private static final long EPOCH = 1_288_834_974_657L;

    private final List<String> names = Collections.synchronizedList(new ArrayList<>()); // of the requests for slices
    private final List<String> back = Collections.synchronizedList(new ArrayList<>());
    private final List<LeafdException> failures = Collections.synchronizedList(new ArrayList<>());
    private volatile long lend = 3_600_000; // ms
    private volatile BinaryOperator<String> change = (key, answer) -> answer; // of the key that a slice was asked for under
    private FakeDaemon daemon;
    private LeafdClient client;
    private IdSource source;

    @BeforeEach
    void start() throws IOException {
        daemon = new FakeDaemon();
        daemon.instead = this::answer;
        client = builder(failures::add).build();
        source = client.snowflake("order 1");
    }

    private LeafdClient.Builder builder(Consumer<LeafdException> failed) {
        return LeafdClient.builder(daemon.url()).lease(Duration.ofHours(1)).timeout(Leafd.PATIENCE).requestTimeout(Leafd.PATIENCE).maxAge(Duration.ZERO).listener(new LeafdListener() {
            @Override
            public void borrowed(String daemon, Duration lasts, LeafdException failure) {
                if (failure != null) {
                    failed.accept(failure);
                }
            }
        });
    }

    @AfterEach
    void stop() {
        client.close();
        daemon.close();
    }

    private boolean answer(HttpExchange exchange, int n) throws IOException {
        String target = exchange.getRequestURI().toString();
        if (!target.startsWith("/api/snowflake/lend/")) {
            return false;
        }
        if (exchange.getRequestMethod().equals("DELETE")) {
            back.add(target.substring(target.lastIndexOf('/') + 1));
            return FakeDaemon.send(exchange, 200, "{\"given_back\":true}");
        }
        String name = target.substring(target.indexOf('=') + 1);
        names.add(name);
        long now = System.currentTimeMillis();
        String body = change.apply(target.substring(target.lastIndexOf('/') + 1, target.indexOf('?')), "{\"slice\":\"" + name + "\",\"worker\":7,\"datacenter\":0,\"first\":2064,\"last\":2079,\"from\":" + now + ",\"until\":" + (now + lend)
                + ",\"now\":" + now + ",\"epoch\":" + EPOCH + ",\"layout\":\"41+5+5+12\"}");
        return body.startsWith("404") || body.startsWith("503")
                ? FakeDaemon.send(exchange, Integer.parseInt(body.substring(0, 3)), body.substring(3)) : FakeDaemon.send(exchange, 200, body);
    }

    /** Returns an ID of a slice, once there is one. */
    private static long borrowed(IdSource source) throws InterruptedException {
        long[] id = {0};
        eventually(() -> (id[0] = source.next()) >> 22 > 0);
        return id[0];
    }

    private static void eventually(BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + Leafd.PATIENCE.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "it didn't happen in " + Leafd.PATIENCE);
            Thread.sleep(1);
        }
    }

    @Test
    void idsOfASlice() throws Exception {
        borrowed(source);
        int fetched = daemon.requests.size();
        Set<Long> ids = ConcurrentHashMap.newKeySet();
        List<String> wrong = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            IdSource own = client.snowflake("order " + i);
            threads.add(new Thread(() -> {
                long last = 0;
                for (int k = 0; k < 2000; k++) {
                    long before = System.currentTimeMillis();
                    long id = own.next();
                    long ms = (id >> 22) + EPOCH;
                    if (id <= last || !ids.add(id) || (id & (1 << 22) - 1 & ~15) != (7 << 12 | 2064) || ms > System.currentTimeMillis() || ms < before - 1000) {
                        wrong.add(id + " after " + last);
                    }
                    last = id;
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of(), wrong);
        assertEquals(8000, ids.size());
        long sharded = Shards.withShard(ids.iterator().next(), 9, 5, 5, 12);
        assertEquals(9, sharded >> 17 & 31);
        assertEquals(2000, client.snowflake("order 0").stats().lent());
        assertTrue(source.stats().lease().toMinutes() >= 58);
        assertEquals(fetched, daemon.requests.size(), "no range while there is a slice");
        assertTrue(source.next(3)[2] < 1_000_000, "a batch is of ranges");
        long last = 0;
        while ((last & 15) != 15) {
            last = source.next(); // the numbers of the millisecond are used up
        }
        client.close();
        long used = (Math.max(last, Collections.max(ids)) >> 22) + EPOCH;
        assertEquals(List.of(names.get(0) + "?used=" + used), back);
        assertEquals(1, new HashSet<>(names).size());
        assertEquals("closed", assertThrows(LeafdException.class, source::next).code());
    }

    /** An answer that can't be used, or is none, leaves ranges, and is asked for again under the same name. */
    @Test
    void whatCantBeUsedLeavesRanges() throws Exception {
        String[][] cases = {
            {"\"slice\":\"", "\"slice\":\"1"}, {"\"worker\":7", "\"worker\":32"}, {"\"worker\":7,", ""}, {"\"worker\":7", "\"worker\":null"},
            {"\"datacenter\":0", "\"datacenter\":32"}, {"\"datacenter\":0,", ""}, {"\"last\":2079", "\"last\":4096"}, {"\"last\":2079", "\"last\":2063"},
            {"\"last\":2079,", ""}, {"\"first\":2064", "\"first\":-1"}, {"\"first\":2064,", ""}, {"\"from\":", "\"from\":9"}, {"\"from\":", "\"was\":"},
            {"\"until\":", "\"until\":9"}, {"\"until\":1", "\"until\":0"}, {"\"now\":", "\"then\":"}, {"\"now\":1", "\"now\":2"}, {"\"epoch\":1", "\"epoch\":5"},
            {"\"epoch\":", "\"era\":"}, {"41+5+5+12", "42+5+5+12"}, {"41+5+5+12", "35+5+5+12"}, {"41+5+5+12", "41+22"}, {"}", ""}, {"{", ""},
            {"404", "{\"code\":\"mode_disabled\",\"message\":\"\"}"}, {"503", "{\"code\":\"overloaded\",\"message\":\"\"}"}, {"404", "<html>"},
        };
        Map<String, Set<String>> asked = new ConcurrentHashMap<>(); // names by case
        change = (key, answer) -> {
            asked.computeIfAbsent(key, k -> ConcurrentHashMap.newKeySet()).add(answer.substring(10, 46));
            String[] replace = cases[Integer.parseInt(key)];
            return replace[0].length() == 3 ? String.join("", replace) : answer.replace(replace[0], replace[1]);
        };
        Map<Integer, LeafdClient> clients = new TreeMap<>();
        Map<Integer, AtomicInteger> failed = new ConcurrentHashMap<>();
        try {
            for (int i = 0; i < cases.length; i++) {
                AtomicInteger count = failed.computeIfAbsent(i, k -> new AtomicInteger());
                clients.put(i, builder(failure -> count.incrementAndGet()).build());
                assertTrue(clients.get(i).snowflake("" + i).next() < 1_000_000);
            }
            for (int i = 0; i < cases.length; i++) {
                IdSource own = clients.get(i).snowflake("" + i);
                AtomicInteger count = failed.get(i);
                eventually(() -> count.get() > 1);
                assertTrue(own.next() < 1_000_000, String.join(" for ", cases[i]));
                assertEquals(0, own.stats().failures());
            }
            change = (key, answer) -> answer;
            for (int i = 0; i < cases.length; i++) {
                borrowed(clients.get(i).snowflake("" + i));
                assertEquals(1, asked.get("" + i).size(), "the same name until a slice came");
            }
        } finally {
            clients.values().forEach(LeafdClient::close);
        }
    }

    @Test
    void slowAnswersAreDropped() throws Exception {
        CountDownLatch slow = new CountDownLatch(1);
        change = (key, answer) -> {
            try {
                slow.await(1_100, TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return answer;
        };
        source.next();
        eventually(() -> !failures.isEmpty());
        slow.countDown();
        assertEquals(0, source.stats().lent());
        borrowed(source);
    }

    /** B6 and B7: slices follow on each other, and go on to their end without a daemon. */
    @Test
    void slicesFollow() throws Exception {
        lend = 12_000;
        long last = borrowed(source);
        int fetched = daemon.requests.size();
        change = (key, answer) -> {
            LockSupport.parkNanos(300_000_000); // its time is behind that of the slice before
            return answer;
        };
        while (back.isEmpty()) {
            long id = source.next();
            assertTrue(id > last);
            last = id;
            Thread.sleep(1);
        }
        assertTrue(source.next() > last);
        assertEquals(2, new HashSet<>(names).size());
        assertTrue(back.get(0).startsWith(names.get(0)));
        daemon.close();
        while (source.stats().lease().toMillis() > 3000) {
            source.next(Duration.ofMillis(50));
            Thread.sleep(1);
        }
        assertEquals(fetched, daemon.requests.size());
        eventually(() -> source.stats().lease().isZero());
        source.next((int) source.stats().ahead());
        assertEquals("timeout", assertThrows(LeafdException.class, () -> source.next(Duration.ofMillis(10))).code());
    }

    /** B8: another one is asked for at the restore, and what was asked for before is dropped. */
    @Test
    void aCheckpointDropsTheSlice() throws Exception {
        CountDownLatch held = new CountDownLatch(1);
        change = (key, answer) -> {
            assertDoesNotThrow(() -> held.await());
            return answer;
        };
        source.next();
        eventually(() -> !names.isEmpty());
        checkpoint(() -> {});
        held.countDown();
        borrowed(source);
        int before = new HashSet<>(names).size();
        assertTrue(before == 2 || !failures.isEmpty(), "but an answer that took long is none");
        checkpoint(() -> assertEquals(Duration.ZERO, source.stats().lease()));
        borrowed(source);
        assertEquals(before + 1, new HashSet<>(names).size());
        assertEquals(List.of(), back, "a copy may have it");
    }

    private void checkpoint(Runnable before) throws Exception {
        for (Resource r : Context.REGISTERED) {
            r.beforeCheckpoint(Core.getGlobalContext());
        }
        before.run();
        assertThrows(LeafdException.class, () -> source.next(Duration.ofMillis(300)));
        for (Resource r : Context.REGISTERED) {
            r.afterRestore(Core.getGlobalContext());
        }
    }
}
