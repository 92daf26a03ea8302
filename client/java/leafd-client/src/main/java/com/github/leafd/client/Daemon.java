package com.github.leafd.client;

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.channels.UnresolvedAddressException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** One address, and whether it answers. */
final class Daemon {
    /** How long a daemon that failed is left alone, in ms: the double after each failure. */
    private static final long FIRST_PAUSE = 100;
    private static final long LAST_PAUSE = 2000;
    private static final Pattern REFUSAL = Pattern.compile("\\{\"code\":\"([a-z_]+)\",\"message\":\"((?:[^\"\\\\]|\\\\.)*)\".*", Pattern.DOTALL);
    private static final Pattern ESCAPE = Pattern.compile("\\\\(?:u([0-9a-fA-F]{4})|(.))", Pattern.DOTALL);

    final String url; // without a slash at its end
    private final LeafdClient client;
    private final HttpClient http;

    // Guarded by this.
    private int failures; // in a row
    private boolean down; // it is asked last, until it answers
    private long until; // System.nanoTime(): while down, it isn't asked before
    private boolean probing;

    Daemon(LeafdClient client, HttpClient http, String url) {
        this.client = client;
        this.http = http;
        this.url = url;
    }

    /**
     * Whether a request may go there now: first to the daemons that are up; where none of them has answered, to those that
     * are down, and once more to one whose connection has just been lost, for daemons close idle ones.
     */
    synchronized boolean isUsable(boolean second) {
        if (!down) {
            return !second || failures == 1;
        }
        if (pause() > 0) {
            return false;
        }
        if (!second && !probing) {
            probing = true;
            ready().whenComplete((ready, e) -> probed(e == null && ready));
        }
        return second;
    }

    /** Nanoseconds until it may be asked. */
    synchronized long pause() {
        return down ? until - System.nanoTime() : 0;
    }

    private void probed(boolean ready) {
        synchronized (this) {
            probing = false;
        }
        if (ready) {
            worked();
        } else {
            failed(true);
        }
    }

    synchronized void worked() {
        failures = 0;
        down = false;
    }

    /** Notes that it gave no answer of leafd's. One lost connection alone doesn't make it down. */
    void failed(boolean hung) {
        failed(hung, client.names.list().size() == 1);
    }

    /** The only one may have others behind its address (a Kubernetes Service): it is left alone for the first pause alone. */
    private synchronized void failed(boolean hung, boolean alone) {
        long ms = alone ? FIRST_PAUSE : Math.min(FIRST_PAUSE << Math.min(failures, 10), LAST_PAUSE);
        failures++;
        down = down || hung || failures > 1;
        until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms / 2 + ThreadLocalRandom.current().nextLong(ms / 2 + 1));
    }

    /** Asks whether it issues IDs; done within the client's request time-out, with an exception where it doesn't answer. */
    CompletableFuture<Boolean> ready() {
        HttpRequest request = request("/readyz").timeout(client.requestTimeout).build();
        return http.sendAsync(request, BodyHandlers.discarding()).thenApply(r -> r.statusCode() == 200)
                .orTimeout(client.requestTimeout.toNanos(), TimeUnit.NANOSECONDS);
    }

    /** Asks for n IDs: a POST, which no cache answers and HttpClient doesn't repeat (rules 3 and 4). */
    List<Range> fetch(String path, int n) throws InterruptedException {
        long born = System.nanoTime();
        String body = answer("POST", path + "?n=" + n + "&as=ranges", Math.max(1 << 16, 40 * n + 1));
        try {
            return Range.parse(body, n, born);
        } catch (IllegalArgumentException e) {
            throw new LeafdException("bad_response", url + ": " + e.getMessage(), e);
        }
    }

    /** Asks for a slice, rule B5. */
    Slice lend(String path, String name) throws InterruptedException {
        long asked = System.nanoTime();
        String body = answer("POST", path + "?slice=" + name, 1 << 16);
        long came = System.nanoTime();
        try {
            if (came - asked > 1_000_000_000) {
                throw new IllegalArgumentException("it took " + Duration.ofNanos(came - asked) + " to lend a slice");
            }
            return Slice.parse(body, name, this, came, client.lease);
        } catch (IllegalArgumentException e) {
            throw new LeafdException("bad_response", url + ": " + e.getMessage(), e);
        }
    }

    /** Makes a request, and returns the body of a 200. */
    String answer(String method, String target, int most) throws InterruptedException {
        HttpRequest request = request(target).method(method, BodyPublishers.noBody()).build();
        var answer = http.sendAsync(request, atMost(most));
        HttpResponse<String> response;
        try {
            response = answer.get(client.requestTimeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new LeafdException("timeout", url + " did not answer in " + client.requestTimeout, e);
        } catch (ExecutionException e) {
            throw new LeafdException("unreachable", url + ": " + reason(e.getCause()), e.getCause());
        } finally {
            answer.cancel(true); // no effect on one that is done
        }
        if (response.statusCode() != 200) {
            throw refusal(response);
        }
        if (response.headers().firstValue("Age").isPresent()) {
            throw new LeafdException("bad_response", url + " gave a cached response: IDs must not be cached", null);
        }
        return response.body();
    }

    private String reason(Throwable failure) {
        for (Throwable e = failure; e != null; e = e.getCause()) {
            if (e instanceof UnresolvedAddressException) {
                return "the name " + URI.create(url).getHost() + " has no address";
            }
        }
        return failure.toString();
    }

    private HttpRequest.Builder request(String target) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + target))
                .setHeader("Cache-Control", "no-store").setHeader("Accept", "text/plain");
        return client.token == null ? request : request.setHeader("Authorization", "Bearer " + client.token);
    }

    /** Keeps the first bytes of a body, and reads the rest without keeping it. */
    private static BodyHandler<String> atMost(int limit) {
        return info -> {
            var body = new ByteArrayOutputStream();
            return BodySubscribers.mapping(
                    BodySubscribers.ofByteArrayConsumer(part -> part.ifPresent(
                            b -> body.write(b, 0, Math.min(b.length, limit - body.size())))),
                    done -> body.toString(StandardCharsets.UTF_8));
        };
    }

    private LeafdException refusal(HttpResponse<String> response) {
        Matcher said = REFUSAL.matcher(response.body());
        if (!said.matches()) {
            return new LeafdException("bad_response", url + " answered " + response.statusCode(), null);
        }
        int seconds;
        try {
            seconds = Integer.parseInt(response.headers().firstValue("Retry-After").orElse("0"));
        } catch (NumberFormatException e) {
            seconds = 0;
        }
        return new LeafdException(said.group(1), url + " answered " + response.statusCode() + " " + said.group(1) + ": " + text(said.group(2)),
                null, response.statusCode(), Math.max(0, Math.min(seconds, 30)));
    }

    /** Returns what a string of JSON says. */
    private static String text(String json) {
        return ESCAPE.matcher(json).replaceAll(e -> Matcher.quoteReplacement(e.group(1) != null
                ? String.valueOf((char) Integer.parseInt(e.group(1), 16))
                : switch (e.group(2)) {
                    case "b" -> "\b";
                    case "f" -> "\f";
                    case "n" -> "\n";
                    case "r" -> "\r";
                    case "t" -> "\t";
                    default -> e.group(2);
                }));
    }
}
