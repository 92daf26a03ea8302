package zkreg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// JavaMove is a worker ID on its way from a Java Leaf to leafd, or back: the entry of the Java
// Leaf's ip:port as it was found, and what stood around it. A Java Leaf that starts refuses an
// entry with fields that it doesn't know, and goes by its local file then, or serves nothing
// without one; one that runs writes its own over whatever stands there. A move keeps:
//
//	zkreg.J1  Only a Java Leaf's entry is closed to Java Leafs, at the version at which it has stood
//	    for javaSilence, and leafd reads in it what it read before.
//	zkreg.J2  No Java Leaf can start on an entry that is closed, or leafd's.
//	zkreg.J3  An entry becomes a Java Leaf's again only where no piece of leafd's reaches ahead:
//	    it is a Java Leaf's still, or was written last by the instance that gives it up,
//	    which isn't live, and whose own record is marked released before. It is an allotment
//	    (zkreg.R1): entry, parent and root are at the versions at which they were judged, and
//	    nobody else had the worker ID.
//	zkreg.J4  Its timestamp then lies at or above all that leafd can have issued, and has
//	    passed on the clock of the host: a Java Leaf may issue from any time later than it.
type JavaMove struct {
	dir   *Directory
	root  *root
	list  list
	entry entry
}

// FindJava finds the entry of a Java Leaf's ip:port, whoever has it by now. worker.ErrNoEntry;
// worker.ErrNoCluster; worker.ErrForeign where the IDs of this cluster are none of a Java Leaf's;
// worker.ErrHeld where another entry has the worker ID, too; worker.ErrDamaged.
func (d *Directory) FindJava(ctx context.Context, address string) (*JavaMove, error) {
	m := &JavaMove{dir: d}
	var err error
	if m.root, _, err = d.stands(ctx); err != nil {
		return nil, err
	}
	if err := m.root.check(d.paths, d.cfg.Layout, ""); err != nil {
		return nil, err
	}
	if d.cfg.Layout != snowflake.DefaultLayout() {
		return nil, fmt.Errorf("%w: IDs of layout %s with epoch %d are none of a Java Leaf's", worker.ErrForeign, d.cfg.Layout, d.cfg.Layout.Epoch)
	}
	if m.list, err = d.readNames(ctx); err != nil {
		return nil, err
	}
	if !m.root.has(m.list.stat) {
		return nil, fmt.Errorf("%w: %s is not the one that the root has recorded: leafd cluster status says more", worker.ErrNoCluster, d.forever)
	}
	named, err := d.readWithLive(ctx, m.list.of(address))
	if err != nil {
		return nil, err
	}
	if len(named) != 1 {
		return nil, fmt.Errorf("%w: %d entries of %s are under %s, want one; leafd worker list shows all", worker.ErrNoEntry, len(named), address, d.forever)
	}
	m.entry = named[0]
	if m.entry.damaged != nil {
		return nil, m.entry.damaged
	}
	if m.entry.workerID > d.cfg.Layout.MaxWorker() {
		return nil, fmt.Errorf("%w: %s has a worker ID beyond the layout", worker.ErrForeign, m.entry.path)
	}
	other, err := d.othersOf(ctx, m.list, m.entry.entryName)
	if err != nil {
		return nil, err
	}
	if other != nil {
		return nil, fmt.Errorf("%w: worker %d has two entries: %s, and %s of %s; remove the one that is wrong", worker.ErrHeld, m.entry.workerID, m.entry.path, other.path, other.holder())
	}
	return m, nil
}

// Entry is the entry as it was found.
func (m *JavaMove) Entry() worker.Entry { return m.entry.listed() }

// Path is where the entry stands.
func (m *JavaMove) Path() string { return m.entry.path }

// IsJava tells that the entry is a Java Leaf's: no instance of leafd's has had it since.
func (m *JavaMove) IsJava() bool {
	return m.entry.data.Instance == "" && m.entry.data.Owner == "" && m.entry.data.State == worker.StateActive
}

// Open tells that a Java Leaf can start on the entry: it refuses one with other fields than its own.
func (m *JavaMove) Open() bool {
	reader := json.NewDecoder(bytes.NewReader(m.entry.payload))
	reader.DisallowUnknownFields()
	return reader.Decode(&javaData{}) == nil
}

// Watch waits for as long as a Java Leaf that runs can't leave its entry alone. worker.ErrHeld
// where it is written meanwhile, or is no Java Leaf's.
func (m *JavaMove) Watch(ctx context.Context) error {
	if !m.IsJava() {
		return fmt.Errorf("%w: %s is %s", worker.ErrHeld, m.entry.path, m.entry.holder())
	}
	if err := m.dir.cfg.Clock.Sleep(ctx, javaSilence); err != nil {
		return err
	}
	if err := m.dir.session.Sync(ctx, m.dir.root); err != nil {
		return err
	}
	now, err := m.dir.readEntry(ctx, m.entry.entryName)
	switch {
	case err != nil:
		return err
	case now == nil:
		return fmt.Errorf("%w: %s is gone", worker.ErrNoEntry, m.entry.path)
	case now.stat.Mzxid != m.entry.stat.Mzxid:
		return fmt.Errorf("%w: the Java Leaf of %s runs still: it wrote %s within %s; stop it, and disable its unit", worker.ErrHeld, unescapeNode(m.entry.node), m.entry.path, javaSilence)
	}
	return nil
}

