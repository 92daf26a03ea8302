// Command fair measures what clients see of a leafd beside others that take as much of it as
// they can: how many of their requests are served, and p50 and p99 of these, alone and beside each crowd.
// `make bench-fair` builds the daemon and runs it; docs/evidence/figures.txt has what came of it.
//
// All of it stays on 127.0.0.0/8, for -seconds a row. The daemon and each crowd are processes
// of their own.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	// Addresses: the crowd's, where it has one; many have 127.1.0.0 and on.
	crowdAddress    = "127.0.0.2"
	innocentAddress = "127.0.0.9"
	unknownHTTP     = "GET /api/segment/get/nosuchtag HTTP/1.1\r\nHost: x\r\n\r\n"
	unknownRedis    = "*2\r\n$4\r\nINCR\r\n$9\r\nnosuchtag\r\n"
	largeHTTP       = "GET /api/snowflake/get/x?n=10000 HTTP/1.1\r\nHost: x\r\n\r\n"
	oneHTTP         = "GET /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\n\r\n"
)

// The ports of the daemon.
const (
	portHTTP = iota
	portRedis
	portTLS // HTTP with TLS
)

// row is a crowd, and what innocents do beside it.
type row struct {
	name      string
	port      int
	conns     int
	addresses int  // of the crowd; 0: one
	own       bool // the crowd has the innocents' address
	places    int  // of the daemon; 0: 1,000
	do        func(c *connection) error

	asks string // path of the innocents' requests; "": one snowflake ID
	kept bool   // they keep their connections
}

func rows() []row {
	const batch, ranges = "/api/snowflake/get/x?n=1000", "/api/snowflake/get/x?n=100"
	return []row{
		{name: "400 that ask one at a time for an unknown tag", conns: 400, do: again(unknownHTTP, 1), kept: true},
		{name: "400 with 150 requests in flight each", conns: 400, do: again(unknownHTTP, 150), kept: true},
		{name: "Redis, 400 with 512 commands in flight each", port: portRedis, conns: 400, do: again(unknownRedis, 512), kept: true},
		{name: "1,000 idle connections of 1,000", conns: 1000, do: idle},
		{name: "bodies of 64,000 of 65,536 bytes on 900 connections", conns: 900, do: halfABody},
		{name: "half requests, 150 on 136 places", conns: 150, places: 136, do: halves},
		{name: "half requests, 1,100 on 1,000 places", conns: 1100, do: halves},
		{name: "half requests, 4,000 addresses on 2,000 places", conns: 4000, addresses: 4000, places: 2000, do: halves},
		{name: "half requests from the innocents' address, new", conns: 150, own: true, places: 136, do: halves},
		{name: "half requests from the innocents' address, kept", conns: 150, own: true, places: 136, do: halves, kept: true},
		{name: "slow readers, 150 on 136 places", conns: 150, places: 136, do: slowly},
		{name: "1,200 that ask n=10000 and never read", conns: 1200, places: 4000, do: unread, asks: batch},
		{name: "250 that ask n=10000", conns: 250, do: again(largeHTTP, 1), asks: ranges},
		{name: "1,000 on /openapi.json", conns: 1000, places: 2000, do: again("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 1), asks: "/metrics"},
		{name: "TLS, 100 that ask for handshakes and go", port: portTLS, conns: 100, do: handshake},
		{name: "TLS, a recorded hello, 500 a second", port: portTLS, conns: 50, do: replayed(500 / 50)},
		{name: "TLS, a recorded hello, 1,500 a second", port: portTLS, conns: 150, do: replayed(1500 / 150)},
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fair:", err)
		os.Exit(1) //nolint:forbidigo // a program of its own: it ends itself
	}
}

func run() error {
	program := flag.String("leafd", "bin/leafd", "the daemon's `program`")
	seconds := flag.Int("seconds", 10, "how long each crowd is looked at")
	only := flag.String("only", "", "the crowds with this in their name")
	as := flag.Int("as", -1, "be crowd number `n`, at the address that follows")
	flag.Parse()
	all := rows()
	if *as >= 0 && *as < len(all) && flag.NArg() == 1 {
		return all[*as].be(flag.Arg(0), time.Duration(*seconds)*time.Second)
	}
	fmt.Fprintf(os.Stdout, "%-56s %9s %9s  %9s %9s %9s %12s %8s\n", "beside", "alone p50", "p99", "p50", "p99", "max", "served", "health") //nolint:errcheck // a lost line is seen
	for i, r := range all {
		if strings.Contains(r.name, *only) {
			if err := r.measure(*program, i, *seconds); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	return nil
}
