package com.github.leafd.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;
import com.baomidou.mybatisplus.core.MybatisConfiguration;
import com.baomidou.mybatisplus.core.MybatisSqlSessionFactoryBuilder;
import com.baomidou.mybatisplus.core.config.GlobalConfig;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import com.baomidou.mybatisplus.core.metadata.TableInfoHelper;
import com.baomidou.mybatisplus.core.toolkit.GlobalConfigUtils;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import com.github.leafd.mybatisplus.LeafdIdentifierGenerator;
import com.github.leafd.shardingsphere.LeafdKeyGenerateAlgorithm;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.ServiceLoader;
import java.util.concurrent.TimeUnit;
import org.apache.ibatis.builder.MapperBuilderAssistant;
import org.apache.ibatis.mapping.Environment;
import org.apache.ibatis.session.SqlSession;
import org.apache.ibatis.transaction.jdbc.JdbcTransactionFactory;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.mariadb.jdbc.MariaDbDataSource;

/** MyBatis-Plus and ShardingSphere get IDs from a daemon by their own interfaces. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class FrameworksTest {
    @TableName("parcels")
    static class Parcel {
        @TableId(type = IdType.ASSIGN_ID) Long id;
    }

    interface Parcels extends BaseMapper<Parcel> {}

    @Test
    void myBatisPlus() throws Exception {
        try (MariaDb database = new MariaDb(); FakeDaemon daemon = new FakeDaemon();
                LeafdClient client = LeafdClient.builder(daemon.url()).timeout(Leafd.PATIENCE).requestTimeout(Leafd.PATIENCE).maxAge(Duration.ZERO).build()) {
            MybatisConfiguration configuration = new MybatisConfiguration(
                    new Environment("test", new JdbcTransactionFactory(), new MariaDbDataSource(database.jdbc("leaf"))));
            GlobalConfigUtils.setGlobalConfig(configuration, new GlobalConfig().setBanner(false).setDbConfig(new GlobalConfig.DbConfig())
                    .setIdentifierGenerator(new LeafdIdentifierGenerator(client.snowflake("shop"))));
            configuration.addMapper(Parcels.class);
            try (SqlSession session = new MybatisSqlSessionFactoryBuilder().build(configuration).openSession()) {
                session.getConnection().createStatement().execute("CREATE TABLE parcels (id BIGINT PRIMARY KEY)");
                for (long i = 1; i <= 100; i++) {
                    Parcel parcel = new Parcel();
                    session.getMapper(Parcels.class).insert(parcel);
                    assertEquals(i, parcel.id);
                }
                assertEquals(100, session.getMapper(Parcels.class).selectCount(null));
            }
        }
    }

    @TableName("letters")
    static class Letter extends Parcel {}

    @Test
    void myBatisPlusKeyPerTable() throws Exception {
        MybatisConfiguration configuration = new MybatisConfiguration();
        for (Class<?> type : List.of(Parcel.class, Letter.class)) {
            TableInfoHelper.initTableInfo(new MapperBuilderAssistant(configuration, ""), type);
        }
        try (FakeDaemon daemon = new FakeDaemon(); LeafdClient client = LeafdClient.builder(daemon.url()).timeout(Leafd.PATIENCE).build()) {
            LeafdIdentifierGenerator ids = new LeafdIdentifierGenerator(client, LeafdClient.Kind.SEGMENT);
            assertEquals(1L, ids.nextId(new Parcel()));
            assertEquals(2L, ids.nextId(new Parcel()));
            ids.nextId(new Letter());
            assertEquals(List.of("/api/segment/get/parcels", "/api/segment/get/letters"),
                    daemon.requests.stream().map(r -> r.getRequestURI().getPath()).toList());
            assertThrows(IllegalArgumentException.class, () -> ids.nextId("no entity"));
        }
    }

    @Test
    void shardingSphere() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            KeyGenerateAlgorithm algorithm = ServiceLoader.load(KeyGenerateAlgorithm.class).stream().map(ServiceLoader.Provider::get)
                    .filter(a -> "LEAFD".equals(a.getType())).findFirst().orElseThrow();
            Properties properties = new Properties();
            assertThrows(IllegalArgumentException.class, () -> algorithm.init(properties));
            properties.setProperty("urls", daemon.url());
            properties.setProperty("key", "order");
            properties.setProperty("kind", "segment");
            algorithm.init(properties);
            assertEquals(100, new HashSet<>(algorithm.generateKeys(null, 100)).size());
            assertEquals("/api/segment/get/order", daemon.requests.get(0).getRequestURI().getPath());
            ((AutoCloseable) algorithm).close();
            assertEquals("closed", assertThrows(LeafdException.class, () -> algorithm.generateKeys(null, 1)).code());
        }
    }

    /** ShardingSphere closes a data source, and lets go of its algorithms. */
    @Test
    void shardingSphereLeavesNoThreads() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            long before = threads();
            for (int i = 0; i < 10; i++) {
                LeafdKeyGenerateAlgorithm algorithm = new LeafdKeyGenerateAlgorithm();
                Properties properties = new Properties();
                properties.setProperty("urls", daemon.url());
                properties.setProperty("key", "order");
                algorithm.init(properties);
                algorithm.generateKeys(null, 1);
            }
            assertTrue(threads() > before);
            while (threads() > before) { // the test's time-out ends it
                System.gc();
                Thread.sleep(10);
            }
        }
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream().filter(t -> t.getName().matches("leafd-client|HttpClient-.*")).count();
    }
}
