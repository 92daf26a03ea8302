package com.github.leafd.hibernate;

import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import com.github.leafd.client.LeafdException;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.util.EnumSet;
import org.hibernate.HibernateException;
import org.hibernate.engine.config.spi.ConfigurationService;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.generator.AnnotationBasedGenerator;
import org.hibernate.generator.BeforeExecutionGenerator;
import org.hibernate.generator.EventType;
import org.hibernate.generator.EventTypeSets;
import org.hibernate.generator.GeneratorCreationContext;

/** What {@link LeafdId} stands for. */
public final class LeafdIdGenerator implements BeforeExecutionGenerator, AnnotationBasedGenerator<LeafdId> {
    /** The setting of Hibernate that has the {@link LeafdClient}, which its maker closes. */
    public static final String CLIENT = "leafd.client";

    private transient IdSource source;
    private boolean text;
    private boolean primitive;

    /** @throws HibernateException where the settings have no client */
    @Override
    public void initialize(LeafdId id, Member member, GeneratorCreationContext context) {
        Object client = context.getServiceRegistry().requireService(ConfigurationService.class).getSettings().get(CLIENT);
        if (!(client instanceof LeafdClient leafd)) {
            throw new HibernateException("the setting " + CLIENT + " is " + client + ": @LeafdId wants a LeafdClient there");
        }
        source = leafd.source(id.kind(), id.value());
        Class<?> type = member instanceof Field field ? field.getType() : ((Method) member).getReturnType();
        text = type == String.class;
        primitive = type.isPrimitive();
    }

    /**
     * Returns current where the entity has an ID already, which 0 of a {@code long} isn't.
     *
     * @throws LeafdException as {@link IdSource#next()}
     */
    @Override
    public Object generate(SharedSessionContractImplementor session, Object owner, Object current, EventType event) {
        if (current != null && !(primitive && current.equals(0L))) {
            return current;
        }
        long id = source.next();
        return text ? (Object) Long.toString(id) : (Object) id;
    }

    @Override
    public EnumSet<EventType> getEventTypes() {
        return EventTypeSets.INSERT_ONLY;
    }

    @Override
    public boolean allowAssignedIdentifiers() {
        return true;
    }
}
