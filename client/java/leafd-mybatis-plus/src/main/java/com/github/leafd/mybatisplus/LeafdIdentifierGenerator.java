package com.github.leafd.mybatisplus;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdException;

/**
 * Has leafd give the IDs of MyBatis-Plus' {@code @TableId(type = IdType.ASSIGN_ID)}, all from one source. In Spring:
 *
 * <pre>{@code
 * @Bean IdentifierGenerator ids(LeafdClient leafd) { return new LeafdIdentifierGenerator(leafd.snowflake("shop")); }
 * }</pre>
 */
public final class LeafdIdentifierGenerator implements IdentifierGenerator {
    private final IdSource source;

    public LeafdIdentifierGenerator(IdSource source) {
        this.source = source;
    }

    /** @throws LeafdException as {@link IdSource#next()} */
    @Override
    public Number nextId(Object entity) {
        return source.next();
    }
}
