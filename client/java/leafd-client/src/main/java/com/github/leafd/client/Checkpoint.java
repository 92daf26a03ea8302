package com.github.leafd.client;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/**
 * Rule 9: tells a client of the checkpoints of its process, on a JVM that makes such (CRaC). It is a {@code jdk.crac.Resource},
 * by reflection, since other JVMs have none.
 */
final class Checkpoint implements InvocationHandler {
    private final LeafdClient client;

    private Checkpoint(LeafdClient client) {
        this.client = client;
    }

    /** Returns what the client has to hold, for the JVM holds it weakly; null: the JVM makes no checkpoints. */
    static Object register(LeafdClient client) {
        try {
            Class<?> resource = Class.forName("jdk.crac.Resource");
            Object own = Proxy.newProxyInstance(resource.getClassLoader(), new Class<?>[] {resource}, new Checkpoint(client));
            Object context = Class.forName("jdk.crac.Core").getMethod("getGlobalContext").invoke(null);
            Class.forName("jdk.crac.Context").getMethod("register", resource).invoke(context, own);
            return own;
        } catch (ClassNotFoundException e) {
            return null;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("leafd: the JVM has a jdk.crac that the client doesn't know", e);
        }
    }

    @Override
    public Object invoke(Object own, Method method, Object[] arguments) {
        return switch (method.getName()) {
            case "beforeCheckpoint" -> client.hold(true);
            case "afterRestore" -> client.hold(false);
            case "hashCode" -> System.identityHashCode(own);
            case "equals" -> own == arguments[0];
            default -> toString();
        };
    }
}
