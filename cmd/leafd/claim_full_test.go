package main

import (
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// dayLater is how far the clocks of the machines here are ahead of ZooKeeper's, so
// that entries that were only just made have not been reported for a day.
const dayLater = 25 * time.Hour

// laterMachine is a machine of the cluster a day later.
func (c *cluster) laterMachine(args ...string) *machine {
	c.t.Helper()
	m := c.machine(append(frequent(), args...)...)
	m.step(dayLater)
	return m
}

// filled makes a root with n entries, all that its layout has.
func (o *onlooker) filled(layout string, n int) {
	o.t.Helper()
	o.create(o.root, "", 0)
	o.create(o.forever, "", 0)
	o.create(o.temporary, "", 0)
	o.set(o.root, rootText(layout, o.forever, o.must(o.forever).created))
	o.each(n, func(i int) error {
		_, err := o.make(o.path(int64(i)), jsonText(o.t, oldEntry(i)), 0)
		return err
	})
}

// oldEntry is what a daemon that is gone has left.
func oldEntry(i int) znode {
	at := clock.MillisOf(time.Now())
	return znode{
		Node: fmt.Sprintf("old-%d", i), IP: "192.0.2.1", Port: fmt.Sprint(8000 + i), Timestamp: at, Ceiling: at.Add(6 * time.Second), Limit: at.Add(worker.DefaultLease),
		Instance: fmt.Sprintf("instance %d", i), Owner: fmt.Sprintf("owner %d", i), Life: 3, State: "active",
	}
}
