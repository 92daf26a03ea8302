package mariadbtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// galeraLibrary is where Debian's package galera-4 has it.
const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// transfer stands in for the scripts that bring a node its first state, which the package of MariaDB's programs alone
// has not: the second node begins on a copy of the first one's directory, and lacks nothing but how far that has come.
const transfer = `#!/bin/sh
role= address= gtid=
while [ $# -gt 0 ]; do
  case "$1" in --role) role=$2 ;; --address) address=$2 ;; --gtid) gtid=$2 ;; esac
  shift
done
if [ "$role" = donor ]; then
  echo continue
  echo "$gtid" >"$GALERA_STATE.new"
  mv "$GALERA_STATE.new" "$GALERA_STATE"
  echo "done $gtid"
  exit
fi
rm -f "$GALERA_STATE"
echo "ready $address"
while [ ! -e "$GALERA_STATE" ]; do sleep 0.05; done
cat "$GALERA_STATE"
`

// StartGalera returns the two nodes of a Galera cluster of MariaDB, which run for this test alone.
func StartGalera(t testing.TB) (nodes [2]*Server) {
	t.Helper()
	proctest.SkipInShort(t)
	if _, err := os.Stat(galeraLibrary); err != nil {
		t.Fatalf("mariadbtest: %v: run scripts/deps.sh long, or install Galera 4", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "wsrep_sst_stub"), []byte(transfer), 0o755); err != nil {
		t.Fatal(err)
	}
	var addresses [2]string
	for i := range nodes {
		nodes[i] = Start(t)
		nodes[i].Stop(t)
		addresses[i] = freePair(t)
		_, port, _ := net.SplitHostPort(addresses[i])
		nodes[i].env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "GALERA_STATE=" + filepath.Join(dir, "state")}
		nodes[i].more = []string{
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--default-storage-engine=InnoDB", "--wsrep-on=ON", "--wsrep-provider=" + galeraLibrary,
			"--wsrep-node-address=" + addresses[i], "--wsrep-sst-receive-address=" + addresses[i], "--wsrep-sst-method=stub",
			"--wsrep-provider-options=base_port=" + port + ";gcache.size=8M", "--wsrep-cluster-address=gcomm://" + addresses[0],
		}
	}
	first := nodes[0].more
	nodes[0].more = append(first, "--wsrep-new-cluster")
	nodes[0].Restart(t) // has a state then, of which the second one has a copy
	nodes[0].Stop(t)
	if err := os.RemoveAll(nodes[1].data()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(nodes[1].data(), os.DirFS(nodes[0].data())); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		node.Restart(t)
		deadline := time.Now().Add(proctest.Patience)
		for state := ""; state != "Synced"; time.Sleep(50 * time.Millisecond) {
			_ = node.root.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_local_state_comment'").Scan(new(string), &state)
			if time.Now().After(deadline) {
				t.Fatalf("mariadbtest: the node is %q", state)
			}
		}
	}
	return nodes
}

// freePair returns an address whose port is free, and the next one.
func freePair(t testing.TB) string {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := ln.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		_ = ln.Close()
		if err == nil {
			_ = next.Close()
			return ln.Addr().String()
		}
	}
}
