package zkreg

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/worker"
)

// DefaultRoot is the root of a cluster where nothing else is configured.
const DefaultRoot = "/leaf"

// paths is where everything of one cluster lies.
type paths struct {
	root      string // data: rootData
	forever   string // parent of the persistent entries
	released  string // parent of the hints; each write of its data tells ZooKeeper's now
	temporary string // parent of the ephemeral nodes of the live set
	high      string // parent of the folders of the tags' high marks
}

// newPaths returns the paths under root; forever is empty for the usual place.
func newPaths(root, forever string) (paths, error) {
	root = cmp.Or(root, DefaultRoot)
	p := paths{
		root: root, forever: cmp.Or(forever, usualForever(root)), released: root + "/leaf_released", temporary: root + "/leaf_temporary", high: root + "/segment_high",
	}
	inside := func(of string) bool { return strings.HasPrefix(p.forever+"/", of+"/") }
	return p, cmp.Or(checkPath(p.root), checkPath(p.forever),
		want(p.forever != p.root && !slices.ContainsFunc([]string{p.released, p.temporary, p.high}, inside),
			"path %s of the entries: want one of its own, beside root %s", p.forever, p.root))
}

func usualForever(root string) string { return root + "/leaf_forever" }

// checkPath refuses what ZooKeeper would, and what can't be told from it at a glance.
func checkPath(s string) error {
	return cmp.Or(
		want(len(s) > 1 && s[0] == '/' && path.Clean(s) == s && !strings.HasPrefix(s+"/", "/zookeeper/"),
			"path %q: want one like /leaf: absolute, no / at its end, not below /zookeeper", s),
		want(!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }), "path %q: want printable ASCII without spaces", s),
	)
}

// parents returns every path above p, the highest first.
func parents(p string) (all []string) {
	for p = path.Dir(p); len(p) > 1; p = path.Dir(p) {
		all = slices.Insert(all, 0, p)
	}
	return all
}

// folders is how many folders of high marks there are: ZooKeeper gives no list of children that is
// longer than a message.
const folders = 256

// folder returns the one of the tags with this hash.
func (p paths) folder(hash uint32) string { return fmt.Sprintf("%s/%02x", p.high, hash%folders) }

// highOf returns the high mark of a tag.
func (p paths) highOf(tag string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tag))
	return p.folder(h.Sum32()) + "/" + escape(tag)
}

// ours is what the names of our entries begin with, before ZooKeeper's sequence number.
const ours = "worker-"

// entryOf returns the only path of a worker ID: ZooKeeper keeps it unique.
func (p paths) entryOf(workerID int64) string {
	return fmt.Sprintf("%s/%s%010d", p.forever, ours, workerID)
}

// hintOf says that a worker ID was released.
func (p paths) hintOf(workerID int64) string { return fmt.Sprintf("%s/%010d", p.released, workerID) }

// liveOf returns the ephemeral node of an instance that answers at address, an ip:port.
func (p paths) liveOf(address, instance string) string {
	return p.temporary + "/" + address + "~" + instance
}

// parseLive takes the name of an ephemeral node apart; false for what is none.
func parseLive(name string) (worker.Peer, bool) {
	address, instance, ok := strings.Cut(name, "~")
	return worker.Peer{Address: address, Instance: instance}, ok && instance != ""
}

// escape returns tag as it stands in a path. Two tags never have the same.
func escape(tag string) string {
	if tag == "." || tag == ".." { // means something else in a path
		return "%2E" + tag[1:]
	}
	return url.PathEscape(tag)
}

// entryName is the name of an entry, a Java Leaf's too.
type entryName struct {
	raw      string // as it stands in the tree
	workerID int64  // 0..2147483647
}

// isOurs reports whether leafd made it, or a hand for leafd.
func (n entryName) isOurs() bool { return n.raw == fmt.Sprintf("%s%010d", ours, n.workerID) }

