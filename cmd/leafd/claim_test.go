package main

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// Sixteen daemons meet a new root at once: each has a worker ID of its own, and again after
// a restart of all, half of them by a power cut.
func TestSixteenFirstStartsAtOnce(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	const n = 16
	var machines []*machine
	for range n {
		machines = append(machines, c.machine(tune("ReportInterval", "1s"), tune("CeilingLead", "5s")))
	}
	workerIDs := map[string]int64{} // by node
	var all []int64
	for life := range 2 {
		var daemons []*child
		for _, m := range machines {
			daemons = append(daemons, m.start())
		}
		var loads []*load
		for _, l := range daemons {
			l.awaitStatus("/readyz", http.StatusOK)
			loads = append(loads, newLoad(l, "/api/snowflake/get/a?n=400"))
		}
		for _, ld := range loads {
			ld.flows(t, 2000)
		}
		for _, ld := range loads {
			all = append(all, ld.unharmed(t)...)
		}
		taken := map[int64]bool{}
		for _, l := range daemons {
			info := l.info()
			require.Equal(t, l.addr, info.Node)
			taken[info.ID] = true
			if life == 0 {
				workerIDs[info.Node] = info.ID
				require.False(t, l.hasLogged("is not used for"), "there is no daemon to wait for")
			}
			require.Equal(t, workerIDs[info.Node], info.ID, "another worker ID after the restart")
		}
		require.Len(t, taken, n)
		for id := range taken {
			require.Less(t, id, int64(n))
		}
		require.Len(t, o.entries(), n)
		for i, l := range daemons {
			if i%2 == 0 {
				l.kill()
				continue
			}
			require.Equal(t, cli.ExitOK, l.stop())
		}
	}
	requireDistinct(t, all)
}

// A node's name is a label for people, of any characters, and stands in no path. Peers ask
// the address in the name of the temporary node.
func TestNodeNames(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	o := c.watch()
	six := c.machine()
	six.addr = loopback6(t)
	var notHere []string
	if six.addr == "" { // no IPv6 on this machine: it can be advertised all the same
		six.addr = freeAddress(t)
		_, port, err := net.SplitHostPort(six.addr)
		require.NoError(t, err)
		notHere = []string{"--advertise", net.JoinHostPort("::1", port)}
	}
	four := c.machine()
	for id, tc := range []struct {
		m    *machine
		args []string
		node string
	}{
		{four, nil, four.addr},
		{six, notHere, "[::1]" + six.addr[strings.LastIndex(six.addr, ":"):]},
		{c.machine(), []string{"--node", "ids-1.example.org"}, "ids-1.example.org"},
		{c.machine(), []string{"--node", "100%-0000000000"}, "100%-0000000000"},
		{c.machine(), []string{"--node", "100%-0000000000"}, "100%-0000000000"},
	} {
		before := o.entries()
		l := tc.m.ready(tc.args...)
		info := l.info()
		require.EqualValues(t, id, info.ID)
		require.Equal(t, tc.node, info.Node)
		require.ElementsMatch(t, append(before, entryName(info.ID)), o.entries())
		payload := o.must(o.path(info.ID)).payload(t)
		require.Equal(t, info.Address, net.JoinHostPort(payload.IP, payload.Port))
		require.Equal(t, tc.node, payload.Node)
		require.Equal(t, info.Instance, payload.Instance)
		require.EqualValues(t, 1, payload.Life)
		require.Equal(t, []string{info.Address + "~" + info.Instance}, o.names(o.temporary))
		require.Contains(t, c.onMachine(tc.m, "worker", "list").OK(t), tc.node)
		require.Equal(t, cli.ExitOK, l.stop())
		require.Empty(t, o.live())

		l = tc.m.ready(append(tc.args, "--node", "renamed")...)
		require.Equal(t, info.ID, l.info().ID)
		payload = o.must(o.path(info.ID)).payload(t)
		require.Equal(t, "renamed", payload.Node)
		require.EqualValues(t, 2, payload.Life)
		require.Equal(t, cli.ExitOK, l.stop())
	}
	require.Len(t, o.entries(), 5)
}

// loopback6 returns a free address of ::1; empty on a machine that has none.
func loopback6(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return ""
	}
	defer ln.Close()
	return ln.Addr().String()
}
