package com.github.leafd.client;

/** Says why there is no ID, and is what {@link LeafdListener} gets of a request that failed. */
public final class LeafdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final int status;
    private final int retryAfter;

    LeafdException(String code, String message, Throwable cause) {
        this(code, message, cause, 0, 0);
    }

    LeafdException(String code, String message, Throwable cause, int status, int retryAfter) {
        super(message, cause);
        this.code = code;
        this.status = status;
        this.retryAfter = retryAfter;
    }

    /**
     * A code of leafd's API such as {@code unknown_key}; or one of the client's own: {@code timeout} (the time was up),
     * {@code unreachable}, {@code bad_response} (not one of leafd's), {@code closed}, {@code interrupted}.
     */
    public String code() {
        return code;
    }

    /** The status of HTTP; 0 where no daemon answered. */
    public int status() {
        return status;
    }

    /** Seconds, 0 to 30, during which the daemon asks not to be asked again. */
    int retryAfter() {
        return retryAfter;
    }

    /** Whether the daemon answered that the request itself is wrong, which asking later doesn't change. */
    boolean isFinal() {
        return status >= 400 && status < 500 && status != 408 && status != 429;
    }
}
