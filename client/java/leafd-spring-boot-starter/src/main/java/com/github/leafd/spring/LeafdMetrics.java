package com.github.leafd.spring;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdException;
import com.github.leafd.client.LeafdListener;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Micrometer's metrics of a client, each with the tag {@code source}: the timers {@code leafd.client.requests} (by {@code daemon} and {@code outcome}, which is
 * {@code ok} or a code) and {@code leafd.client.waits} (calls that found no ID, by {@code outcome}), the gauge {@code leafd.client.ahead}, and the counters
 * {@code leafd.client.fetched} and {@code leafd.client.dropped} of IDs.
 */
final class LeafdMetrics implements LeafdListener {
    private final MeterRegistry registry;
    private final Set<IdSource> known = ConcurrentHashMap.newKeySet();

    LeafdMetrics(MeterRegistry registry) {
        this.registry = registry;
    }

    @Override
    public void requested(IdSource source, String daemon, int ids, Duration took, LeafdException failure) {
        if (known.add(source)) {
            Gauge.builder("leafd.client.ahead", source, s -> s.stats().ahead()).tag("source", source.name()).register(registry);
            FunctionCounter.builder("leafd.client.fetched", source, s -> s.stats().fetched()).tag("source", source.name()).register(registry);
            FunctionCounter.builder("leafd.client.dropped", source, s -> s.stats().dropped()).tag("source", source.name()).register(registry);
        }
        registry.timer("leafd.client.requests", "source", source.name(), "daemon", daemon, "outcome", outcome(failure)).record(took);
    }

    @Override
    public void waited(IdSource source, Duration took, LeafdException failure) {
        registry.timer("leafd.client.waits", "source", source.name(), "outcome", outcome(failure)).record(took);
    }

    private static String outcome(LeafdException failure) {
        return failure == null ? "ok" : failure.code();
    }
}
