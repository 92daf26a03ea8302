import com.github.leafd.client.IdSource;
import com.github.leafd.client.LeafdClient;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Queue;
import java.util.Scanner;
import java.util.concurrent.Callable;

/** Ids WAY URL... takes IDs in one way: for each line of its input, a number of calls and the seconds after each, it makes them and prints how many failed. */
class Ids {
    static String[] urls;

    // -- single list
    static HttpClient http = HttpClient.newHttpClient();

    static String get(String path) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(urls[0] + path)).timeout(Duration.ofSeconds(1)).build();
        var response = http.send(request, BodyHandlers.ofString());
        if (response.statusCode() != 200) throw new IllegalStateException(response.body());
        return response.body().strip();
    }

    // -- single
    static long single() throws Exception {
        return Long.parseLong(get("/api/snowflake/get/order"));
    }

    // -- list
    static Queue<Long> held = new ArrayDeque<>();

    static long list() throws Exception {
        if (held.isEmpty()) get("/api/snowflake/get/order?n=1000").lines().map(Long::valueOf).forEach(held::add);
        return held.remove();
    }

    // -- ranges
    static Callable<Long> ranges() {
        LeafdClient leafd = LeafdClient.builder(urls).build();
        IdSource orders = leafd.snowflake("order");
        return orders::next;
    }
    // -- end

    public static void main(String[] args) throws Exception {
        urls = Arrays.copyOfRange(args, 1, args.length);
        Callable<Long> take = switch (args[0]) {
            case "single" -> Ids::single;
            case "list" -> Ids::list;
            default -> ranges();
        };
        for (var lines = new Scanner(System.in); lines.hasNext();) {
            int calls = lines.nextInt();
            long pause = (long) (lines.nextDouble() * 1000);
            int failed = 0;
            for (int i = 0; i < calls; i++) {
                try {
                    take.call();
                } catch (Exception e) {
                    failed++;
                }
                if (pause > 0) Thread.sleep(pause);
            }
            System.out.println(failed);
        }
        System.exit(0);
    }
}
