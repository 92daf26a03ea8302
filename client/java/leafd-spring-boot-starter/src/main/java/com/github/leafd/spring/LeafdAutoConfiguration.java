package com.github.leafd.spring;

import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdListener;
import com.github.leafd.hibernate.LeafdIdGenerator;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.Map;
import org.hibernate.annotations.IdGeneratorType;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.orm.jpa.HibernatePropertiesCustomizer;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** A {@link LeafdClient} of {@code leafd.urls}; its health and metrics, and {@code @LeafdId} on entities, where the application has what they need. */
@AutoConfiguration(afterName = "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration")
@EnableConfigurationProperties(LeafdProperties.class)
public class LeafdAutoConfiguration {
    /** Closed with the context. A {@link LeafdListener} bean of the application takes the place of the metrics. */
    @Bean
    @ConditionalOnMissingBean
    LeafdClient leafdClient(LeafdProperties p, ObjectProvider<LeafdListener> listener) {
        LeafdClient.Builder client = LeafdClient.builder(p.urls().toArray(String[]::new)).token(p.token()).timeout(p.timeout())
                .requestTimeout(p.requestTimeout()).maxAhead(p.maxAhead()).maxAge(p.maxAge());
        listener.ifAvailable(client::listener);
        return client.build();
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    static class Metrics {
        @Bean
        @ConditionalOnBean(MeterRegistry.class)
        @ConditionalOnMissingBean(LeafdListener.class)
        LeafdListener leafdMetrics(MeterRegistry registry) {
            return new LeafdMetrics(registry);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(ConditionalOnEnabledHealthIndicator.class)
    static class HealthOfDaemons {
        /** Up while one daemon issues IDs; has the answer of each as a detail. */
        @Bean
        @ConditionalOnEnabledHealthIndicator("leafd")
        HealthIndicator leafdHealthIndicator(LeafdClient client) {
            return () -> {
                Map<String, Boolean> ready = client.ready();
                return (ready.containsValue(true) ? Health.up() : Health.down()).withDetail("ready", ready).build();
            };
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HibernatePropertiesCustomizer.class, IdGeneratorType.class})
    static class Hibernate {
        @Bean
        HibernatePropertiesCustomizer leafdHibernateProperties(LeafdClient client) {
            return settings -> settings.put(LeafdIdGenerator.CLIENT, client);
        }
    }
}
