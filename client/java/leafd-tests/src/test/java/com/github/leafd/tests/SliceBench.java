package com.github.leafd.tests;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;

/**
 * Prints the time of a processor that {@link IdSource#next()} takes with a slice whose numbers are never used up:
 * {@code java -cp leafd-client/target/classes:leafd-tests/target/test-classes com.github.leafd.tests.SliceBench}.
 */
final class SliceBench {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    public static void main(String[] args) throws Exception {
        long now = System.currentTimeMillis();
        try (FakeDaemon daemon = new FakeDaemon()) {
            daemon.instead = (exchange, n) -> {
                String target = exchange.getRequestURI().toString();
                return target.startsWith("/api/snowflake/lend/") && FakeDaemon.send(exchange, 200, "{\"slice\":\"" + target.substring(target.indexOf('=') + 1)
                        + "\",\"worker\":0,\"datacenter\":0,\"first\":0,\"last\":1048575,\"from\":" + now + ",\"until\":" + (now + 3_600_000) + ",\"now\":" + now
                        + ",\"epoch\":" + now + ",\"layout\":\"41+1+20\"}");
            };
            try (LeafdClient client = LeafdClient.builder(daemon.url()).lease(Duration.ofHours(1)).build()) {
                IdSource source = client.snowflake("order");
                while (source.stats().lease().isZero()) {
                    source.next();
                }
                for (int round = 0; round < 5; round++) {
                    int calls = 20_000_000;
                    long sum = 0;
                    long start = THREADS.getCurrentThreadCpuTime();
                    for (int i = 0; i < calls; i++) {
                        sum += source.next();
                    }
                    System.out.printf("%.1f ns (%d)%n", (double) (THREADS.getCurrentThreadCpuTime() - start) / calls, sum & 1);
                }
            }
        }
    }
}