// Close closes the entry, which Watch has watched, to Java Leafs (zkreg.J1).
func (m *JavaMove) Close(ctx context.Context) error {
	if !m.IsJava() {
		return fmt.Errorf("%w: %s is %s", worker.ErrHeld, m.entry.path, m.entry.holder())
	}
	return m.write(ctx, encode(m.entry.data))
}

// Until returns the time up to which leafd may have issued under the worker ID, which self's
// data directory gives up: the timestamp that a Java Leaf's entry gets (zkreg.J4). An error
// where self can't give it up, or no Java Leaf could start.
func (m *JavaMove) Until(self worker.Record) (clock.Millis, error) {
	e := m.Entry()
	mine := self.WorkerID == e.WorkerID
	if mine {
		if err := m.root.check(m.dir.paths, m.dir.cfg.Layout, self.Cluster); err != nil {
			return 0, err
		}
	}
	switch {
	case m.IsJava() && mine && !self.Released:
		return 0, fmt.Errorf("%w: a Java Leaf wrote over %s, and the data directory's record of worker %d goes on: stop that Java Leaf, start leafd, and stop it", worker.ErrHeld, m.entry.path, e.WorkerID)
	case !m.IsJava() && (!mine || !self.Holds(e) || !self.Wrote(e.Owner)):
		return 0, fmt.Errorf("%w: %s is no entry of this data directory's: %s; its record has worker %d", worker.ErrHeld, m.entry.path, m.entry.holder(), self.WorkerID)
	case e.Live:
		return 0, fmt.Errorf("%w: worker %d is live, or was within a session's time: %s", worker.ErrHeld, e.WorkerID, m.entry.holder())
	case e.State == worker.StateClaiming, !m.IsJava() && self.Instance == "":
		return 0, fmt.Errorf("%w: a start was cut short, or was a former release's: start leafd, and stop it", worker.ErrInUse)
	case m.root.lost(self, &m.entry):
		return 0, fmt.Errorf("%w: ZooKeeper lost what it had acknowledged of worker %d: start leafd, which puts it back, and stop it", worker.ErrNoCluster, e.WorkerID)
	}
	unread := "" // a child of the parent that a Java Leaf's start fails on
	if i := slices.IndexFunc(m.list.names, func(n entryName) bool { return strings.Contains(n.node, "-") }); i >= 0 {
		unread = m.list.names[i].raw
	} else if m.list.others > 0 {
		unread = fmt.Sprintf("%d nodes under %s that are no entries", m.list.others, m.dir.forever)
	}
	if unread != "" {
		return 0, fmt.Errorf("no Java Leaf can start beside %s: it takes what follows the first hyphen of every name for the worker ID", unread)
	}
	until := e.Timestamp
	if mine {
		until = max(until, self.Timestamp, self.Ceiling, self.Floor)
	}
	if !m.IsJava() {
		until = max(until, e.Ceiling, e.Floor)
	}
	if e.State == worker.StateReleased {
		until = max(until, e.Bound())
	}
	return until, nil
}

// Return makes the entry a Java Leaf's again, with what Until said as its timestamp, once
// that has passed. self is as it was saved, marked released (zkreg.J3). worker.ErrClockRefused
// where the time has not passed.
func (m *JavaMove) Return(ctx context.Context, self worker.Record) error {
	until, err := m.Until(self)
	if err != nil {
		return err
	}
	if !m.IsJava() && !self.Released {
		return errors.New("the record of the data directory is not marked released")
	}
	if now := m.dir.cfg.Clock.Read().Wall(); now < until {
		return fmt.Errorf("%w: it says %s, and leafd may have issued IDs of worker %d up to %s, %s from now", worker.ErrClockRefused, now, m.entry.workerID, until, until.Sub(now))
	}
	if m.root.Floor > 0 { // zkreg.R7
		now, err := m.dir.now(ctx, &m.list)
		if err != nil {
			return m.moved(err)
		}
		if now < m.root.Floor {
			return fmt.Errorf("%w: ZooKeeper lost data, and gives out no worker ID before %s; %s ends that", worker.ErrNoCluster, m.root.Floor, m.dir.cfg.command("open"))
		}
	}
	ip, port, err := net.SplitHostPort(unescapeNode(m.entry.node))
	if err != nil {
		return fmt.Errorf("%s is no ip:port: %w", m.entry.node, err)
	}
	return m.write(ctx, encode(javaData{ip, port, until}), setData(m.dir.forever, m.list.data, m.list.stat.Version))
}

// write writes the entry with the other operations, on the root and the entry as they were found.
func (m *JavaMove) write(ctx context.Context, payload []byte, more ...any) error {
	ops := append([]any{check(m.dir.root, m.root.stat.Version), setData(m.entry.path, payload, m.entry.stat.Version)}, more...)
	_, err := m.dir.session.Multi(ctx, 0, ops...)
	return m.moved(err)
}

// moved is err of a write that met another state than was found.
func (m *JavaMove) moved(err error) error {
	if isConflict(err) {
		return fmt.Errorf("%w: %s, or who has which worker ID, changed this very moment: run it again", worker.ErrInUse, m.entry.path)
	}
	return err
}
