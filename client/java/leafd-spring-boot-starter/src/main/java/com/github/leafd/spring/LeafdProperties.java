package com.github.leafd.spring;

import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The settings of {@link com.github.leafd.client.LeafdClient.Builder}, with its defaults.
 *
 * @param urls base URLs of the daemons, such as http://10.0.0.5:8080. Required.
 * @param token what daemons with a tokens-file know this service by.
 * @param timeout how long a call for an ID waits.
 * @param requestTimeout how long one daemon may take before another is asked.
 * @param ahead how long IDs that were fetched ahead last at the rate of use; for snowflake IDs at most 1s.
 * @param maxAhead how many IDs of one source may be fetched and not handed out.
 * @param maxAge how old a snowflake ID may be when it is handed out; 0: any age.
 * @param lease how long snowflake IDs go on without a daemon, of a slice, up to 1h; 0: no slice.
 */
@ConfigurationProperties("leafd")
public record LeafdProperties(
        @DefaultValue List<String> urls,
        String token,
        @DefaultValue("5s") Duration timeout,
        @DefaultValue("1s") Duration requestTimeout,
        @DefaultValue("10s") Duration ahead,
        @DefaultValue("20000") int maxAhead,
        @DefaultValue("10s") Duration maxAge,
        @DefaultValue("0s") Duration lease) {}
