import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checks golden.json with Java's long arithmetic: every vector composed by shift and or, and taken apart again by
 * shift and mask; those of the Java Leaf's layout and epoch as the Java Leaf composes them, time
 * shifted by 22 and worker by 12. Run: java Golden.java golden.json
 */
class Golden {
    private static final long LEAF_EPOCH = 1288834974657L;

    private static final Pattern VECTOR = Pattern.compile(
        "\\{\"layout\": \"([0-9+]+)\", \"epoch\": (\\d+), \"timestamp\": (\\d+), "
            + "(?:\"datacenter\": (\\d+), )?\"worker\": (\\d+), \"sequence\": (\\d+), \"id\": \"(\\d+)\"\\}");

    public static void main(String[] args) throws IOException {
        String text = Files.readString(Path.of(args[0]), StandardCharsets.UTF_8);
        int vectors = 0;
        int leaf = 0;
        Matcher m = VECTOR.matcher(text);
        while (m.find()) {
            vectors++;
            String[] parts = m.group(1).split("\\+");
            long epoch = Long.parseLong(m.group(2));
            long timestamp = Long.parseLong(m.group(3));
            long worker = Long.parseLong(m.group(5));
            long sequence = Long.parseLong(m.group(6));
            long id = Long.parseLong(m.group(7));
            int sequenceSize = Integer.parseInt(parts[parts.length - 1]);
            int workerSize = Integer.parseInt(parts[parts.length - 2]);
            int datacenterSize = parts.length == 4 ? Integer.parseInt(parts[1]) : 0;
            long datacenter = m.group(4) == null ? 0L : Long.parseLong(m.group(4));
            int timeShift = sequenceSize + workerSize + datacenterSize;

            long composed = ((timestamp - epoch) << timeShift) | (datacenter << (sequenceSize + workerSize))
                | (worker << sequenceSize) | sequence;
            check(m, "composed", composed == id && id >= 0);
            check(m, "datacenter is given where the layout has one", (m.group(4) != null) == (parts.length == 4));
            check(m, "time taken out", (id >>> timeShift) + epoch == timestamp);
            check(m, "datacenter taken out", ((id >>> (sequenceSize + workerSize)) & ~(-1L << datacenterSize)) == datacenter);
            check(m, "worker taken out", ((id >>> sequenceSize) & ~(-1L << workerSize)) == worker);
            check(m, "sequence taken out", (id & ~(-1L << sequenceSize)) == sequence);
            if (m.group(1).equals("41+10+12") && epoch == LEAF_EPOCH) {
                leaf++;
                check(m, "composed as the Java Leaf does",
                    (((timestamp - LEAF_EPOCH) << 22) | (worker << 12) | sequence) == id);
            }
        }
        int listed = text.split("\"sequence\": ", -1).length - 1;
        if (vectors != listed || leaf == 0) {
            throw new AssertionError(listed + " vectors are listed, " + vectors + " were read, " + leaf + " are the Java Leaf's");
        }
        System.out.println(vectors + " vectors agree, " + leaf + " of them the Java Leaf's");
    }

    private static void check(Matcher m, String what, boolean ok) {
        if (!ok) {
            throw new AssertionError(what + ": " + m.group());
        }
    }
}