// parseName takes an entry's name apart at its last dash. It returns false for
// what is no entry. ZooKeeper prints the number with %010d: a counter that wrapped
// is "-2147483648", ten digits behind two dashes. No such number is an entry's,
// and those that look like one of a node "x-" are beyond every layout.
func parseName(raw string) (entryName, bool) {
	dash := strings.LastIndexByte(raw, '-')
	if dash < 1 || len(raw)-dash-1 != 10 {
		return entryName{}, false
	}
	number, err := strconv.ParseUint(raw[dash+1:], 10, 64)
	if err != nil || number > math.MaxInt32 {
		return entryName{}, false
	}
	return entryName{raw: raw, workerID: int64(number)}, true
}

// StateJava is the state of an entry that no leafd has written, a Java Leaf's: it has no more than ip, port
// and timestamp.
const StateJava worker.EntryState = "foreign"

// latest is the end of the year 9999: what lies beyond is no time, but damage.
const latest clock.Millis = 253402300799999

// highData is a tag's high mark, as segment.HighMark has it.
type highData struct {
	High    int64  `json:"high"`
	Seen    int64  `json:"seen"`
	On      string `json:"on"`
	By      string `json:"by"`
	Deleted bool   `json:"deleted,omitempty"`
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
	doEntry = "its daemon writes it again by itself while its piece lies ahead; never delete it: that is taken for a loss of data. " +
		"That of a daemon that is gone for good may be deleted once the cluster's longest lease has passed since it was altered"
	doRoot = "it was altered, or a leafd that was never released made it: make it empty, and the daemons of the cluster write it again, as after a loss of data; or, once none of them is left, take another --zk-root"
)

