package zkreg

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// The states of entries that leafd never writes.
const (
	StateJava    worker.EntryState = "java"    // a Java Leaf's: it has no more than ip, port and timestamp
	StateDamaged worker.EntryState = "damaged" // Directory.Entries: its payload can't be read
)

// latest is the end of the year 9999: what lies beyond is no time, but damage.
const latest clock.Millis = 253402300799999

// entryData is the payload of an entry: the Java Leaf's three fields in its
// spelling and types (port is a string there), and ours.
type entryData struct {
	IP        string            `json:"ip"`
	Port      string            `json:"port"`
	Timestamp clock.Millis      `json:"timestamp"`
	Node      string            `json:"node"` // a label for people
	Ceiling   clock.Millis      `json:"ceiling"`
	Floor     clock.Millis      `json:"floor"` // Floor and Limit are the piece
	Limit     clock.Millis      `json:"limit"`
	Instance  string            `json:"instance"`
	Owner     string            `json:"owner"`
	Life      int64             `json:"life"` // Owner's number
	State     worker.EntryState `json:"state"`
}

// temporaryData is the payload of an ephemeral node, which its own instance alone reads.
type temporaryData struct {
	Owner string `json:"owner"`
}

// rootData names a cluster, what its IDs look like, and where its entries are. It is
// written when the cluster is made, and when its entries were lost.
type rootData struct {
	Cluster string       `json:"cluster"`
	Epoch   clock.Millis `json:"epoch"`
	Layout  string       `json:"layout"`
	Forever string       `json:"forever"` // parent of the entries
	// ParentCzxid is the czxid of Forever: where that has another one, or is absent, the
	// entries were lost. 0 until somebody has recorded it: Init was cut short, or, with
	// Losses, what was lost is being made again.
	ParentCzxid    int64        `json:"parent_czxid"`
	LongestLease   int64        `json:"longest_lease"`   // in milliseconds; from when the cluster was made
	LongestSession int64        `json:"longest_session"` // in milliseconds
	Losses         int64        `json:"losses"`          // how often a loss was noted
	LostAt         clock.Millis `json:"lost_at"`         // the last time that one was, on ZooKeeper's clock
	Floor          clock.Millis `json:"floor"`           // no worker ID is given out before it
}

// highData is a tag's high mark.
type highData struct {
	High int64  `json:"high"`
	By   string `json:"by"` // which fetch of which life wrote it
}

// highRoot is the data of the parent of all high marks.
type highRoot struct {
	Settled bool `json:"settled"` // whoever knew high marks of before it was made has put them back
}

// DefaultLongestLease is what a cluster is made with where nothing else is configured.
const DefaultLongestLease = worker.DefaultLease

// address returns ip:port, or "" when there is none.
func (d entryData) address() string {
	if d.IP == "" && d.Port == "" {
		return ""
	}
	return net.JoinHostPort(d.IP, d.Port)
}

// encode can't fail: none of the payloads holds anything that JSON can't.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("payload %T: %v", v, err))
	}
	return data
}

// decode reads the payload of p into d, which has what no field may be, and has it checked. What can't
// be trusted is never taken for "nothing recorded": that would be to issue again what was
// issued before. It is kind then, with what to do about it.
func decode[T any](p string, data []byte, d T, kind error, todo string, check func(d *T) error) (T, error) {
	err := json.Unmarshal(data, &d)
	if err == nil {
		err = check(&d)
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%w: znode %s holds %.200q: %w; %s", kind, p, data, err, todo)
	}
	return d, nil
}

// What to do about a payload that can't be trusted.
const (
	doEntry = "delete it while its daemon runs and reaches ZooKeeper: the daemon puts it back, as after a loss of data; " +
		"that of a daemon that is gone for good once every time in it has passed"
	doRoot = "it was altered, or a leafd that was never released made it: make it empty, and the daemons of the cluster write it again, as after a loss of data; or, once none of them is left, take another --zk-root"
)

