package com.github.leafd.client;

import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;

/**
 * Takes IDs from leafd daemons over HTTP, in ranges that are fetched ahead, so that most calls touch no network:
 *
 * <pre>{@code
 * LeafdClient leafd = LeafdClient.builder("http://10.0.0.5:8080", "http://10.0.0.6:8080").build();
 * IdSource orders = leafd.snowflake("order");
 * long id = orders.next();
 * }</pre>
 *
 * It is safe for use by many threads; a program has one. It keeps:
 *
 * <ol>
 *   <li>An ID is handed out once: the ranges of a response are used once, and each ID of a range is taken by one atomic addition.
 *   <li>No ID of a response is handed out before the response was read whole and checked: lines of {@code first-last} that grow, and as
 *       many IDs as were asked for. A response that fails this is dropped whole.
 *   <li>A response is used once. Requests are POSTs, which caches don't answer, and follow no redirect; a response that has an Age
 *       header, or begins with an ID that a recent one began with, comes from a cache all the same and is refused.
 *   <li>A retry is a new request. What the one before may still bring is never used: an answer that was lost is a gap.
 *   <li>At most {@code maxAhead} IDs of a source are fetched and not handed out. A crash, or close, loses no more than these; they
 *       are never used.
 *   <li>A snowflake ID is handed out at most {@code maxAge} after the request that brought it was sent. Older ones are dropped.
 *   <li>A failure of the daemons reaches a call only when its time is up, or where waiting can't help: an answer that means the same
 *       from every daemon (an unknown tag). Until then other requests are sent, to other daemons first.
 *   <li>A call waits no longer than its time. A source has one request under way at a time, and no lock is held meanwhile: a
 *       call that finds an ID never waits for the network.
 *   <li>IDs and slices that a process holds belong to it alone. At a checkpoint (CRaC) they are dropped, and calls wait until the restore. A
 *       snapshot of a virtual machine that runs twice repeats them.
 * </ol>
 *
 * With {@link Builder#lease}, {@code next()} makes snowflake IDs of a slice, by the rules B1 to B8 beside {@code Slice} and {@code Borrower}.
 *
 * <p>Each address of a name is a daemon. Each source has the daemons in a random order of its own, the first of which is its home. A request goes to the first that is up:
 * one that gives no answer of leafd's is down until {@code /readyz} says 200 again, one that refuses with a 503 or 429 isn't
 * asked by that source during its {@code Retry-After}. The request after that goes home. IDs of one source grow while one daemon
 * gives them; those of several daemons interleave.
 */
public final class LeafdClient implements AutoCloseable {
    /** The two kinds of IDs. */
    public enum Kind {
        /** Made of the time; the key names the caller, and is free. */
        SNOWFLAKE,
        /** Counted; the key is a tag of the database. */
        SEGMENT
    }

    final HttpClient http;
    final String token;
    final int maxAhead;
    final Duration timeout;
    final Duration requestTimeout;
    final Duration lease;
    final Names names;
    final ExecutorService pool; // a thread for each source that fetches now
    volatile boolean closed;
    volatile boolean held; // from a checkpoint to the restore no ID is asked for, rule 9
    private final Duration ahead;
    private final Duration maxAge;
    private final Borrower borrower; // null: lease is zero
    @SuppressWarnings("unused") // it is held for the JVM
    private final Object checkpoint;
    private final LeafdListener listener;
    private final Map<String, IdSource> sources = new ConcurrentHashMap<>();

