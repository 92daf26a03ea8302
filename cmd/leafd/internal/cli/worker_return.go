package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

func (a *app) workerReturnCmd() *cobra.Command {
	return a.moveCmd(&cobra.Command{
		Use:   "return IP:PORT",
		Short: "Give a worker ID back to the Java Leaf, on its host, once leafd is stopped",
		Long: `Give the worker ID of an entry ip:port back to the Java Leaf that had it, or could have. Run it on
the Java Leaf's host, as the user that leafd runs as, once leafd is stopped, with its --data-dir. It

  checks that nothing answers at the address, that no leafd runs on the data directory, that the
    entry was written by it last, that no workerID.properties is there (with it a Java Leaf
    starts whatever its entry says), and that every name in the tree is one that a Java Leaf
    can read;
  waits until the clock has passed all that leafd may have issued, for --timeout at most. A
    Java Leaf would not wait: that is why the command does;
  marks the record of the data directory released, so that no leafd goes on by it;
  rewrites the entry as a Java Leaf has it, with that time, unless somebody wrote it;
  sets the record aside, so that leafd worker adopt can take the worker ID again.

Where it was cut short, run it again: it goes on. An entry that leafd worker adopt has closed,
and that no leafd has started on, is opened again.

Exit codes: 3 the clock has not passed what leafd may have issued; 4 something answers or runs
still, or the entry or the data directory is another's; 1 anything else.`,
		Example: "  leafd worker return 10.0.0.5:8080 --zk 10.0.0.1:2181 --zk-forever-path /snowflake/NAME/forever --data-dir /var/lib/leafd",
	}, (*move).giveBack)
}

// giveBack keeps, beside zkreg.J3 and J4:
//
//	cli.M1  The data directory is locked until the entry is a Java Leaf's: no leafd of it runs.
//	cli.M2  Its record is marked released, durably and in both slots, before the entry is
//	    written: from then on no leafd issues by it (worker.W5), and killed in between it
//	    is given back by the next run.
//	cli.M3  A record that may not be the newest, or is another directory's, gives nothing back.
func (m *move) giveBack(ctx context.Context, found *zkreg.JavaMove) (err error) {
	record, err := cache.Peek(m.dataDir)
	recorded := err == nil && record.WorkerID == m.WorkerID
	if noRecord(err) || err == nil && !recorded {
		record.WorkerID = worker.NoWorkerID // of nothing that concerns us
	} else if err != nil {
		return err
	}
	if !m.here {
		return fmt.Errorf("this machine does not have the address of %s: run it where the Java Leaf is to run, whose clock it goes by", m.java.Address)
	}
	left, err := m.java.Left()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s is there, with which a Java Leaf starts whatever its entry says: delete it", strings.Join(left, " and "))
	}
	m.note(stepChecked, "no workerID.properties is there")
	var file *cache.Cache
	if recorded && !m.DryRun {
		if file, err = m.lock(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if record, err = loadNewest(file); err != nil {
			return err
		}
		m.note(stepChecked, "no leafd runs on data directory %s", m.dataDir)
	}
	until, err := found.Until(record)
	if err != nil {
		return err
	}
	if found.IsJava() && found.Open() && found.Entry().Timestamp >= until {
		m.note(stepChecked, "the entry is a Java Leaf's already")
	} else if err := m.rewrite(ctx, found, file, record, until); err != nil {
		return err
	}
	if recorded {
		err = m.act("set aside the record in "+m.dataDir, func() error { return file.Forget() })
	}
	m.note(stepNext, "disable leafd's unit on this host, and start the Java Leaf: systemctl disable leafd, systemctl enable --now UNIT")
	return err
}

// rewrite makes the entry a Java Leaf's, in the order of cli.M2.
func (m *move) rewrite(ctx context.Context, found *zkreg.JavaMove, file *cache.Cache, record worker.Record, until clock.Millis) error {
	left := until.Sub(m.wall())
	if left > m.timeout {
		return fmt.Errorf("%w: leafd may have issued IDs of worker %d up to %s, %s from now, and a Java Leaf would not wait for that: run it again then, or give --timeout more",
			worker.ErrClockRefused, m.WorkerID, until, span(left))
	}
	if left > 0 {
		if err := m.act(fmt.Sprintf("wait until %s, up to which leafd may have issued IDs", until), func() error {
			return m.Clock.Sleep(ctx, left+time.Millisecond)
		}); err != nil {
			return err
		}
	}
	if record.WorkerID == m.WorkerID && !record.Released {
		record.Released, record.Limit = true, min(record.Limit, max(record.Ceiling, record.Floor))
		if err := m.act("mark the record in "+m.dataDir+" released", func() error { return errors.Join(file.Save(record), file.Save(record)) }); err != nil {
			return err
		}
	}
	return m.act(fmt.Sprintf("rewrite the entry as a Java Leaf has it, with timestamp %d (%s)", until, until), func() error { return found.Return(ctx, record) })
}

// lock locks the data directory (cli.M1). What is written there has to stay the daemon's to read.
func (m *move) lock() (*cache.Cache, error) {
	info, err := os.Stat(m.dataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("data directory %s is that of the user with ID %d: run this as that user", m.dataDir, st.Uid)
	}
	return cache.Open(m.dataDir)
}

// loadNewest returns the record (cli.M3).
func loadNewest(file *cache.Cache) (worker.Record, error) {
	record, err := file.Load()
	if err != nil {
		return worker.Record{}, err
	}
	home, err := file.DirectoryID()
	switch {
	case err != nil:
		return worker.Record{}, err
	case record.Restored || record.MaybeStale:
		return worker.Record{}, fmt.Errorf("%w: %s may not be the newest: start leafd, and stop it", worker.ErrRestored, file.Path())
	case record.DirectoryID != "" && record.DirectoryID != home:
		return worker.Record{}, fmt.Errorf("%w: %s was recorded in another data directory, of which this one is a copy", worker.ErrForeign, file.Path())
	}
	return record, nil
}
