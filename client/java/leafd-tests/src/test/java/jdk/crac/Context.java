package jdk.crac;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;

/** As a JVM with CRaC has it, which tells its resources, all held weakly, of a checkpoint. */
public abstract class Context<R extends Resource> {
    /** Of all tests. */
    public static final Set<Resource> REGISTERED = Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

    public void register(R resource) {
        REGISTERED.add(resource);
    }
}
