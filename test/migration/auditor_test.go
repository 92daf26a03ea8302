//go:build migration

package migration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/zookeepertest"
)

// The history is what was done, step by step.
func TestHistory(t *testing.T) {
	logs := t.TempDir()
	server := zookeepertest.Start(t, "dataLogDir="+logs)
	conn := server.Conn(t)
	acl := zk.WorldACL(zk.PermAll)
	_, err := conn.Create("/a", []byte("one"), 0, acl)
	require.NoError(t, err)
	_, err = conn.Create("/a/b-", nil, zk.FlagSequence, acl)
	require.NoError(t, err)
	_, err = conn.Set("/a", []byte("two"), 0)
	require.NoError(t, err)
	_, err = conn.Multi(&zk.CheckVersionRequest{Path: "/a", Version: 1}, &zk.CreateRequest{Path: "/a/c", Data: []byte("c"), Acl: acl}, &zk.DeleteRequest{Path: "/a/c", Version: 0})
	require.NoError(t, err)
	_, err = conn.Multi(&zk.SetDataRequest{Path: "/a", Data: []byte("three"), Version: 2}, &zk.DeleteRequest{Path: "/a/none", Version: 0})
	require.Error(t, err)
	require.NoError(t, conn.Delete("/a/b-0000000000", 0))
	session := conn.SessionID()
	server.Stop(t)

	all, err := history(logs)
	require.NoError(t, err)
	var did [][]step
	for _, tx := range all {
		require.Equal(t, session, tx.session)
		require.WithinDuration(t, time.Now(), tx.at, time.Minute)
		if len(tx.steps) > 0 {
			did = append(did, tx.steps)
		}
	}
	require.Equal(t, [][]step{
		{{operation: opSession, timeout: 10 * time.Second}},
		{{operation: opCreate, path: "/a", data: "one"}},
		{{operation: opCreate, path: "/a/b-0000000000"}},
		{{operation: opSet, path: "/a", data: "two"}},
		{{operation: opCreate, path: "/a/c", data: "c"}, {operation: opDelete, path: "/a/c"}},
		{{operation: opDelete, path: "/a/b-0000000000"}},
	}, did)
}

// The auditor finds each of A1 to A5 broken, and nothing in a history that keeps them.
func TestAuditor(t *testing.T) {
	const forever, java, leafd, operator, java2 = "/f", 1, 2, 3, 4
	at := time.UnixMilli(1_000_000)
	set := func(operation int32, name, data string) step {
		return step{operation: operation, path: forever + "/" + name, data: data}
	}
	report := func(operation int32, name, port string, timestamp int64) step {
		return set(operation, name, fmt.Sprintf(`{"ip":"10.0.0.1","port":%q,"timestamp":%d}`, port, timestamp))
	}
	piece := func(operation int32, id int, instance, state string, floor, limit int64) step {
		return set(operation, fmt.Sprintf("worker-%010d", id), fmt.Sprintf(`{"ip":"10.0.0.1","port":"8080","timestamp":1,"floor":%d,"limit":%d,"instance":%q,"state":%q}`, floor, limit, instance, state))
	}
	const a, b = "10.0.0.1:1-0000000000", "10.0.0.1:2-0000000002"
	good := []transaction{
		{session: java, steps: []step{{operation: opSession, timeout: javaSession}}},
		{session: java2, steps: []step{{operation: opSession, timeout: javaSession}}},
		{session: leafd, steps: []step{{operation: opSession, timeout: leafdSession}}},
		{session: operator, steps: []step{{operation: opSession, timeout: leafdSession}}},
		{session: java, steps: []step{report(opCreate, a, "1", 5)}},
		{session: leafd, steps: []step{piece(opCreate, 1, "x", "active", 10, 20)}},
		{session: java, steps: []step{report(opSet, a, "1", 6)}},
		{session: leafd, steps: []step{piece(opSet, 1, "x", "released", 10, 15)}},
		{session: leafd, steps: []step{piece(opSet, 1, "y", "active", 15, 30)}},
		{session: leafd, steps: []step{set(opCreate, "moved", ""), set(opDelete, "moved", "")}},
		{session: leafd, steps: []step{piece(opCreate, 3, "z", "active", 10, 20)}},
		{session: operator, at: at, steps: []step{set(opDelete, a, ""), piece(opCreate, 0, "", "released", 0, 1_010_000)}},
	}
	tests := map[string]struct {
		more transaction
		want string
	}{
		"none":                          {want: ""},
		"leafd writes a Java Leaf's":    {transaction{session: leafd, steps: []step{report(opCreate, b, "2", 5)}}, "A1"},
		"a Java Leaf writes leafd's":    {transaction{session: java, steps: []step{piece(opSet, 1, "y", "active", 15, 30)}}, "A1"},
		"another's data":                {transaction{session: java, steps: []step{report(opSet, a, "2", 7)}}, "A1"},
		"a Java Leaf's entry goes":      {transaction{session: operator, steps: []step{set(opDelete, b, "")}}, "A2"},
		"and leafd's appears later":     {transaction{session: leafd, steps: []step{piece(opCreate, 2, "x", "active", 1, 2)}}, "A4"},
		"two paths of a worker ID":      {transaction{session: java2, steps: []step{report(opCreate, "10.0.0.1:2-0000000001", "2", 5)}}, "A3"},
		"a number that is not the next": {transaction{session: leafd, steps: []step{piece(opCreate, 9, "x", "active", 1, 2)}}, "A4"},
		"a holder's":                    {transaction{session: leafd, steps: []step{piece(opSet, 3, "x", "active", 20, 40)}}, "A4"},
		"0":                             {transaction{session: leafd, steps: []step{piece(opSet, 0, "x", "active", 1_010_000, 2_000_000)}}, "A4"},
		"before the limit":              {transaction{session: leafd, steps: []step{piece(opSet, 0, "x", "claiming", 1_009_999, 1_009_999)}}, "A5"},
		"leafd's entry goes":            {transaction{session: leafd, steps: []step{set(opDelete, "worker-0000000001", "")}}, "A5"},
	}
	for name, tc := range tests {
		audited := auditor{forever: forever, threshold: 5 * time.Second, released: map[int64]bool{0: true}}
		err := audited.audit(append(good[:len(good):len(good)], tc.more))
		if tc.want == "" {
			require.NoError(t, err, name)
			require.Equal(t, []int{2, 5, 4}, []int{audited.javaWrites, audited.leafdWrites, audited.takes})
			continue
		}
		require.ErrorContains(t, err, tc.want+":", name)
		require.Len(t, audited.wrong, 1, name)
	}

	// The release of a Java Leaf's worker ID, which no operator ordered, or in two transactions, or too low.
	for _, tc := range []struct {
		released map[int64]bool
		last     []transaction
	}{
		{nil, good[len(good)-1:]},
		{map[int64]bool{0: true}, []transaction{{session: operator, at: at, steps: good[len(good)-1].steps[:1]}, {session: operator, at: at, steps: good[len(good)-1].steps[1:]}}},
		{map[int64]bool{0: true}, []transaction{{session: operator, at: at, steps: []step{set(opDelete, a, ""), piece(opCreate, 0, "", "released", 0, 1_008_999)}}}},
	} {
		audited := auditor{forever: forever, threshold: 5 * time.Second, released: tc.released}
		require.ErrorContains(t, audited.audit(append(good[:len(good)-1:len(good)-1], tc.last...)), "A2:")
	}
}