    private LeafdClient(Builder b) {
        http = b.http != null ? b.http : HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NEVER).version(HttpClient.Version.HTTP_1_1).build();
        token = b.token;
        maxAhead = b.maxAhead;
        ahead = b.ahead;
        maxAge = b.maxAge;
        timeout = b.timeout;
        requestTimeout = b.requestTimeout;
        lease = b.lease;
        borrower = lease.isZero() ? null : new Borrower(this);
        listener = b.listener;
        pool = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task, "leafd-client");
            thread.setDaemon(true);
            return thread;
        });
        names = new Names(this, b.urls);
        checkpoint = Checkpoint.register(this);
    }

    /**
     * Begins a client.
     *
     * @param urls the daemons' base URLs, one or more. For snowflake IDs they belong to one ZooKeeper root, or differ in
     *     {@code --worker-id}; for segment IDs they belong to one database
     * @throws IllegalArgumentException where one isn't like {@code http://10.0.0.5:8080}, or none is given
     */
    public static Builder builder(String... urls) {
        return new Builder(Arrays.asList(urls));
    }

    /** The source of snowflake IDs for a key; see {@link #source}. */
    public IdSource snowflake(String key) {
        return source(Kind.SNOWFLAKE, key);
    }

    /** The source of the IDs of a tag; see {@link #source}. */
    public IdSource segment(String tag) {
        return source(Kind.SEGMENT, tag);
    }

    /**
     * The source of IDs for a key, the same one for the same key. Nothing is fetched before its first ID is asked for. It lives as
     * long as the client: keys are names in a program, not values from outside.
     *
     * @throws IllegalArgumentException where key is empty, or has more than 128 bytes of UTF-8
     */
    public IdSource source(Kind kind, String key) {
        if (key.isEmpty() || key.getBytes(StandardCharsets.UTF_8).length > 128) {
            throw new IllegalArgumentException("leafd: key \"" + key + "\": want 1 to 128 bytes");
        }
        String word = kind.name().toLowerCase(Locale.ROOT);
        String path = "/api/" + word + "/get/" + URLEncoder.encode(key, StandardCharsets.UTF_8).replace("+", "%20");
        IdSource known = sources.get(path);
        if (known != null) {
            return known;
        }
        IdSource made = kind == Kind.SNOWFLAKE
                ? new IdSource(this, word + " " + key, path, shortest(ahead, Duration.ofSeconds(1), maxAge.isZero() ? ahead : maxAge.dividedBy(4)), maxAge, borrower)
                : new IdSource(this, word + " " + key, path, ahead, Duration.ZERO, null);
        known = sources.putIfAbsent(path, made);
        if (known == null) {
            tell(l -> l.created(made));
        }
        return known == null ? made : known;
    }

    private static Duration shortest(Duration... all) {
        return Collections.min(Arrays.asList(all));
    }

    /** Asks each daemon whether it issues IDs. The keys are the base URLs, with an address where a name was looked up. */
    public Map<String, Boolean> ready() {
        Map<String, CompletableFuture<Boolean>> asked = new LinkedHashMap<>();
        known().forEach(d -> asked.put(d.url, d.ready().exceptionally(e -> false)));
        Map<String, Boolean> ready = new LinkedHashMap<>();
        asked.forEach((url, answer) -> ready.put(url, answer.join()));
        return ready;
    }

    private List<Daemon> known() {
        try {
            return names.known();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return names.list();
        }
    }

    /** Rule 9: begins at a checkpoint, and ends at the restore. */
    Object hold(boolean begin) {
        held = begin;
        if (borrower != null) {
            borrower.checkpoint();
        }
        sources.values().forEach(IdSource::checkpoint);
        return null;
    }

    /** Drops the IDs that were fetched ahead, and gives a slice back, which takes the request time-out at most. Calls that wait, and later ones, throw {@link LeafdException} {@code closed}. */
    @Override
    public void close() {
        closed = true;
        pool.shutdownNow();
        sources.values().forEach(IdSource::close);
        if (borrower != null) {
            borrower.close();
        }
    }

    void tell(Consumer<LeafdListener> event) {
        try {
            event.accept(listener);
        } catch (RuntimeException e) {
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        }
    }

    /** The settings of a client. */
    public static final class Builder {
        private final List<String> urls;
        private HttpClient http;
        private String token;
        private Duration ahead = Duration.ofSeconds(10);
        private int maxAhead = 20_000;
        private Duration maxAge = Duration.ofSeconds(10);
        private Duration timeout = Duration.ofSeconds(5);
        private Duration requestTimeout = Duration.ofSeconds(1);
        private Duration lease = Duration.ZERO;
        private LeafdListener listener = new LeafdListener() {};

        private Builder(List<String> urls) {
            this.urls = urls.stream().map(Builder::base).toList();
            require(!urls.isEmpty(), "urls", "one or more, such as http://10.0.0.5:8080");
        }

        private static String base(String url) {
            URI u = URI.create(url.strip());
            boolean http = "http".equals(u.getScheme()) || "https".equals(u.getScheme());
            require(http && u.getHost() != null && u.getUserInfo() == null && u.getQuery() == null && u.getFragment() == null,
                    "url " + url, "one such as http://10.0.0.5:8080");
            return u.toString().replaceAll("/+$", "");
        }

        private static void require(boolean right, String name, String want) {
            if (!right) {
                throw new IllegalArgumentException("leafd: " + name + ": want " + want);
            }
        }

        /** Makes the requests, where TLS or a proxy is to be set; it must not follow redirects (rule 3). The caller closes it. */
        public Builder http(HttpClient http) {
            require(http.followRedirects() == HttpClient.Redirect.NEVER, "http", "an HttpClient that follows no redirect");
            this.http = http;
            return this;
        }

        /** What daemons with a {@code tokens-file} know this caller by. Default: null, none. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /**
         * How long the IDs that were fetched ahead last at the rate of use: so long a source goes on when no daemon answers. Snowflake
         * IDs have the time at which they were fetched: they are fetched for a second ahead, or a quarter of maxAge, where that is
         * less. Default: 10 s.
         */
        public Builder ahead(Duration time) {
            require(!time.isNegative() && !time.isZero(), "ahead " + time, "more than zero");
            ahead = time;
            return this;
        }

        /** How many IDs of one source may be fetched and not handed out, from 2: what a crash loses at most. Half of it bounds ahead. Default: 20,000. */
        public Builder maxAhead(int ids) {
            require(ids >= 2, "maxAhead " + ids, "2 or more");
            maxAhead = ids;
            return this;
        }

        /** How old a snowflake ID may be when it is handed out, from the request time-out; zero: any age. Default: 10 s. */
        public Builder maxAge(Duration age) {
            maxAge = age;
            return this;
        }

        /** How long {@link IdSource#next()} waits. Default: 5 s. */
        public Builder timeout(Duration timeout) {
            require(!timeout.isNegative(), "timeout " + timeout, "zero or more");
            this.timeout = timeout;
            return this;
        }

        /**
         * How long one daemon may take for a request before another is asked: above the half second that daemons wait for a range.
         * Default: 1 s.
         */
        public Builder requestTimeout(Duration timeout) {
            require(!timeout.isNegative() && !timeout.isZero(), "requestTimeout " + timeout, "more than zero");
            requestTimeout = timeout;
            return this;
        }

        /**
         * How long {@link IdSource#next()} goes on making snowflake IDs by itself when no daemon answers, of a slice that one lends: an
         * hour at most, or as long as it lends. These are 16 a millisecond, 16,000 a second, for all sources together, for
         * which calls wait. Without a slice, and for {@link IdSource#next(int)}, IDs are fetched ahead. Default: zero, no slice.
         */
        public Builder lease(Duration time) {
            require(!time.isNegative() && time.compareTo(Duration.ofHours(1)) <= 0, "lease " + time, "zero, or up to an hour");
            lease = time;
            return this;
        }

        /** Is told what the client does. Default: nothing. */
        public Builder listener(LeafdListener listener) {
            this.listener = listener;
            return this;
        }

        /**
         * Returns the client, which connects to nothing before the first ID is asked for.
         *
         * @throws IllegalArgumentException where maxAge is less than the request time-out: what a slow request brings would be too old
         */
        public LeafdClient build() {
            require(maxAge.isZero() || maxAge.compareTo(requestTimeout) >= 0, "maxAge " + maxAge, "zero, or requestTimeout or more");
            return new LeafdClient(this);
        }
    }
}
