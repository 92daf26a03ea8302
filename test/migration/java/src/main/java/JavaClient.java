import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import org.springframework.http.MediaType;
import org.springframework.http.RequestEntity;
import org.springframework.web.client.RestTemplate;

/** A client of the Java Leaf, by the JDK's HttpClient and by Spring's RestTemplate: java JavaClient URL PATH. */
public final class JavaClient {
    private static long last;

    public static void main(String[] args) throws Exception {
        String base = args[0], path = args[1], ids = base + path;
        RestTemplate spring = new RestTemplate();
        grows("RestTemplate, Long", spring.getForObject(ids, Long.class));
        grows("RestTemplate, String", Long.parseLong(spring.getForObject(ids, String.class)));
        grows("RestTemplate, POST", spring.postForObject(ids, null, Long.class));
        grows("RestTemplate, a slash at the end", spring.getForObject(ids + "/", Long.class));
        grows("RestTemplate, application/json",
            spring.exchange(RequestEntity.get(URI.create(ids)).accept(MediaType.APPLICATION_JSON).build(), Long.class).getBody());

        HttpClient jdk = HttpClient.newHttpClient(); // offers HTTP/2 to begin with
        for (String accept : new String[] {"*/*", "application/json", "text/plain", "application/json, text/plain, */*"}) {
            HttpRequest get = HttpRequest.newBuilder(URI.create(ids)).header("Accept", accept).build();
            HttpResponse<String> answer = jdk.send(get, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new AssertionError("HttpClient, " + accept + ": " + answer.statusCode() + " " + answer.body());
            }
            grows("HttpClient, " + accept, Long.parseLong(answer.body()));
        }
        if (path.contains("snowflake")) {
            Map<?, ?> parts = spring.getForObject(base + "/decodeSnowflakeId?snowflakeId=" + last, Map.class);
            long worker = Long.parseLong(parts.get("workerId").toString());
            if (worker != (last >> 12 & 1023)) {
                throw new AssertionError("decoded " + last + " to " + parts);
            }
            Object error = spring.getForObject(base + "/decodeSnowflakeId?snowflakeId=x", Map.class).get("errorMsg");
            if (error == null) {
                throw new AssertionError("no errorMsg for what is no ID");
            }
        }
        System.out.println("ok");
    }

    private static void grows(String how, long id) {
        if (id <= last) {
            throw new AssertionError(how + ": " + id + " after " + last);
        }
        last = id;
    }
}
