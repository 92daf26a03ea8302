package com.github.leafd.tests;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A daemon that issues 1, 2, 3, …, in two ranges each time where that goes, or does what a test tells it to. */
final class FakeDaemon implements AutoCloseable {
    /** Answers in the place of the daemon. */
    interface Instead {
        /** Returns false to have the daemon answer. */
        boolean answer(HttpExchange exchange, int n) throws IOException, InterruptedException;
    }

    private static final Pattern COUNT = Pattern.compile("n=(\\d+)&as=ranges");

    final AtomicLong last = new AtomicLong(); // that was issued
    final List<HttpExchange> requests = Collections.synchronizedList(new ArrayList<>()); // for IDs
    volatile Instead instead = (exchange, n) -> false;
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    FakeDaemon() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", this::handle);
        server.setExecutor(threads);
        server.start();
    }

    String url() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    private void handle(HttpExchange exchange) throws IOException {
        String query = exchange.getRequestURI().getQuery();
        Matcher count = COUNT.matcher(query == null ? "" : query);
        int n = count.matches() ? Integer.parseInt(count.group(1)) : 0;
        try (exchange) {
            if (n > 0) {
                requests.add(exchange);
            }
            if (!instead.answer(exchange, n)) {
                send(exchange, 200, n > 0 ? issue(n) : "ok");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    String issue(int n) {
        long end = last.addAndGet(n);
        long first = end - n + 1;
        long half = first + n / 3;
        return half < end ? first + "-" + half + "\n" + (half + 1) + "-" + end + "\n" : first + "-" + end + "\n";
    }

    static boolean send(HttpExchange exchange, int status, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
        return true;
    }

    static boolean refuse(HttpExchange exchange, int status, String code) throws IOException {
        return send(exchange, status, "{\"code\":\"" + code + "\",\"message\":\"a message\"}\n");
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
