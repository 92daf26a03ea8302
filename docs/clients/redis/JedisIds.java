import java.net.URI;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import redis.clients.jedis.JedisPooled;

class JedisIds {
    public static void main(String[] args) {
        var orders = new Failover(Stream.of(args).skip(1).<LongSupplier>map(address -> {
            var pool = new JedisPooled(URI.create("redis://" + address), 1000);
            return () -> (Long) pool.sendCommand(() -> "LEAF.SNOWFLAKE".getBytes(), "order");
        }).toList());
        for (int i = 0; i < Integer.parseInt(args[0]); i++) System.out.println(orders.next());
    }
}
