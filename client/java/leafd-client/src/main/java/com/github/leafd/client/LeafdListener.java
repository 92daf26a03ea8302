package com.github.leafd.client;

import java.time.Duration;

/**
 * Is told what a client does, for metrics and logs; {@link IdSource#stats()} has the counters. It is called by the client's
 * threads and by callers, at the same time, and must not block. What it throws goes to the thread's handler of uncaught exceptions.
 */
public interface LeafdListener {
    /**
     * A request for IDs has ended.
     *
     * @param daemon the base URL
     * @param ids how many it asked for, from 1
     * @param failure null where it brought them
     */
    default void requested(IdSource source, String daemon, int ids, Duration took, LeafdException failure) {}

    /** A source was made. */
    default void created(IdSource source) {}

    /**
     * A request for a slice has ended.
     *
     * @param lasts for how long IDs can be made of it
     * @param failure null where it brought one
     */
    default void borrowed(String daemon, Duration lasts, LeafdException failure) {}

    /**
     * A call of {@link IdSource#next()} found no ID, and had to wait.
     *
     * @param failure null where it got one in the end
     */
    default void waited(IdSource source, Duration took, LeafdException failure) {}
}
