import static io.lettuce.core.ClientOptions.DisconnectedBehavior.REJECT_COMMANDS;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.Delay;
import java.time.Duration;
import java.util.function.LongSupplier;
import java.util.stream.Stream;

class LettuceIds {
    enum Command implements ProtocolKeyword {
        SNOWFLAKE;

        @Override
        public byte[] getBytes() {
            return "LEAF.SNOWFLAKE".getBytes();
        }
    }

    static class Daemon implements LongSupplier {
        private final RedisClient client;
        private StatefulRedisConnection<String, String> connection;

        Daemon(String address) {
            var resources = ClientResources.builder().reconnectDelay(Delay.constant(Duration.ofMillis(100))).build();
            client = RedisClient.create(resources, RedisURI.create("redis://" + address + "?timeout=1s"));
            client.setOptions(ClientOptions.builder().disconnectedBehavior(REJECT_COMMANDS)
                    .socketOptions(SocketOptions.builder().connectTimeout(Duration.ofSeconds(1)).build()).build());
        }

        @Override
        public long getAsLong() {
            return connection().sync().dispatch(Command.SNOWFLAKE, new IntegerOutput<>(StringCodec.UTF8), new CommandArgs<>(StringCodec.UTF8).addKey("order"));
        }

        private synchronized StatefulRedisConnection<String, String> connection() {
            if (connection == null) connection = client.connect(); // from then on Lettuce reconnects
            return connection;
        }
    }

    public static void main(String[] args) {
        var orders = new Failover(Stream.of(args).skip(1).<LongSupplier>map(Daemon::new).toList());
        for (int i = 0; i < Integer.parseInt(args[0]); i++) System.out.println(orders.next());
        System.exit(0); // Lettuce's threads
    }
}
