package com.github.leafd.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import com.github.leafd.client.LeafdListener;
import com.github.leafd.client.Shards;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import jdk.crac.Context;
import jdk.crac.Core;
import jdk.crac.Resource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The rules of {@link LeafdClient}, by their numbers, on daemons that misbehave. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ClientTest {
    /** Bounds every wait; only a broken program reaches it. */
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final Duration SOON = Duration.ofMillis(200);

    private FakeDaemon a;
    private FakeDaemon b;
    private final List<LeafdException> failures = Collections.synchronizedList(new ArrayList<>());
    private LeafdClient client;

    @BeforeEach
    void start() throws IOException {
        a = new FakeDaemon();
        b = new FakeDaemon();
        b.last.set(1_000_000_000);
    }

    @AfterEach
    void stop() {
        if (client != null) {
            client.close();
        }
        a.close();
        b.close();
    }

    private LeafdClient.Builder of(FakeDaemon... daemons) {
        return of(Arrays.stream(daemons).map(FakeDaemon::url).toArray(String[]::new));
    }

    private LeafdClient.Builder of(String... urls) {
        return LeafdClient.builder(urls)
                .timeout(PATIENCE).requestTimeout(PATIENCE).maxAge(Duration.ZERO).listener(new LeafdListener() {
                    @Override
                    public void requested(IdSource source, String daemon, int ids, Duration took, LeafdException failure) {
                        if (failure != null) {
                            failures.add(failure);
                        }
                    }
                });
    }

    private static void eventually(BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "it didn't happen in " + PATIENCE);
            Thread.sleep(1);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {300, 20_000}) // callers wait; callers meet in a range
    void rule1EachIdOnce(int maxAhead) throws Exception {
        client = of(a, b).maxAhead(maxAhead).build();
        IdSource source = client.snowflake("order");
        int threads = 8;
        int each = 50_000;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<long[]>> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            all.add(pool.submit(() -> {
                long[] ids = new long[each];
                for (int k = 0; k < each; k++) {
                    ids[k] = source.next();
                }
                return ids;
            }));
        }
        long[] ids = new long[0];
        for (Future<long[]> one : all) {
            long[] more = one.get();
            for (int k = 1; k < each; k++) {
                assertTrue(more[k] > more[k - 1], "the IDs of one daemon grow");
            }
            ids = Arrays.copyOf(ids, ids.length + each);
            System.arraycopy(more, 0, ids, ids.length - each, each);
        }
        pool.shutdown();
        assertEquals(ids.length, Arrays.stream(ids).distinct().count());
        long issued = a.last.get() + b.last.get() - 1_000_000_000;
        assertTrue(issued - ids.length <= maxAhead);
        IdSource.Stats stats = source.stats();
        assertEquals(stats.fetched() - ids.length, stats.ahead());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "1-64", "1-63\n", "1-65\n", "1-64\n65-65\n", "1-32\n32-63\n", "33-64\n1-32\n", "1-32\n\n33-64\n", "64-1\n", "01-64\n",
        "1-64\r\n", "-1-62\n", "9223372036854775807-9223372036854775870\n", "0-9223372036854775807\n", "1\n2\n", "<html>"})
    void rule2ResponseIsDroppedWhole(String body) {
        AtomicBoolean first = new AtomicBoolean(true);
        a.last.set(100);
        a.instead = (exchange, n) -> first.getAndSet(false) && FakeDaemon.send(exchange, 200, body);
        client = of(a).build();
        assertEquals(101, client.snowflake("order").next());
        assertEquals("bad_response", failures.get(0).code());
    }

    @Test
    void rule2TheLargestId() {
        a.last.set(Long.MAX_VALUE - 64);
        client = of(a).build();
        IdSource source = client.segment("order");
        for (long want = Long.MAX_VALUE - 63; want > 0; want++) {
            assertEquals(want, source.next());
        }
        assertEquals("timeout", assertThrows(LeafdException.class, () -> source.next(SOON)).code(), "and not an ID again");
    }

    @Test
    void rule3RepeatedResponseIsRefused() throws Exception {
        String[] body = {null};
        a.instead = (exchange, n) -> {
            if (body[0] == null) {
                body[0] = a.issue(n);
            }
            return n == 1 && FakeDaemon.send(exchange, 200, body[0]);
        };
        client = of(a).maxAhead(2).build();
        IdSource source = client.snowflake("order");
        assertEquals(1, source.next());
        eventually(() -> !failures.isEmpty());
        assertEquals("bad_response", ((LeafdException) assertThrows(LeafdException.class, () -> source.next(SOON)).getCause()).code());
        assertEquals("POST", a.requests.get(0).getRequestMethod());
        assertEquals("no-store", a.requests.get(0).getRequestHeaders().getFirst("Cache-Control"));
    }

    @Test
    void rule3CachedResponseIsRefused() {
        a.instead = (exchange, n) -> {
            exchange.getResponseHeaders().set("Age", "0");
            return false;
        };
        refuses(of(a).build(), "cached response");
    }

    @Test
    void rule3RedirectIsNotFollowed() {
        b.instead = (exchange, n) -> {
            exchange.getResponseHeaders().set("Location", a.url() + exchange.getRequestURI());
            return FakeDaemon.send(exchange, 307, "");
        };
        refuses(of(b).build(), "answered 307");
        assertThrows(IllegalArgumentException.class, () -> of(a).http(HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build()));
    }

    /** Three requests fail for the reason, and none brings IDs. */
    private void refuses(LeafdClient client, String reason) {
        this.client = client;
        while (failures.size() < 3) {
            assertThrows(LeafdException.class, () -> client.snowflake("order").next(SOON));
        }
        assertTrue(failures.get(2).getMessage().contains(reason), failures.toString());
        assertEquals(0, client.snowflake("order").stats().fetched());
    }

    @Test
    void rule4LostAnswerIsAGap() {
        AtomicBoolean first = new AtomicBoolean(true);
        a.instead = (exchange, n) -> {
            if (!first.getAndSet(false)) {
                return false;
            }
            byte[] body = a.issue(n).getBytes(StandardCharsets.US_ASCII);
            exchange.sendResponseHeaders(200, body.length + 1); // the connection ends before that
            exchange.getResponseBody().write(body);
            return true;
        };
        client = of(a).build();
        assertEquals(65, client.snowflake("order").next());
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3, 10, 1000})
    void rule5AheadIsBounded(int maxAhead) throws Exception {
        client = of(a).maxAhead(maxAhead).build();
        AtomicLong handed = new AtomicLong();
        AtomicLong most = new AtomicLong();
        a.instead = (exchange, n) -> {
            most.accumulateAndGet(a.last.get() + n - handed.get(), Math::max);
            return false;
        };
        IdSource source = client.snowflake("order");
        for (int i = 0; i < 500; i++) {
            handed.incrementAndGet();
            source.next();
            Thread.sleep(i < 50 ? 2 : 0); // a slow caller, for whom more is there
        }
        assertTrue(most.get() <= maxAhead, most + " ahead");
        client.close();
        IdSource.Stats stats = source.stats();
        assertEquals(stats.fetched() - 500, stats.dropped());
        assertEquals("closed", assertThrows(LeafdException.class, source::next).code());
    }

    @Test
    void rule6OldOnesAreDropped() throws Exception {
        client = of(a).requestTimeout(Duration.ofSeconds(1)).maxAge(Duration.ofSeconds(1)).build();
        IdSource flakes = client.snowflake("order");
        IdSource counted = client.segment("order");
        long first = flakes.next();
        long tag = counted.next();
        long issued = a.last.get();
        Thread.sleep(1001);
        assertTrue(flakes.next() > Math.max(first, issued));
        assertTrue(flakes.stats().dropped() > 0);
        assertEquals(tag + 1, counted.next(), "IDs of tags don't age");
    }

    @Test
    void rule7UnknownTagFailsAtOnceAndIsAskedForAgain() {
        a.instead = (exchange, n) -> n > 0 && FakeDaemon.refuse(exchange, 404, "unknown_key");
        b.instead = (exchange, n) -> n > 0 && FakeDaemon.refuse(exchange, 404, "unknown_key");
        client = of(a, b).build();
        IdSource source = client.segment("none");
        LeafdException e = assertThrows(LeafdException.class, source::next);
        assertEquals("unknown_key 404", e.code() + " " + e.status());
        assertTrue(e.getMessage().endsWith("404 unknown_key: a message"), e.getMessage());
        b.instead = (exchange, n) -> false;
        assertEquals(1_000_000_001, source.next(), "one daemon that knows it is enough");
    }

    @Test
    void rule7OtherDaemonAndHomeAgain() throws Exception {
        client = of(a, b).maxAhead(2).build();
        IdSource source = client.snowflake("order");
        long first = source.next();
        FakeDaemon home = first == 1 ? a : b;
        FakeDaemon other = home == a ? b : a;
        for (int status : new int[] {503, 429, 502}) { // the last one isn't leafd's
            home.instead = (exchange, n) -> status == 502 ? FakeDaemon.send(exchange, status, "bad gateway") : FakeDaemon.refuse(exchange, status, "draining");
            int before = other.requests.size();
            eventually(() -> source.next() > 0 && other.requests.size() > before);
            home.instead = (exchange, n) -> false;
            int asked = home.requests.size();
            eventually(() -> source.next() > 0 && home.requests.size() > asked + 2);
            int quiet = other.requests.size();
            for (int i = 0; i < 10; i++) {
                source.next();
            }
            assertEquals(quiet, other.requests.size(), "all go home");
        }
    }

    @Test
    void rule8CallWaitsNoLongerThanItsTimeAndNeverForOthers() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch end = new CountDownLatch(1);
        a.instead = (exchange, n) -> {
            if (a.requests.size() > 1) {
                asked.countDown();
                end.await();
            }
            return false;
        };
        client = of(a).build();
        IdSource source = client.snowflake("order");
        for (int i = 1; i <= 33; i++) { // the 33rd of 64 has the next ones fetched
            assertEquals(i, source.next());
        }
        asked.await();
        for (int i = 34; i <= 64; i++) {
            assertEquals(i, source.next(Duration.ZERO));
        }
        LeafdException e = assertThrows(LeafdException.class, () -> source.next(SOON));
        assertEquals("timeout", e.code());
        assertNull(e.getCause(), "no request has failed");
        Thread.currentThread().interrupt();
        assertEquals("interrupted", assertThrows(LeafdException.class, source::next).code());
        assertTrue(Thread.interrupted());
        assertEquals(0, source.stats().waiting());
        end.countDown();
        assertEquals(65, source.next());
    }

    @Test
    void waitingCallsEndAtClose() throws Exception {
        CountDownLatch never = new CountDownLatch(1);
        a.instead = (exchange, n) -> {
            never.await();
            return false;
        };
        client = of(a).build();
        IdSource source = client.snowflake("order");
        ExecutorService pool = Executors.newSingleThreadExecutor();
        Future<LeafdException> call = pool.submit(() -> assertThrows(LeafdException.class, source::next));
        eventually(() -> source.stats().waiting() == 1);
        client.close();
        assertEquals("closed", call.get().code());
        pool.shutdown();
        assertEquals("closed", assertThrows(LeafdException.class, client.segment("later")::next).code());
    }

    @Test
    void countIsHalvedWhereTheDaemonAllowsFewer() {
        a.instead = (exchange, n) -> n > 10 && FakeDaemon.refuse(exchange, 400, "bad_count");
        client = of(a).build();
        IdSource source = client.snowflake("a key/with ü");
        for (int i = 1; i <= 100; i++) {
            assertEquals(i, source.next());
        }
        assertEquals("/api/snowflake/get/a%20key%2Fwith%20%C3%BC?n=8&as=ranges", a.requests.get(4).getRequestURI().toString());
        assertSame(source, client.snowflake("a key/with ü"));
    }

    @Test
    void tokenAndReadiness() {
        Set<String> tokens = ConcurrentHashMap.newKeySet();
        a.instead = (exchange, n) -> !tokens.add(exchange.getRequestHeaders().getFirst("Authorization")) && false;
        b.instead = (exchange, n) -> n == 0 && FakeDaemon.refuse(exchange, 503, "draining");
        client = of(a, b).token("secret").build();
        assertEquals(Map.of(a.url(), true, b.url(), false), client.ready());
        assertEquals(Set.of("Bearer secret"), tokens);
    }

    @Test
    void rule9IdsBelongToTheProcess() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch end = new CountDownLatch(1);
        b.instead = (exchange, n) -> {
            asked.countDown();
            end.await();
            return false;
        };
        client = of(a).build();
        IdSource source = client.snowflake("order");
        assertEquals(1, source.next());
        try (LeafdClient other = of(b).build()) {
            ExecutorService pool = Executors.newFixedThreadPool(2);
            Future<Long> underWay = pool.submit(() -> other.snowflake("order").next());
            asked.await();
            for (Resource r : Context.REGISTERED) {
                r.beforeCheckpoint(Core.getGlobalContext());
            }
            assertEquals(0, source.stats().ahead(), "nothing that a copy of the process could hand out");
            end.countDown();
            eventually(() -> other.snowflake("order").stats().dropped() > 0);
            Future<Long> meanwhile = pool.submit(() -> source.next());
            eventually(() -> source.stats().waiting() == 1);
            assertEquals(1, a.requests.size());
            for (Resource r : Context.REGISTERED) {
                r.afterRestore(Core.getGlobalContext());
            }
            assertEquals(65, meanwhile.get());
            assertEquals(1_000_000_065, underWay.get(), "what was asked for before is a gap");
            pool.shutdown();
        }
    }

    @Test
    void batchIsWholeOrFails() throws Exception {
        client = of(a).maxAhead(100).build();
        IdSource source = client.segment("order");
        assertEquals(0, source.next(0).length);
        long want = 1;
        for (int count : new int[] {1, 10, 99, 1000, 3}) {
            for (long id : source.next(count)) {
                assertEquals(want++, id);
            }
        }
        a.instead = (exchange, n) -> FakeDaemon.refuse(exchange, 503, "draining");
        assertEquals("timeout", assertThrows(LeafdException.class, () -> source.next(1000, SOON)).code());
        assertEquals(0, source.stats().ahead(), "what it had goes to no call");
        a.instead = (exchange, n) -> false;
        assertTrue(source.next() >= want);
    }

    @Test
    void messageOfARefusalIsDecoded() {
        a.instead = (exchange, n) -> FakeDaemon.send(exchange, 404, "{\"code\":\"unknown_key\",\"message\":\"no tag \\\"a\\\\u0041\\/\\n\\u00fc\\\"\",\"more\":\"\"}\n");
        client = of(a).build();
        String message = assertThrows(LeafdException.class, () -> client.segment("order").next()).getMessage();
        assertTrue(message.endsWith(": no tag \"a\\u0041/\nü\""), message);
    }

    @Test
    void nameWithoutAddressIsNamed() {
        client = LeafdClient.builder("http://nowhere.test:8080").build();
        Throwable cause = assertThrows(LeafdException.class, () -> client.segment("order").next(SOON)).getCause();
        assertEquals("http://nowhere.test:8080: the name nowhere.test has no address", cause.getMessage());
    }

    @Test
    void oneUrlIsNotLeftAlone() {
        AtomicLong asked = new AtomicLong();
        a.instead = (exchange, n) -> { // as a Service does, it has another pod answer the next request
            exchange.getResponseHeaders().set("Retry-After", "30");
            return n > 0 && asked.incrementAndGet() < 4 && FakeDaemon.refuse(exchange, 503, "worker_fenced");
        };
        client = of(a).build();
        assertEquals(1, client.segment("order").next());
    }

    @Test
    void certificateOfAnAddressIsCheckedForTheName() throws Exception {
        Path directory = Leafd.temporary();
        try {
            String store = directory.resolve("store").toString();
            Process keytool = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair", "-keyalg", "EC", "-dname", "CN=x",
                    "-ext", "san=dns:tls.test", "-storepass", "secret", "-keystore", store).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            assertEquals(0, keytool.waitFor());
            KeyStore keys = KeyStore.getInstance(new File(store), "secret".toCharArray());
            var own = KeyManagerFactory.getInstance("PKIX");
            own.init(keys, "secret".toCharArray());
            KeyStore roots = KeyStore.getInstance("PKCS12");
            roots.load(null);
            roots.setCertificateEntry("root", keys.getCertificate("mykey"));
            var trusted = TrustManagerFactory.getInstance("PKIX");
            trusted.init(roots);
            SSLContext tls = SSLContext.getInstance("TLS");
            tls.init(own.getKeyManagers(), trusted.getTrustManagers(), null);
            HttpsServer server = HttpsServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
            server.setHttpsConfigurator(new HttpsConfigurator(tls));
            server.createContext("/", exchange -> {
                try (exchange) {
                    FakeDaemon.send(exchange, 200, "7-70\n");
                }
            });
            server.start();
            String port = ":" + server.getAddress().getPort();
            HttpClient http = HttpClient.newBuilder().sslContext(tls).build();
            refuses(of("https://localhost" + port).http(http).build(), "SSLHandshakeException");
            client.close();
            try (LeafdClient right = of("https://tls.test" + port).http(http).build()) {
                assertEquals(7, right.snowflake("order").next());
            }
            server.stop(0);
        } finally {
            Leafd.delete(directory);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"10.0.0.5:8080", "ftp://h", "http://u:p@h", "http://h?x", "http://", "http://h#f"})
    void badUrlsAreRefused(String url) {
        assertThrows(IllegalArgumentException.class, () -> LeafdClient.builder(url));
    }

    @Test
    void idsWithAShardKeepTheRest() throws Exception {
        long id = 2124080377352974378L;
        long shard = Shards.withShard(id, 31, 5, 5, 12);
        Process decode = new ProcessBuilder(System.getProperty("leafd"), "id", "decode", "--layout=41+5+5+12", "" + id, "" + shard).start();
        List<String> lines = new String(decode.getInputStream().readAllBytes(), StandardCharsets.UTF_8).lines().map(l -> l.replaceAll(" +", " ").trim()).toList();
        assertEquals(List.of("ID TIME WORKER SEQUENCE DATACENTER", id + " 2026-11-21T10:00:00.123Z 7 42 0", shard + " 2026-11-21T10:00:00.123Z 7 42 31"), lines);
    }

    @ParameterizedTest
    @CsvSource({"0, 32, 5, 5, 12", "0, -1, 5, 5, 12", "-1, 0, 5, 5, 12", "131072, 1, 5, 5, 12", "0, 0, 0, 10, 12", "0, 0, 31, 20, 12", "0, 0, 1, 2147483647, 1"})
    void wrongShardsAreRefused(long id, long shard, int datacenter, int worker, int sequence) {
        assertThrows(IllegalArgumentException.class, () -> Shards.withShard(id, shard, datacenter, worker, sequence));
    }
}
