package com.github.leafd.hibernate;

import com.github.leafd.client.LeafdClient;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;

/**
 * Has leafd give the ID of an entity, before its row is inserted, so that inserts go in batches:
 *
 * <pre>{@code
 * @Id @LeafdId("order") Long id;
 * }</pre>
 *
 * The attribute is a {@code long}, a {@code Long}, or a {@code String} of decimal digits. An entity that has an ID already keeps it. The setting {@link LeafdIdGenerator#CLIENT} has the client; Spring
 * Boot's starter sets it.
 */
@IdGeneratorType(LeafdIdGenerator.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.METHOD})
public @interface LeafdId {
    /** The key, or the tag: 1 to 128 bytes. */
    String value();

    /** Whether {@link #value()} is a key of snowflake IDs, or a tag. */
    LeafdClient.Kind kind() default LeafdClient.Kind.SNOWFLAKE;
}
