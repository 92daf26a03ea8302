import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryUntilElapsed;
import org.apache.zookeeper.CreateMode;

/**
 * Stands in for a Java Leaf: what version 1.0.1 does with ZooKeeper, its clock and its table, with the same libraries. It takes
 * the same leaf.properties, server.address and server.port.
 *
 * <p>A start looks for its ip:port before the first hyphen of each name, and refuses an entry with a time that lies ahead, or with
 * other fields than its own. Where a Java Leaf then goes by its local file, this one serves nothing: no step here may need
 * that file. Every 3 s it writes its entry, over any content. It logs the lines of a start as a Java Leaf does.
 */
public final class JavaLeaf {
    private static final long EPOCH = 1288834974657L;
    private static final Random RANDOM = new Random();

    /** The payload of an entry: the reader refuses all other fields. */
    static final class Endpoint {
        public String ip;
        public String port;
        public long timestamp;
    }

    private final ObjectMapper json = new ObjectMapper();
    private final Properties settings;
    private final Map<String, long[]> ranges = new HashMap<>(); // by tag: the next one, and the end
    private final String forever;
    private final String ip;
    private final String port;
    private int worker;
    private long reported;
    private long lastTime = -1;
    private long sequence;

    private JavaLeaf(Properties settings) throws IOException {
        this.settings = settings;
        String name = settings.getProperty("leaf.name");
        forever = "/snowflake/" + name + "/forever";
        ip = address();
        port = settings.getProperty("leaf.snowflake.port");
    }

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (InputStream in = JavaLeaf.class.getClassLoader().getResourceAsStream("leaf.properties")) {
            settings.load(in);
        }
        JavaLeaf leaf = new JavaLeaf(settings);
        leaf.start(settings.getProperty("leaf.snowflake.zk.address"));
        leaf.serve(new InetSocketAddress(System.getProperty("server.address"), Integer.getInteger("server.port")));
    }

    /** The first IPv4 address that is no loopback one. */
    private static String address() throws IOException {
        for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
            for (InetAddress a : Collections.list(each.getInetAddresses())) {
                if (a instanceof Inet4Address && !a.isLoopbackAddress()) {
                    return a.getHostAddress();
                }
            }
        }
        return "";
    }

    private void start(String servers) throws Exception {
        CuratorFramework zk = CuratorFrameworkFactory.builder().connectString(servers)
            .retryPolicy(new RetryUntilElapsed(1000, 4)).connectionTimeoutMs(10000).sessionTimeoutMs(6000).build();
        zk.start();
        join(zk);
    }

    private void join(CuratorFramework zk) throws Exception {
        String own;
        if (zk.checkExists().forPath(forever) == null) {
            own = create(zk); // and worker stays 0, even if the name says otherwise
        } else {
            Map<String, String> names = new HashMap<>();
            Map<String, Integer> workers = new HashMap<>();
            for (String name : zk.getChildren().forPath(forever)) {
                String[] parts = name.split("-");
                names.put(parts[0], name);
                workers.put(parts[0], Integer.parseInt(parts[1]));
            }
            String me = ip + ":" + port;
            if (names.containsKey(me)) {
                own = forever + "/" + names.get(me);
                worker = workers.get(me);
                Endpoint found = json.readValue(zk.getData().forPath(own), Endpoint.class);
                if (found.timestamp > System.currentTimeMillis()) {
                    throw new IllegalStateException("the time of " + own + " lies ahead");
                }
                System.out.println("[Old NODE] and start SUCCESS");
            } else {
                own = create(zk);
                worker = Integer.parseInt(own.split("-")[1]);
                System.out.println("[New NODE] and start SUCCESS");
            }
        }
        System.out.println("START SUCCESS USE ZK WORKERID-" + worker);
        if (worker > 1023) {
            throw new IllegalArgumentException("workerID must gte 0 and lte 1023");
        }
        Executors.newSingleThreadScheduledExecutor().scheduleWithFixedDelay(() -> report(zk, own), 1, 3, TimeUnit.SECONDS);
    }

    private String create(CuratorFramework zk) throws Exception {
        return zk.create().creatingParentsIfNeeded().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(forever + "/" + ip + ":" + port + "-", payload());
    }

    private byte[] payload() throws IOException {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("ip", ip);
        fields.put("port", port);
        fields.put("timestamp", System.currentTimeMillis());
        return json.writeValueAsBytes(fields);
    }

    private void report(CuratorFramework zk, String own) {
        try {
            if (System.currentTimeMillis() >= reported) {
                zk.setData().forPath(own, payload());
                reported = System.currentTimeMillis();
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    private synchronized long next() throws InterruptedException {
        long now = System.currentTimeMillis();
        if (now < lastTime) {
            if (lastTime - now > 5) {
                throw new IllegalStateException("the clock is behind");
            }
            wait((lastTime - now) << 1);
            now = System.currentTimeMillis();
            if (now < lastTime) {
                throw new IllegalStateException("the clock is behind");
            }
        }
        if (now != lastTime) {
            sequence = RANDOM.nextInt(100);
        } else {
            sequence = (sequence + 1) & 4095;
            if (sequence == 0) {
                sequence = RANDOM.nextInt(100);
                while (now <= lastTime) {
                    now = System.currentTimeMillis();
                }
            }
        }
        lastTime = now;
        return (now - EPOCH) << 22 | (long) worker << 12 | sequence;
    }

    /** The next of a range [max_id - step, max_id), which one transaction took. */
    private synchronized long next(String tag) throws SQLException {
        long[] range = ranges.get(tag);
        if (range == null || range[0] == range[1]) {
            try (Connection db = DriverManager.getConnection(
                    settings.getProperty("leaf.jdbc.url"), settings.getProperty("leaf.jdbc.username"), settings.getProperty("leaf.jdbc.password"));
                PreparedStatement take = db.prepareStatement("UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = ?");
                PreparedStatement look = db.prepareStatement("SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?")) {
                db.setAutoCommit(false);
                take.setString(1, tag);
                look.setString(1, tag);
                take.executeUpdate();
                try (ResultSet row = look.executeQuery()) {
                    row.next();
                    range = new long[] {row.getLong(1) - row.getLong(2), row.getLong(1)};
                }
                db.commit();
            }
            ranges.put(tag, range);
        }
        return range[0]++;
    }

    private void serve(InetSocketAddress at) throws IOException {
        System.setProperty("sun.net.httpserver.nodelay", "true"); // head and body are written apart
        HttpServer http = HttpServer.create(at, 0);
        http.setExecutor(Executors.newFixedThreadPool(8));
        http.createContext("/api/", exchange -> {
            String[] path = exchange.getRequestURI().getPath().split("/"); // "", api, segment, get, tag
            try {
                answer(exchange, 200, Long.toString(path[2].equals("segment") ? next(path[4]) : next()));
            } catch (Exception e) {
                answer(exchange, 500, e.toString());
            }
        });
        http.createContext("/decodeSnowflakeId", exchange -> {
            String text = exchange.getRequestURI().getQuery().replaceFirst("^snowflakeId=", "");
            Map<String, String> parts = new LinkedHashMap<>();
            try {
                long id = Long.parseLong(text);
                parts.put("timestamp", Long.toString((id >> 22) + EPOCH));
                parts.put("workerId", Long.toString(id >> 12 & 1023));
                parts.put("sequenceId", Long.toString(id & 4095));
            } catch (NumberFormatException e) {
                parts.put("errorMsg", "snowflake Id反解析发生异常!");
            }
            exchange.getResponseHeaders().set("Content-Type", "application/json;charset=UTF-8");
            answer(exchange, 200, json.writeValueAsString(parts));
        });
        http.start();
    }

    private static void answer(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.getRequestBody().readAllBytes();
        // What Spring makes of a String: the first type that the client asks for.
        String accept = exchange.getRequestHeaders().getFirst("Accept");
        if (!exchange.getResponseHeaders().containsKey("Content-Type")) {
            exchange.getResponseHeaders().set("Content-Type", accept != null && accept.startsWith("application/json") ? "application/json;charset=UTF-8" : "text/plain;charset=UTF-8");
        }
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
