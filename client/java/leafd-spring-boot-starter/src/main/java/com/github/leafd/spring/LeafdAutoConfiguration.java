package com.github.leafd.spring;

import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdListener;
import com.github.leafd.hibernate.LeafdIdGenerator;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.Map;
import org.hibernate.annotations.IdGeneratorType;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.orm.jpa.AbstractEntityManagerFactoryBean;

/** A {@link LeafdClient} of {@code leafd.urls}; its health and metrics, and {@code @LeafdId} on entities, where the application has what they need. */
@AutoConfiguration(afterName = {
    "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration", // Boot 3
    "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration"
})
@EnableConfigurationProperties(LeafdProperties.class)
public class LeafdAutoConfiguration {
    /** Closed with the context. A {@link LeafdListener} bean of the application takes the place of the metrics. */
    @Bean
    @ConditionalOnMissingBean
    LeafdClient leafdClient(LeafdProperties p, ObjectProvider<LeafdListener> listener) {
        LeafdClient.Builder client = LeafdClient.builder(p.urls().toArray(String[]::new)).token(p.token()).timeout(p.timeout())
                .requestTimeout(p.requestTimeout()).ahead(p.ahead()).maxAhead(p.maxAhead()).maxAge(p.maxAge()).lease(p.lease());
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

    /** Up while one daemon issues IDs; has the answer of each as a detail. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator.class)
    static class HealthOfBoot4 {
        @Bean
        @org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator("leafd")
        org.springframework.boot.health.contributor.HealthIndicator leafdHealthIndicator(LeafdClient client) {
            return () -> {
                Map<String, Boolean> ready = client.ready();
                return org.springframework.boot.health.contributor.Health.status(status(ready)).withDetail("ready", ready).build();
            };
        }
    }

    /** The same. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator.class)
    static class HealthOfBoot3 {
        @Bean
        @org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator("leafd")
        org.springframework.boot.actuate.health.HealthIndicator leafdHealthIndicator(LeafdClient client) {
            return () -> {
                Map<String, Boolean> ready = client.ready();
                return org.springframework.boot.actuate.health.Health.status(status(ready)).withDetail("ready", ready).build();
            };
        }
    }

    private static String status(Map<String, Boolean> ready) {
        return ready.containsValue(true) ? "UP" : "DOWN";
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({AbstractEntityManagerFactoryBean.class, IdGeneratorType.class})
    static class Hibernate {
        /** Gives the client to each factory of entity managers: those have the same class in Boot 3 and 4. */
        @Bean
        static BeanPostProcessor leafdHibernateSetting(ObjectProvider<LeafdClient> client) {
            return new BeanPostProcessor() {
                @Override
                public Object postProcessBeforeInitialization(Object bean, String name) {
                    if (bean instanceof AbstractEntityManagerFactoryBean factory) {
                        client.ifUnique(leafd -> factory.getJpaPropertyMap().putIfAbsent(LeafdIdGenerator.CLIENT, leafd));
                    }
                    return bean;
                }
            };
        }
    }
}
