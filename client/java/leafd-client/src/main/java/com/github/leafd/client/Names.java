package com.github.leafd.client;

import java.net.InetAddress;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLParameters;

/** The daemons: each address of the name of a URL is one. Names are looked up again every few seconds. */
final class Names {
    private static final long EVERY = TimeUnit.SECONDS.toNanos(5);
    /** How long a request waits for it; the first one waits for the request time-out. */
    private static final long PATIENCE = TimeUnit.MILLISECONDS.toNanos(100);

    private final LeafdClient client;
    // Guarded by this.
    private final Map<URI, List<Daemon>> daemons = new LinkedHashMap<>(); // by URL
    private final Map<URI, HttpClient> http = new LinkedHashMap<>(); // of each URL that has a name to look up
    private CompletableFuture<Void> lookup; // null: none yet
    private long begun; // System.nanoTime() at the last lookup

    Names(LeafdClient client, List<String> urls) {
        this.client = client;
        for (String url : urls) {
            URI u = URI.create(url);
            daemons.put(u, List.of(new Daemon(client, client.http, url)));
            if (!u.getHost().matches("\\[.*|[0-9.]+") && isDirect(u)) {
                http.put(u, u.getScheme().equals("https") ? checking(client.http, u.getHost()) : client.http);
            }
        }
    }

    /** Whether no proxy is between: one looks names up itself. */
    private boolean isDirect(URI url) {
        ProxySelector selector = client.http.proxy().orElseGet(ProxySelector::getDefault);
        return selector == null || selector.select(url).stream().allMatch(p -> p.type() == Proxy.Type.DIRECT);
    }

    /** A client that asks for the certificate of a name, and checks it, where URLs have the address. */
    private static HttpClient checking(HttpClient http, String name) {
        SSLParameters tls = http.sslParameters();
        if (tls.getServerNames() == null) {
            tls.setServerNames(List.of(new SNIHostName(name)));
        }
        HttpClient.Builder same = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NEVER).version(http.version())
                .sslContext(http.sslContext()).sslParameters(tls);
        http.connectTimeout().ifPresent(same::connectTimeout);
        http.proxy().ifPresent(same::proxy);
        http.authenticator().ifPresent(same::authenticator);
        http.cookieHandler().ifPresent(same::cookieHandler);
        http.executor().ifPresent(same::executor);
        return same.build();
    }

    /** Returns the daemons, and has names looked up where that was long ago. */
    List<Daemon> known() throws InterruptedException {
        CompletableFuture<Void> running;
        long patience = PATIENCE;
        synchronized (this) {
            if (!http.isEmpty() && (lookup == null || lookup.isDone() && System.nanoTime() - begun >= EVERY)) {
                patience = lookup == null ? client.requestTimeout.toNanos() : PATIENCE;
                begun = System.nanoTime();
                try {
                    lookup = CompletableFuture.runAsync(this::lookUp, client.pool);
                } catch (RejectedExecutionException e) {
                    // The client is closed.
                }
            }
            running = lookup;
        }
        try {
            if (running != null) {
                running.get(patience, TimeUnit.NANOSECONDS);
            }
        } catch (TimeoutException e) {
            // It goes on.
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        }
        return list();
    }

    synchronized List<Daemon> list() {
        return daemons.values().stream().flatMap(List::stream).toList();
    }

    /** Where a name isn't found the addresses from before stay. */
    private void lookUp() {
        for (URI url : http.keySet()) {
            try {
                String[] addresses = Stream.of(InetAddress.getAllByName(url.getHost())).map(InetAddress::getHostAddress).toArray(String[]::new);
                synchronized (this) {
                    daemons.put(url, at(url, addresses));
                }
            } catch (UnknownHostException e) {
                // A request says so, unless addresses from before answer.
            }
        }
    }

    private List<Daemon> at(URI url, String[] addresses) {
        List<Daemon> now = new ArrayList<>();
        for (String address : addresses) {
            String own = with(url, address);
            now.add(daemons.get(url).stream().filter(d -> d.url.equals(own)).findFirst().orElseGet(() -> new Daemon(client, http.get(url), own)));
        }
        return now;
    }

    private static String with(URI url, String address) {
        try {
            return new URI(url.getScheme(), null, address, url.getPort(), url.getPath(), null, null).toString();
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException(e);
        }
    }
}
