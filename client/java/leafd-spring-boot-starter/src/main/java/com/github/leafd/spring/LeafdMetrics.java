package com.github.leafd.spring;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdException;
import com.github.leafd.client.LeafdListener;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import java.util.function.ToDoubleFunction;

/**
 * Micrometer's metrics of a client, each with the tag {@code source}: the timers {@code leafd.client.requests} (by {@code daemon} and {@code outcome}, which is
 * {@code ok} or a code) and {@code leafd.client.waits} (calls that found no ID, by {@code outcome}), the gauges {@code leafd.client.ahead} and
 * {@code leafd.client.lease} (seconds), and the counters {@code leafd.client.fetched}, {@code leafd.client.dropped} and {@code leafd.client.lent} of IDs; and
 * without it the counter {@code leafd.client.borrows} (requests for slices, by {@code daemon} and {@code outcome}).
 */
final class LeafdMetrics implements LeafdListener {
    private final MeterRegistry registry;

    LeafdMetrics(MeterRegistry registry) {
        this.registry = registry;
    }

    @Override
    public void created(IdSource source) {
        Gauge.builder("leafd.client.ahead", source, s -> s.stats().ahead()).tag("source", source.name()).register(registry);
        Gauge.builder("leafd.client.lease", source, s -> s.stats().lease().toMillis() / 1000.0).baseUnit("seconds").tag("source", source.name()).register(registry);
        counter("leafd.client.fetched", source, IdSource.Stats::fetched);
        counter("leafd.client.dropped", source, IdSource.Stats::dropped);
        counter("leafd.client.lent", source, IdSource.Stats::lent);
    }

    private void counter(String name, IdSource source, ToDoubleFunction<IdSource.Stats> value) {
        FunctionCounter.builder(name, source, s -> value.applyAsDouble(s.stats())).tag("source", source.name()).register(registry);
    }

    @Override
    public void borrowed(String daemon, Duration lasts, LeafdException failure) {
        registry.counter("leafd.client.borrows", "daemon", daemon, "outcome", outcome(failure)).increment();
    }

    @Override
    public void requested(IdSource source, String daemon, int ids, Duration took, LeafdException failure) {
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
