package com.github.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** Rules B1 to B3, from many threads: an ID has the millisecond of the clock that its call has read, comes once, and none is made after the end. */
class SliceRulesTest {
    private static final long FROM = 1_790_000_000_000L;

    @Test
    void manyCallers() throws Exception {
        for (int round = 0; round < 20; round++) {
            Slice slice = Slice.parse("{\"slice\":\"a\",\"worker\":7,\"datacenter\":0,\"first\":2064,\"last\":2079,\"from\":" + FROM + ",\"until\":" + (FROM + 50)
                    + ",\"now\":" + FROM + ",\"epoch\":" + FROM + ",\"layout\":\"41+5+5+12\"}", "a", new Daemon(null, null, "http://a"), 0, Duration.ofHours(1));
            long end = round % 2 == 0 ? 1_000_000 : 60_000_000; // by the caller, or by its time
            AtomicLong now = new AtomicLong();
            AtomicLong used = new AtomicLong();
            AtomicBoolean wrong = new AtomicBoolean();
            Set<Long> ids = ConcurrentHashMap.newKeySet();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                threads.add(new Thread(() -> {
                    for (long at = 0; at < 70_000_000; ) {
                        at = now.addAndGet(700);
                        long id = slice.take(at);
                        if (id >= 0 && (!ids.add(id) || id >> 22 != at / 1_000_000 || at >= 50_000_000)) {
                            wrong.set(true);
                        }
                        if (at >= end && used.compareAndSet(0, 1)) {
                            used.set(slice.end());
                        }
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            assertTrue(!wrong.get() && !ids.isEmpty());
            assertEquals(ids.stream().mapToLong(id -> id >> 22).max().getAsLong() + FROM, used.get());
        }
    }
}
