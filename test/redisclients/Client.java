import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerListOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.exceptions.JedisDataException;

/** Jedis and Lettuce against leafd: Client.java PORT. */
public class Client {
  enum Leaf implements ProtocolKeyword {
    SNOWFLAKE;

    @Override
    public byte[] getBytes() {
      return ("LEAF." + name()).getBytes(StandardCharsets.US_ASCII);
    }
  }

  static final Set<Long> seen = new HashSet<>();

  static void take(long id) {
    if (id <= 0 || !seen.add(id)) throw new IllegalStateException(id + " came twice");
  }

  public static void main(String[] args) {
    int port = Integer.parseInt(args[0]);
    try (var jedis = new JedisPooled("127.0.0.1", port)) {
      for (int i = 0; i < 100; i++) take(jedis.incr("leaf-segment-test"));
      @SuppressWarnings("unchecked")
      var many = (List<Long>) jedis.sendCommand(() -> Leaf.SNOWFLAKE.getBytes(), "order", "10");
      many.forEach(Client::take);
      try {
        jedis.incr("none");
        throw new IllegalStateException("a tag that is none");
      } catch (JedisDataException e) {
        if (!e.getMessage().startsWith("UNKNOWN_KEY")) throw e;
      }
    }
    System.out.println("Jedis: " + seen.size() + " IDs");
    var client = RedisClient.create(RedisURI.create("127.0.0.1", port));
    try (var connection = client.connect()) {
      var sync = connection.sync();
      for (int i = 0; i < 100; i++) take(sync.incr("leaf-segment-test"));
      var codec = StringCodec.UTF8;
      for (Object id : sync.dispatch(Leaf.SNOWFLAKE, new IntegerListOutput<>(codec), new CommandArgs<>(codec).addKey("order").add(10))) take((Long) id);
      try {
        sync.incr("none");
        throw new IllegalStateException("a tag that is none");
      } catch (RedisCommandExecutionException e) {
        if (!e.getMessage().startsWith("UNKNOWN_KEY")) throw e;
      }
    }
    client.shutdown();
    System.out.println("with Lettuce: " + seen.size() + " IDs");
  }
}
