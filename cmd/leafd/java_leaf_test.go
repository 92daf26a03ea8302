package main

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
)

// endpoint is the payload of a Java Leaf's node, all of it.
type endpoint struct {
	IP        string       `json:"ip"`
	Port      string       `json:"port"`
	Timestamp clock.Millis `json:"timestamp"`
}

// javaEntry is what a Java Leaf at address writes.
func javaEntry(t *testing.T, address string, at clock.Millis) string {
	t.Helper()
	ip, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return jsonText(t, endpoint{ip, port, at})
}

// javaTree makes the tree of a Java Leaf cluster with these addresses, as it comes to
// be: sequential nodes, one after the other.
func (o *onlooker) javaTree(leafName string, addresses ...string) {
	o.t.Helper()
	o.forever = "/snowflake/" + leafName + "/forever"
	_, _ = o.make("/snowflake", "", 0) // another test's, perhaps: then it is there
	o.create("/snowflake/"+leafName, "", 0)
	o.create(o.forever, "", 0)
	for _, address := range addresses {
		o.create(o.forever+"/"+address+"-", javaEntry(o.t, address, clock.MillisOf(time.Now()).Add(-time.Second)), persistentSequential)
	}
}
