package com.github.leafd.shardingsphere;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.Collection;
import java.util.Locale;
import java.util.Properties;
import java.util.stream.LongStream;
import org.apache.shardingsphere.infra.algorithm.core.context.AlgorithmSQLContext;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;

/**
 * ShardingSphere's key generator of the type {@code LEAFD}, with a client of its own. ShardingSphere doesn't tell an algorithm that its
 * data source was closed, so the client is closed when nothing has the algorithm any more.
 */
public final class LeafdKeyGenerateAlgorithm implements KeyGenerateAlgorithm, AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    private IdSource source;
    private Cleaner.Cleanable client;

    /**
     * Takes the properties {@code urls} (with commas in between) and {@code key}, and where they are there {@code kind} ({@code snowflake} or {@code segment}),
     * {@code token} and {@code ahead} (such as {@code PT1H}).
     *
     * @throws IllegalArgumentException where one is missing, or isn't as {@link LeafdClient} wants it
     */
    @Override
    public void init(Properties properties) {
        close();
        LeafdClient leafd = LeafdClient.builder(properties.getProperty("urls", "").split(",")).token(properties.getProperty("token"))
                .ahead(Duration.parse(properties.getProperty("ahead", "PT10S"))).build();
        client = CLEANER.register(this, leafd::close);
        String kind = properties.getProperty("kind", "snowflake").toUpperCase(Locale.ROOT);
        source = leafd.source(LeafdClient.Kind.valueOf(kind), properties.getProperty("key", ""));
    }

    /** @throws LeafdException as {@link IdSource#next()} */
    @Override
    public Collection<Long> generateKeys(AlgorithmSQLContext context, int count) {
        return LongStream.of(source.next(count)).boxed().toList();
    }

    @Override
    public boolean isSupportAutoIncrement() {
        return true;
    }

    @Override
    public String getType() {
        return "LEAFD";
    }

    @Override
    public void close() {
        if (client != null) {
            client.clean();
        }
    }
}
