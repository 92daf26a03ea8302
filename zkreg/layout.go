package zkreg

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// DefaultRoot is the root of a cluster where nothing else is configured.
const DefaultRoot = "/leaf"

// maxName is how many bytes a node name may take in a path, escaped.
const maxName = 255

// paths is where everything of one cluster lies.
type paths struct {
	root      string // data: rootData
	forever   string // parent of the persistent entries; its data version orders claims
	temporary string // parent of the ephemeral nodes of the live set
	high      string // parent of the folders of the tags' high marks; data: highRoot
}

// newPaths returns the paths under root; forever is empty for the usual place.
func newPaths(root, forever string) (paths, error) {
	root = cmp.Or(root, DefaultRoot)
	p := paths{root: root, forever: cmp.Or(forever, root+"/leaf_forever"), temporary: root + "/leaf_temporary", high: root + "/segment_high"}
	if err := cmp.Or(checkPath(p.root), checkPath(p.forever)); err != nil {
		return paths{}, err
	}
	if p.forever == p.root || strings.HasPrefix(p.forever+"/", p.temporary+"/") || strings.HasPrefix(p.forever+"/", p.high+"/") {
		return paths{}, fmt.Errorf("path %s of the entries: want one of its own, beside root %s", p.forever, p.root)
	}
	return p, nil
}

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
	return fmt.Sprintf("%s/%02x/%s", p.high, h.Sum32()%256, escapeNode(tag))
}

func (p paths) foreverOf(name entryName) string { return p.forever + "/" + name.raw }

// prefixOf is what ZooKeeper puts the sequence number behind.
func (p paths) prefixOf(node string) string { return p.forever + "/" + escapeNode(node) + "-" }

// escapeNode returns node as it stands in a path. Two nodes never have the same. The bytes of
// every ip:port, [IPv6]:port and host name stand for themselves, and what else does no harm.
func escapeNode(node string) string {
	if node == "." || node == ".." { // means something else in a path
		return "%2E" + node[1:]
	}
	var b strings.Builder
	for i := range len(node) {
		if c := node[i]; c > ' ' && c <= '~' && c != '/' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// unescapeNode undoes escapeNode. What it can't have come from is returned as it
// stands: another program's name is still a name.
func unescapeNode(escaped string) string {
	if node, err := url.PathUnescape(escaped); err == nil && escapeNode(node) == escaped {
		return node
	}
	return escaped
}

// checkNode says why node can't be an identity.
func checkNode(node string) error {
	takes := len(escapeNode(node))
	return cmp.Or(
		want(takes > 0, "node name is empty: want this host's name or ip:port, the same after every restart and no other host's"),
		want(takes <= maxName, "node name %.40q… takes %d bytes in a path: want at most %d", node, takes, maxName),
	)
}

// entryName is the name of an entry: a node and a worker ID.
type entryName struct {
	raw      string // as it stands in the tree
	node     string // escaped
	workerID int64  // 0..2147483647
}

// nameOf returns the name of node's entry with an explicit worker ID.
func nameOf(node string, workerID int64) entryName {
	escaped := escapeNode(node)
	return entryName{raw: fmt.Sprintf("%s-%010d", escaped, workerID), node: escaped, workerID: workerID}
}

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
	return entryName{raw: raw, node: raw[:dash], workerID: int64(number)}, true
}
