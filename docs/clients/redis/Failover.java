import static java.util.stream.Collectors.partitioningBy;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;

/** Each call begins at home, a daemon drawn at random; one that failed is asked last for a second. For any number of threads. */
class Failover {
    private record Daemon(LongSupplier ids, AtomicLong leftOut) {}

    private final List<Daemon> daemons = new ArrayList<>();

    Failover(List<LongSupplier> daemons) {
        for (var ids : daemons) this.daemons.add(new Daemon(ids, new AtomicLong(System.nanoTime())));
        Collections.shuffle(this.daemons);
    }

    long next() {
        for (long start = System.nanoTime();;) {
            long now = System.nanoTime();
            var leftOut = daemons.stream().collect(partitioningBy(d -> d.leftOut.get() - now > 0));
            RuntimeException failure = null;
            for (var some : List.of(leftOut.get(false), leftOut.get(true))) {
                for (var daemon : some) {
                    try {
                        return daemon.ids.getAsLong();
                    } catch (RuntimeException e) {
                        failure = e;
                        daemon.leftOut.set(System.nanoTime() + 1_000_000_000L);
                    }
                }
            }
            if (System.nanoTime() - start > 5_000_000_000L) throw failure;
            LockSupport.parkNanos(50_000_000);
        }
    }
}
