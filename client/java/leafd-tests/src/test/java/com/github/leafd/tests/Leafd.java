package com.github.leafd.tests;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** A real daemon, of the binary that -Dleafd names, with its own port and data directory. */
final class Leafd implements AutoCloseable {
    /** Bounds every wait; only a broken program reaches it. */
    static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    final int port;
    private final String address;
    private final Path data = temporary();
    private final List<String> command;
    private Process process;

    Leafd(int worker, String... flags) throws Exception {
        this("127.0.0.1", freePort(), worker, flags);
    }

    Leafd(String address, int port, int worker, String... flags) throws Exception {
        this.address = address;
        this.port = port;
        command = new ArrayList<>(List.of(System.getProperty("leafd"), "serve", "--listen", address + ":" + port, "--worker-id", "" + worker,
                "--data-dir", data.resolve("leafd").toString(), "--log-level", "error"));
        command.addAll(List.of(flags));
        start();
    }

    static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /** A new directory in $TMPDIR. */
    static Path temporary() throws IOException {
        return Files.createTempDirectory(Path.of(System.getenv().getOrDefault("TMPDIR", System.getProperty("java.io.tmpdir"))), "leafd-java");
    }

    String url() {
        return "http://" + address + ":" + port;
    }

    /** Starts it, and waits until it is ready. */
    void start() throws Exception {
        process = new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!isReady()) {
            if (System.nanoTime() > end || !process.isAlive()) {
                throw new IllegalStateException(command + " is not ready");
            }
            Thread.sleep(10);
        }
    }

    private boolean isReady() throws InterruptedException {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url() + "/readyz")).timeout(PATIENCE).build();
            return HTTP.send(request, BodyHandlers.discarding()).statusCode() == 200;
        } catch (IOException e) {
            return false;
        }
    }

    /** Sends it a signal, by its process ID. */
    void signal(String name) throws Exception {
        new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
    }

    void waitUntilGone() throws InterruptedException {
        process.waitFor();
    }

    /** Creates a tag, as `leafd segment create` with the flags. */
    void tag(String name, String... flags) throws Exception {
        List<String> create = new ArrayList<>(List.of(command.get(0), "segment", "create", name, "--data-dir", data.resolve("leafd").toString()));
        create.addAll(List.of(flags));
        Process process = new ProcessBuilder(create).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IllegalStateException(create + ": " + said);
        }
    }

    @Override
    public void close() throws IOException {
        process.destroyForcibly().onExit().join();
        delete(data);
    }

    static void delete(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }
}