// want returns an error unless ok.
func want(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// isTime reports whether t lies between 1970 and the year 10000.
func isTime(t clock.Millis) bool { return t >= 0 && t <= latest }

// decodeEntry reads the payload of the entry at p, ours or a Java Leaf's, which has nothing of what leafd
// adds: one of ours that lost its owner is damaged, and has a limit still. Fields it doesn't know are left to
// versions that do. It returns worker.ErrDamaged if that can't be read.
func decodeEntry(p string, data []byte) (worker.Entry, error) {
	return decode(p, data, worker.Entry{Timestamp: -1, Ceiling: -1}, worker.ErrDamaged, doEntry, func(d *worker.Entry) error {
		java := *d == worker.Entry{IP: d.IP, Port: d.Port, Timestamp: d.Timestamp, Ceiling: -1}
		if java {
			d.State, d.Ceiling = StateJava, 0
		}
		return cmp.Or(
			want(isTime(d.Timestamp) && isTime(d.Ceiling), "timestamp %d and ceiling %d, where -1 is a missing one: want ms since 1970, before the year 10000", d.Timestamp, d.Ceiling),
			want(java || slices.Contains([]worker.EntryState{worker.StateActive, worker.StateReleased, worker.StateClaiming}, d.State), "state %q: want active, released or claiming", d.State),
			want(0 <= d.Floor && d.Floor <= d.Limit && d.Limit <= latest && d.Life >= 0,
				"floor %d, limit %d and life %d: want ms since 1970, the limit not below the floor, before the year 10000, and a life of 0 or more", d.Floor, d.Limit, d.Life),
			want(java || d.State == worker.StateReleased || d.Owner != "" && d.Instance != "", "owner %q and instance %q: want both, or a Java Leaf's three fields alone", d.Owner, d.Instance),
			want(d.Over == nil || d.State == worker.StateClaiming && 0 <= d.Over.Floor && d.Over.Floor < d.Over.Limit && d.Over.Limit <= latest && d.Over.Life >= 0 &&
				slices.Contains([]worker.EntryState{worker.StateActive, worker.StateReleased}, d.Over.State), "over %+v: want a piece, active or released, and a claim with it", d.Over),
			want(!d.Free || d.State == worker.StateClaiming, "free, and state %q: want claiming with it", d.State),
			want(java || d.Limit > 0 || d.State == worker.StateClaiming, "no limit: it was altered, or a leafd that was never released wrote it"),
		)
	})
}

// ownerOf returns the life that shows itself by an ephemeral node: its payload, which its own instance
// alone reads. An empty one stands for a life that no record knows.
func ownerOf(payload []byte) string { return cmp.Or(string(payload), "unknown") }

// decodeHigh reads the high mark of a tag at p. It returns segment.ErrGuardRefused if that can't be read.
func decodeHigh(p string, data []byte) (highData, error) {
	const todo = `set it to {"high":N,"by":""}, with N not below max_id and the tag's highest "high" in all daemons' /api/segments`
	return decode(p, data, highData{High: -1}, segment.ErrGuardRefused, todo, func(d *highData) error {
		return want(d.High >= 0, "high is missing or negative")
	})
}

// decodeRoot reads the data of the root at p, in which each field has to be. It returns worker.ErrDamaged if
// that can't be read.
func decodeRoot(p string, data []byte) (worker.Root, error) {
	absent := worker.Root{Epoch: -1, Parent: -1, LongestSessionMS: -1, LongestLendMS: -1, Losses: -1, LostAt: -1, Floor: -1}
	return decode(p, data, absent, worker.ErrDamaged, doRoot, func(d *worker.Root) error {
		return cmp.Or(
			want(d.Cluster != "" && d.Layout != "", "no cluster or no layout: want a root that leafd made, or a path of its own"),
			want(checkPath(d.Forever) == nil, "forever: %w", checkPath(d.Forever)),
			want(isTime(d.Epoch) && isTime(d.LostAt) && isTime(d.Floor), "epoch %d, lost_at %d and floor %d, where -1 is a missing one: want ms since 1970, before the year 10000", d.Epoch, d.LostAt, d.Floor),
			want(d.Parent >= 0 && d.Losses >= 0 && d.LongestSessionMS >= 0 && d.LongestSessionMS <= time.Hour.Milliseconds(),
				"parent_czxid %d, losses %d and longest_session %d: want 0 or more, and ms of an hour at most", d.Parent, d.Losses, d.LongestSessionMS),
			want(0 < d.LongestLeaseMS && d.LongestLeaseMS <= int64(latest), "longest_lease %d: want ms, more than 0", d.LongestLeaseMS),
			want(0 <= d.LongestLendMS && d.LongestLendMS <= worker.MostLend.Milliseconds(), "longest_lend %d: want 0 or more, and ms of %s at most", d.LongestLendMS, worker.MostLend),
		)
	})
}

// Places returns the paths of the root and of the entries' parent.
func (c Config) Places() (root, forever string) {
	root = cmp.Or(c.Root, DefaultRoot)
	return root, cmp.Or(c.ForeverPath, usualForever(root))
}

// differs returns an error that says in what root is for other daemons than those of c and p; nil for
// nothing. IDs of two layouts can be equal regardless of their times, and two parents of the entries give
// every worker ID twice.
func (c Config) differs(p paths, root worker.Root) error {
	return cmp.Or(
		want(root.Layout == c.Layout.String() && root.Epoch == c.Layout.Epoch, "the ZooKeeper root %s is for layout %s with epoch %d, and the settings have %s with epoch %d: start with the root's, or take another root",
			p.root, root.Layout, root.Epoch, c.Layout, c.Layout.Epoch),
		want(root.Forever == p.forever, "the ZooKeeper root %s has its entries under %s, and --zk-forever-path is %s: start with the root's, or take another root", p.root, root.Forever, p.forever),
	)
}

// check returns worker.ErrForeign for a root of other daemons than those of c, or of another
// cluster than the one that the caller knows, if any.
func (c Config) check(p paths, root worker.Root, cluster string) error {
	err := cmp.Or(
		want(cluster == "" || cluster == root.Cluster, "worker IDs of cluster %s are recorded here, and the ZooKeeper root %s is of another cluster, %s: set --zk and --zk-root to the root of the former, or start with another data directory",
			cluster, p.root, root.Cluster),
		c.differs(p, root),
		want(c.Lease <= root.LongestLease(), "the cluster at %s allows leases up to %s, and --lease is %s: give it a shorter one; the longest lease of a cluster is set once, with `leafd cluster init --longest-lease`",
			p.root, root.LongestLease(), c.Lease),
		want(c.Lend <= root.LongestLend(), "the cluster at %s allows to lend for up to %s, and --lend is %s: give it a shorter one; the longest of a cluster is set once, with `leafd cluster init --longest-lend`",
			p.root, root.LongestLend(), c.Lend),
	)
	if err != nil {
		return fmt.Errorf("%w: %w", worker.ErrForeign, err)
	}
	return nil
}
