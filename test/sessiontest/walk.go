package sessiontest

import (
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Node is a node as Walk shows it.
type Node struct {
	Data []byte
	// Stat has the number of its session for the owner of an ephemeral node; of an operation
	// of a late write, it has the version asked for.
	Stat zk.Stat
	Made int32 // how many children were ever created: the next sequence number
}

// Walk shows every node, in the order of the paths, with the number of the session for its owner.
func (m *Memory) Walk(f func(path string, n Node)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := make(map[int64]int, len(m.sessions))
	for _, s := range m.sessions {
		owners[s.id] = s.number
	}
	m.nodes.walk(owners, f)
}

// Walk is Memory's. The owners of ephemeral nodes are sessions' IDs here.
func (b *Backup) Walk(f func(path string, n Node)) { b.nodes.walk(nil, f) }

func (t tree) walk(owners map[int64]int, f func(path string, n Node)) {
	for _, p := range slices.Sorted(maps.Keys(t)) {
		n := Node{Data: t[p].data, Stat: t[p].stat, Made: t[p].made}
		if number, known := owners[n.Stat.EphemeralOwner]; known && n.Stat.EphemeralOwner != 0 {
			n.Stat.EphemeralOwner = int64(number)
		}
		f(p, n)
	}
}
