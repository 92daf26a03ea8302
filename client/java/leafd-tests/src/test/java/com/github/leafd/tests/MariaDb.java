package com.github.leafd.tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;

/** A MariaDB server of its own, in a temporary directory, with leafd's database leaf. */
final class MariaDb implements AutoCloseable {
    private final int port = Leafd.freePort();
    private final Path directory = Leafd.temporary();
    private final Process server;

    MariaDb() throws Exception {
        String data = directory.resolve("data").toString();
        Process install = start("mariadb-install-db", "--no-defaults", "--user=root", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db");
        if (install.waitFor() != 0) {
            throw new IllegalStateException("mariadb-install-db failed");
        }
        server = start("mariadbd", "--no-defaults", "--user=root", "--datadir=" + data, "--socket=" + directory.resolve("socket"), "--port=" + port,
                "--bind-address=127.0.0.1", "--skip-networking=0", "--skip-name-resolve", "--pid-file=" + directory.resolve("pid"));
        Runtime.getRuntime().addShutdownHook(new Thread(server::destroyForcibly));
        long end = System.nanoTime() + Leafd.PATIENCE.toNanos();
        for (boolean up = false; !up; ) {
            try {
                execute(Files.readString(Path.of("../../../deploy/leaf_alloc.sql")));
                up = true;
            } catch (SQLException e) {
                if (System.nanoTime() > end || !server.isAlive()) {
                    throw e;
                }
                Thread.sleep(20);
            }
        }
    }

    private static Process start(String... command) throws Exception {
        ProcessBuilder builder = new ProcessBuilder("/usr/bin/env", "PATH=" + System.getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin");
        builder.command().addAll(List.of(command));
        return builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    }

    String jdbc(String database) {
        return "jdbc:mariadb://127.0.0.1:" + port + "/" + database + "?user=root";
    }

    /** As leafd's --mysql wants it. */
    String dsn() {
        return "root@tcp(127.0.0.1:" + port + ")/leaf";
    }

    private void execute(String sql) throws SQLException {
        try (Connection connection = DriverManager.getConnection(jdbc("") + "&allowMultiQueries=true"); var statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    @Override
    public void close() throws IOException {
        server.destroyForcibly().onExit().join();
        Leafd.delete(directory);
    }
}