// want returns an error unless ok.
func want(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// isTime tells that t lies between 1970 and the year 10000.
func isTime(t clock.Millis) bool { return t >= 0 && t <= latest }

// decodeEntry reads the payload of the entry at p, ours or a Java Leaf's, which has nothing
// of what leafd adds: one of ours that lost its owner is damaged, and has a limit still.
// Fields it doesn't know are left to those who do. worker.ErrDamaged.
func decodeEntry(p string, data []byte) (entryData, error) {
	return decode(p, data, entryData{Timestamp: -1, Ceiling: -1}, worker.ErrDamaged, doEntry, func(d *entryData) error {
		java := *d == entryData{IP: d.IP, Port: d.Port, Timestamp: d.Timestamp, Ceiling: -1}
		if java {
			d.State, d.Ceiling = StateJava, 0
		}
		return cmp.Or(
			want(isTime(d.Timestamp), "timestamp is missing or %d: want ms since 1970, before the year 10000", d.Timestamp),
			want(isTime(d.Ceiling), "ceiling is missing or %d: want ms since 1970, before the year 10000", d.Ceiling),
			want(java || slices.Contains([]worker.EntryState{worker.StateActive, worker.StateReleased, worker.StateClaiming}, d.State), "state %q: want active, released or claiming", d.State),
			want(0 <= d.Floor && d.Floor <= d.Limit && d.Limit <= latest,
				"floor %d and limit %d: want ms since 1970, the limit not below the floor, before the year 10000", d.Floor, d.Limit),
			want(java || d.State == worker.StateReleased || d.Owner != "" && d.Instance != "", "owner %q and instance %q: want both, or a Java Leaf's three fields alone", d.Owner, d.Instance),
			want(d.Life >= 0, "life %d: want 0 or more", d.Life),
			want(java || d.Limit > 0 || d.State == worker.StateClaiming, "no limit: it was altered, or a leafd that was never released wrote it"),
		)
	})
}

// ownerOf reads the payload of an ephemeral node. One that can't be read stands for a life that
// no record knows.
func ownerOf(data []byte) string {
	var d temporaryData
	_ = json.Unmarshal(data, &d) // what it leaves empty is unknown
	return cmp.Or(d.Owner, "unknown")
}

// decodeHigh reads the high mark of a tag at p. segment.ErrGuardDamaged.
func decodeHigh(p string, data []byte) (highData, error) {
	const todo = `set it to {"high":N,"by":""}, with N not below max_id and the tag's highest "high" of all daemons' /api/segments`
	return decode(p, data, highData{High: -1}, segment.ErrGuardDamaged, todo, func(d *highData) error {
		return want(d.High >= 0, "high is missing or negative")
	})
}

// decodeHighRoot reads the data of the parent of all high marks at p. segment.ErrGuardDamaged.
func decodeHighRoot(p string, data []byte) (highRoot, error) {
	return decode(p, data, highRoot{}, segment.ErrGuardDamaged, `set it to {"settled":false}`, func(*highRoot) error { return nil })
}

// decodeRoot reads the data of the root at p, in which each field has to be. worker.ErrDamaged.
func decodeRoot(p string, data []byte) (rootData, error) {
	absent := rootData{Epoch: -1, ParentCzxid: -1, LongestSession: -1, Losses: -1, LostAt: -1, Floor: -1}
	return decode(p, data, absent, worker.ErrDamaged, doRoot, func(d *rootData) error {
		return cmp.Or(
			want(d.Cluster != "" && d.Layout != "", "no cluster or no layout: want a root that leafd made, or a path of its own"),
			want(isTime(d.Epoch), "epoch %d: want ms since 1970, before the year 10000", d.Epoch),
			want(checkPath(d.Forever) == nil, "forever: %w", checkPath(d.Forever)),
			want(d.ParentCzxid >= 0, "parent_czxid %d: want 0 or more", d.ParentCzxid),
			want(0 < d.LongestLease && d.LongestLease <= int64(latest), "longest_lease %d: want ms, more than 0", d.LongestLease),
			want(0 <= d.LongestSession && d.LongestSession <= time.Hour.Milliseconds(), "longest_session %d: want ms, an hour at most", d.LongestSession),
			want(d.Losses >= 0, "losses %d: want 0 or more", d.Losses),
			want(isTime(d.LostAt), "lost_at %d: want ms since 1970, before the year 10000", d.LostAt),
			want(isTime(d.Floor), "floor %d: want ms since 1970, before the year 10000", d.Floor),
		)
	})
}

// differs says in what d is for other daemons than those of p and layout; empty for
// nothing. IDs of two layouts can be equal whatever their times, and two parents of the
// entries give every worker ID twice.
func (d rootData) differs(p paths, layout snowflake.Layout) string {
	switch {
	case d.Layout != layout.String() || d.Epoch != layout.Epoch:
		return fmt.Sprintf("the ZooKeeper root %s is for layout %s with epoch %d, and the settings have %s with epoch %d", p.root, d.Layout, d.Epoch, layout, layout.Epoch)
	case d.Forever != p.forever:
		return fmt.Sprintf("the ZooKeeper root %s has its entries under %s, and --zk-forever-path is %s", p.root, d.Forever, p.forever)
	default:
		return ""
	}
}

// check returns worker.ErrForeign for a root of other daemons than those of c, or of another
// cluster than the one that the caller knows, if any.
func (d rootData) check(p paths, c Config, cluster string) error {
	if cluster != "" && cluster != d.Cluster {
		return fmt.Errorf("%w: worker IDs of cluster %s are recorded here, and the ZooKeeper root %s is of another cluster, %s: have the root of the former, or start with another data directory",
			worker.ErrForeign, cluster, p.root, d.Cluster)
	}
	if differs := d.differs(p, c.Layout); differs != "" {
		return fmt.Errorf("%w: %s: start with the root's, or take another root", worker.ErrForeign, differs)
	}
	if longest := time.Duration(d.LongestLease) * time.Millisecond; c.Lease > longest {
		return fmt.Errorf("%w: the cluster at %s allows leases up to %s, and --lease is %s: give it a shorter one; the longest lease of a cluster is set once, with `leafd cluster init --longest-lease`",
			worker.ErrForeign, p.root, longest, c.Lease)
	}
	return nil
}
