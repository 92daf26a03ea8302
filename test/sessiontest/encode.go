package sessiontest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Node is a node as Encode writes it, for its caller to change.
type Node struct {
	Data []byte // to be replaced, not changed
	// Stat has the number of its session for the owner of an ephemeral node; of an operation
	// of a late write, it has the version asked for and the number of its session.
	Stat zk.Stat
	Made int32 // how many children were ever created: the next sequence number
}

// Ranks returns what numbers zxids for Encode, so that what differs in absolute zxids alone is
// the same: those up to now (the last write's) by their order, which is all that can matter of
// them. One beyond now, which a session knows from before a restored backup, can come again: it is
// told by its distance. zxids are all that may be asked for; another one panics.
func Ranks(now int64, zxids ...int64) func(zxid int64) int64 {
	sorted := slices.Clone(zxids)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	past, _ := slices.BinarySearch(sorted, now+1)
	return func(zxid int64) int64 {
		if zxid == 0 { // none
			return -1 << 62
		}
		at, found := slices.BinarySearch(sorted, zxid)
		switch {
		case !found:
			panic(fmt.Sprintf("zxid %d is not among those that are ranked", zxid))
		case at < past:
			return int64(at - past)
		default:
			return zxid - now
		}
	}
}

// Zxids returns those that Encode asks for.
func (m *Memory) Zxids() []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes.zxids()
}

// Zxids returns those that Encode asks for.
func (b *Backup) Zxids() []int64 { return b.nodes.zxids() }

func (t tree) zxids() []int64 {
	all := make([]int64, 0, 3*len(t))
	for _, n := range t {
		all = append(all, n.stat.Czxid, n.stat.Mzxid, n.stat.Pzxid)
	}
	return all
}

// Encode appends to dst the tree and the late writes, the same for the same after any history:
// paths in their order, with data, Stat and sequence number. normal, if not nil, may change what
// is written of a node, or of an operation of a late write, or leave it out (false): times to
// those relative to now, random IDs and session numbers to small numbers, counters that nothing
// rests on to 0. rank numbers the zxids: see Ranks.
//
// What a session has seen, its connection, its faults to come and its requests so far are the
// caller's to encode: see Sessions.
func (m *Memory) Encode(dst []byte, rank func(zxid int64) int64, normal func(path string, n *Node) bool) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := make(map[int64]int, len(m.sessions))
	for _, s := range m.sessions {
		owners[s.id] = s.number
	}
	dst = m.nodes.encode(dst, owners, rank, normal)
	for _, r := range m.late {
		dst = append(dst, 'L')
		for _, op := range r.ops {
			o := operationOf(op)
			o.Stat.EphemeralOwner = int64(r.Session)
			if normal == nil || normal(o.path, &o.Node) {
				dst = appendText(appendText(dst, o.name), o.path)
				dst = binary.AppendVarint(dst, int64(o.flag))
				dst = o.append(dst, func(zxid int64) int64 { return zxid })
			}
		}
	}
	return dst
}

// Encode is Memory's. The owners of ephemeral nodes are sessions' IDs here.
func (b *Backup) Encode(dst []byte, rank func(zxid int64) int64, normal func(path string, n *Node) bool) []byte {
	return b.nodes.encode(dst, nil, rank, normal)
}

// Walk shows every node, in the order of the paths, with the number of the session for its owner.
func (m *Memory) Walk(f func(path string, n Node)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := make(map[int64]int, len(m.sessions))
	for _, s := range m.sessions {
		owners[s.id] = s.number
	}
	m.nodes.encode(nil, owners, nil, func(p string, n *Node) bool { f(p, *n); return false })
}

// Walk is Memory's. The owners of ephemeral nodes are sessions' IDs here.
func (b *Backup) Walk(f func(path string, n Node)) {
	b.nodes.encode(nil, nil, nil, func(p string, n *Node) bool { f(p, *n); return false })
}

func (t tree) encode(dst []byte, owners map[int64]int, rank func(zxid int64) int64, normal func(path string, n *Node) bool) []byte {
	for _, p := range slices.Sorted(maps.Keys(t)) {
		n := Node{Data: t[p].data, Stat: t[p].stat, Made: t[p].made}
		if number, known := owners[n.Stat.EphemeralOwner]; known && n.Stat.EphemeralOwner != 0 {
			n.Stat.EphemeralOwner = int64(number)
		}
		if normal == nil || normal(p, &n) {
			dst = n.append(appendText(dst, p), rank)
		}
	}
	return dst
}

// append appends n to dst. What Stat says of data and children is in them.
func (n *Node) append(dst []byte, rank func(zxid int64) int64) []byte {
	dst = appendText(dst, string(n.Data))
	for _, v := range [...]int64{
		int64(n.Stat.Version), int64(n.Made), rank(n.Stat.Czxid), rank(n.Stat.Mzxid), rank(n.Stat.Pzxid),
		n.Stat.Ctime, n.Stat.Mtime, n.Stat.EphemeralOwner,
	} {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
