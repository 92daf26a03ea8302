package jdk.crac;

/** As a JVM with CRaC has it. */
public final class Core {
    private static final Context<Resource> GLOBAL = new Context<>() {};

    private Core() {}

    public static Context<Resource> getGlobalContext() {
        return GLOBAL;
    }
}
