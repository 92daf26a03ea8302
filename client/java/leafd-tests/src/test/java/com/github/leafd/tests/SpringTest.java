package com.github.leafd.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import com.github.leafd.hibernate.LeafdId;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.Id;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.hibernate.HibernateException;
import org.hibernate.cfg.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.transaction.support.TransactionTemplate;

/** A Spring Boot application with the starter, the property and the annotation; Hibernate and leafd share a real MariaDB. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class SpringTest {
    @SpringBootApplication
    static class App {}

    @Entity(name = "orders")
    static class Order {
        @Id @LeafdId("order") Long id;
        String customer;
    }

    @Entity(name = "invoices")
    static class Invoice {
        @Id @LeafdId(value = "invoice", kind = LeafdClient.Kind.SEGMENT) String number;
    }

    @Entity(name = "plain")
    static class Plain {
        @Id @LeafdId("order") long id;
    }

    /** The answer of the indicator, whose class is another one in Boot 4. */
    private static Map<String, Object> health(ConfigurableApplicationContext context) throws ReflectiveOperationException {
        Object indicator = context.getBean("leafdHealthIndicator");
        Object health = find(indicator.getClass(), "health").invoke(indicator);
        return Map.of("status", health.getClass().getMethod("getStatus").invoke(health).toString(), "details", health.getClass().getMethod("getDetails").invoke(health));
    }

    private static Method find(Class<?> indicator, String name) throws NoSuchMethodException {
        Method method = indicator.getMethod(name);
        method.setAccessible(true);
        return method;
    }

    @Test
    void entitiesGetIdsWhileADaemonIsKilled() throws Exception {
        try (MariaDb database = new MariaDb();
                Leafd a = new Leafd(1, "--mysql", database.dsn());
                Leafd b = new Leafd(2, "--mysql", database.dsn())) {
            a.tag("invoice", "--mysql", database.dsn(), "--max-id", "1");
            // What an application has in its application.properties.
            ConfigurableApplicationContext context = new SpringApplicationBuilder(App.class).web(WebApplicationType.NONE).run(
                    "--leafd.urls=" + a.url() + "," + b.url(), "--leafd.max-ahead=100", "--leafd.lease=1h", "--leafd.timeout=30s", "--leafd.request-timeout=5s",
                    "--spring.datasource.url=" + database.jdbc("leaf"), "--spring.jpa.hibernate.ddl-auto=create",
                    "--spring.jpa.properties.hibernate.jdbc.batch_size=50", "--spring.main.banner-mode=off", "--logging.level.root=error");
            LeafdClient client = context.getBean(LeafdClient.class);
            EntityManager entities = context.getBean(EntityManager.class);
            TransactionTemplate transaction = context.getBean(TransactionTemplate.class);
            AtomicInteger done = new AtomicInteger();
            int threads = 4;
            int transactions = 50;
            ExecutorService pool = Executors.newFixedThreadPool(threads);
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                all.add(pool.submit(() -> {
                    for (int k = 0; k < transactions; k++) {
                        transaction.executeWithoutResult(status -> {
                            for (int n = 0; n < 10; n++) {
                                entities.persist(new Order());
                                entities.persist(new Invoice());
                            }
                        });
                        if (done.incrementAndGet() == threads * transactions / 4) {
                            a.signal("KILL");
                        }
                    }
                    return null;
                }));
            }
            for (Future<?> one : all) {
                one.get();
            }
            pool.shutdown();
            int rows = threads * transactions * 10;
            assertEquals(rows, new HashSet<>(entities.createQuery("select id from orders", Long.class).getResultList()).size());
            Set<String> numbers = new HashSet<>(entities.createQuery("select number from invoices", String.class).getResultList());
            assertEquals(rows, numbers.size());
            assertTrue(numbers.contains("1"), "segment IDs as text");

            assertEquals("UP", health(context).get("status"), "one daemon is enough");
            assertEquals(Map.of(a.url(), false, b.url(), true), ((Map<?, ?>) health(context).get("details")).get("ready"));
            transaction.executeWithoutResult(status -> {
                Order own = new Order();
                own.id = 7L;
                entities.persist(own);
                Invoice text = new Invoice();
                text.number = "2026-7";
                entities.persist(text);
                Plain plain = new Plain();
                plain.id = 7;
                entities.persist(plain);
                entities.persist(new Plain());
            });
            assertEquals(List.of(7L), entities.createQuery("select id from orders where id < 100", Long.class).getResultList(), "an ID that is set stays");
            assertEquals(1, entities.createQuery("from invoices where number = '2026-7'", Invoice.class).getResultList().size());
            assertEquals(1, entities.createQuery("from plain where id > 7", Plain.class).getResultList().size(), "0 of a long isn't set");
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            Timer requests = meters.get("leafd.client.requests").tags("source", "snowflake order", "daemon", b.url(), "outcome", "ok").timer();
            assertTrue(requests.count() > 0);
            double fetched = meters.get("leafd.client.fetched").tag("source", "segment invoice").functionCounter().count();
            assertEquals(fetched, rows + meters.get("leafd.client.ahead").tag("source", "segment invoice").gauge().value());
            assertTrue(meters.get("leafd.client.borrows").counter().count() > 0, "slices, which these daemons don't lend");
            assertEquals(0, meters.get("leafd.client.lent").tag("source", "snowflake order").functionCounter().count());
            assertTrue(meters.get("leafd.client.waits").tags("source", "segment invoice", "outcome", "ok").timer().count() > 0);

            b.signal("KILL");
            b.waitUntilGone();
            assertEquals("DOWN", health(context).get("status"));
            context.close();
            assertEquals("closed", assertThrows(LeafdException.class, client.snowflake("order")::next).code());
        }
    }

    @Test
    void settingsAreSaidToBeMissing() {
        Throwable e = assertThrows(RuntimeException.class, () -> new SpringApplicationBuilder(App.class).web(WebApplicationType.NONE).run(
                "--spring.autoconfigure.exclude=org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration,"
                        + "org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration", "--logging.level.root=off",
                "--spring.main.banner-mode=off"));
        while (e.getCause() != null) {
            e = e.getCause();
        }
        assertEquals("leafd: urls: want one or more, such as http://10.0.0.5:8080", e.getMessage());

        Configuration hibernate = new Configuration().addAnnotatedClass(Order.class).setProperty("hibernate.dialect", "org.hibernate.dialect.MariaDBDialect")
                .setProperty("hibernate.boot.allow_jdbc_metadata_access", "false");
        assertFalse(hibernate.getProperties().containsKey("leafd.client"));
        e = assertThrows(HibernateException.class, hibernate::buildSessionFactory);
        while (e.getCause() != null) {
            e = e.getCause();
        }
        assertEquals("the setting leafd.client is null: @LeafdId wants a LeafdClient there", e.getMessage());
    }
}
