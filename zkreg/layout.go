package zkreg

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

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
	high      string // parent of the folders of the tags' high marks; data: highRoot
}

// newPaths returns the paths under root; forever is empty for the usual place.
func newPaths(root, forever string) (paths, error) {
	root = cmp.Or(root, DefaultRoot)
	p := paths{
		root: root, forever: cmp.Or(forever, usualForever(root)), released: root + "/leaf_released", temporary: root + "/leaf_temporary", high: root + "/segment_high",
	}
	if err := cmp.Or(checkPath(p.root), checkPath(p.forever)); err != nil {
		return paths{}, err
	}
	if p.forever == p.root || slices.ContainsFunc([]string{p.released, p.temporary, p.high}, func(of string) bool { return strings.HasPrefix(p.forever+"/", of+"/") }) {
		return paths{}, fmt.Errorf("path %s of the entries: want one of its own, beside root %s", p.forever, p.root)
	}
	return p, nil
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

// highOf is the high mark of a tag, in one of 256 folders: ZooKeeper gives no list of
// children that is longer than a message.
func (p paths) highOf(tag string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tag))
	return fmt.Sprintf("%s/%02x/%s", p.high, h.Sum32()%256, escape(tag))
}

// ours is what the names of our entries begin with, before ZooKeeper's sequence number.
const ours = "worker-"

// entryOf is the only path of a worker ID: ZooKeeper keeps it unique.
func (p paths) entryOf(workerID int64) string {
	return fmt.Sprintf("%s/%s%010d", p.forever, ours, workerID)
}

// hintOf says that a worker ID was released.
func (p paths) hintOf(workerID int64) string { return fmt.Sprintf("%s/%010d", p.released, workerID) }

// liveOf is the ephemeral node of an instance that answers at address, an ip:port.
func (p paths) liveOf(address, instance string) string {
	return p.temporary + "/" + escape(address) + "~" + instance
}

// parseLive takes the name of an ephemeral node apart; false for what is none.
func parseLive(name string) (worker.Peer, bool) {
	address, instance, ok := strings.Cut(name, "~")
	return worker.Peer{Address: address, Instance: instance}, ok && instance != ""
}

// escape returns name as it stands in a path. Two names never have the same. The bytes of
// every ip:port, [IPv6]:port and host name stand for themselves, and what else does no harm.
func escape(name string) string {
	if name == "." || name == ".." { // means something else in a path
		return "%2E" + name[1:]
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		if c > ' ' && c <= '~' && c != '/' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// entryName is the name of an entry, a Java Leaf's too.
type entryName struct {
	raw      string // as it stands in the tree
	workerID int64  // 0..2147483647
}

// isOurs tells that leafd made it, or a hand for leafd.
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
