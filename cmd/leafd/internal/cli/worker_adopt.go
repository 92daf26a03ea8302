package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) workerAdoptCmd() *cobra.Command {
	return a.moveCmd(&cobra.Command{
		Use:   "adopt IP:PORT",
		Short: "Prepare a Java Leaf's worker ID for leafd, on the Java Leaf's host, once that is stopped",
		Long: `Prepare the worker ID of a Java Leaf, named as its entry is (ip and leaf.snowflake.port), for
leafd serve. Run it on the Java Leaf's host, once the Java Leaf is stopped and its unit
disabled, before leafd's first start there, with leafd's --data-dir. It

  checks that nothing answers at the address, that the data directory is a fresh one, and
    that the entry is not written for 7 s;
  deletes the Java Leaf's workerID.properties: with it a Java Leaf that comes back starts
    all the same, unnoticed, and repeats leafd's IDs. Without, it serves nothing;
  closes the entry to Java Leafs, by fields that they don't know, unless somebody wrote it.

Then leafd serve adopts the entry, and begins beyond what the Java Leaf may have issued. Run
again it changes nothing. leafd worker return undoes it, also after leafd has run.

Exit codes: 4 the Java Leaf runs, or the entry is leafd's or another's; 1 anything else.`,
		Example: "  leafd worker adopt 10.0.0.5:8080 --zk 10.0.0.1:2181 --zk-forever-path /snowflake/NAME/forever --data-dir /var/lib/leafd --dry-run",
	}, (*move).adopt)
}

func (m *move) adopt(ctx context.Context, found *zkreg.JavaMove) error {
	switch record, err := cache.Peek(m.dataDir); {
	case err == nil:
		return fmt.Errorf("data directory %s has the record of worker %d, and leafd would go on as that: give it a fresh --data-dir", m.dataDir, record.WorkerID)
	case !noRecord(err):
		return err
	}
	m.note(stepChecked, "nothing is recorded in data directory %s", m.dataDir)
	if err := found.Watch(ctx); err != nil {
		return err
	}
	m.note(stepChecked, "the entry was not written for 7s")
	if m.here {
		left, err := m.java.Left()
		if err != nil {
			return err
		}
		for _, file := range left {
			if err := m.act("delete "+file, func() error {
				err := os.Remove(file)
				_ = os.Remove(filepath.Dir(file)) // left empty, a Java Leaf would never write into it again
				return err
			}); err != nil {
				return err
			}
		}
	} else {
		m.note(stepNext, "this machine does not have the address of %s: delete on that one %s", m.java.Address, strings.Join(m.java.Files(), " and "))
	}
	if found.Open() {
		if err := m.act("close the entry to Java Leafs", func() error { return found.Close(ctx) }); err != nil {
			return err
		}
	} else {
		m.note(stepChecked, "the entry is closed to Java Leafs already")
	}
	m.note(stepNext, "disable the Java Leaf's unit, if it is not: systemctl disable UNIT")
	m.note(stepNext, "%s, and your --mysql", m.command("doctor"))
	m.note(stepNext, "%s, and your --mysql", m.command("serve"))
	return nil
}
