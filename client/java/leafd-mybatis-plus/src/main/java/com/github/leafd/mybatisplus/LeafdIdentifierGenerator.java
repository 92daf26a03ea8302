package com.github.leafd.mybatisplus;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.baomidou.mybatisplus.core.metadata.TableInfo;
import com.baomidou.mybatisplus.core.metadata.TableInfoHelper;
import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * Has leafd give the IDs of MyBatis-Plus' {@code @TableId(type = IdType.ASSIGN_ID)}: those of each table from a source whose key is the
 * table's name, or all from one source. In Spring:
 *
 * <pre>{@code
 * @Bean IdentifierGenerator ids(LeafdClient leafd) { return new LeafdIdentifierGenerator(leafd, Kind.SEGMENT); }
 * }</pre>
 */
public final class LeafdIdentifierGenerator implements IdentifierGenerator {
    private final Function<Object, IdSource> source; // of an entity

    /** All from one source. */
    public LeafdIdentifierGenerator(IdSource source) {
        this.source = entity -> source;
    }

    /** Of each table from a source of its own, whose key, or tag, is the table's name. */
    public LeafdIdentifierGenerator(LeafdClient client, LeafdClient.Kind kind) {
        Map<Class<?>, IdSource> sources = new ConcurrentHashMap<>();
        source = entity -> sources.computeIfAbsent(entity.getClass(), type -> {
            TableInfo table = TableInfoHelper.getTableInfo(type);
            if (table == null) {
                throw new IllegalArgumentException("leafd: " + type + " has no table in MyBatis-Plus");
            }
            return client.source(kind, table.getTableName());
        });
    }

    /** @throws LeafdException as {@link IdSource#next()} */
    @Override
    public Number nextId(Object entity) {
        return source.apply(entity).next();
    }
}
