package com.github.leafd.shardingsphere;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import java.util.Collection;
import java.util.Locale;
import java.util.Properties;
import java.util.stream.LongStream;
import org.apache.shardingsphere.infra.algorithm.core.context.AlgorithmSQLContext;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;

/** ShardingSphere's key generator of the type {@code LEAFD}, with a client of its own. */
public final class LeafdKeyGenerateAlgorithm implements KeyGenerateAlgorithm {
    private IdSource source;

    /**
     * Takes the properties {@code urls} (with commas in between) and {@code key}, and where they are there {@code kind} ({@code snowflake} or {@code segment})
     * and {@code token}.
     *
     * @throws IllegalArgumentException where one is missing, or isn't as {@link LeafdClient} wants it
     */
    @Override
    public void init(Properties properties) {
        LeafdClient client = LeafdClient.builder(properties.getProperty("urls", "").split(",")).token(properties.getProperty("token")).build();
        String kind = properties.getProperty("kind", "snowflake").toUpperCase(Locale.ROOT);
        source = client.source(LeafdClient.Kind.valueOf(kind), properties.getProperty("key", ""));
    }

    /** @throws LeafdException as {@link IdSource#next()} */
    @Override
    public Collection<Long> generateKeys(AlgorithmSQLContext context, int count) {
        return LongStream.generate(source::next).limit(count).boxed().toList();
    }

    @Override
    public boolean isSupportAutoIncrement() {
        return true;
    }

    @Override
    public String getType() {
        return "LEAFD";
    }
}
