// Command rawload loads a server of HTTP or of Redis' protocol from one CPU: the same bytes again
// and again over each of some connections, a pipeline of them at a time. Of the answers nothing is
// looked at but where they end, and that they are no errors. It prints its figures as JSON.
//
// A client with a goroutine for each connection, as redis-benchmark, needs more CPU for an ID than
// leafd does: leafd waits for it then, and needs half as much CPU again for each request.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	var cfg config
	ask := flag.String("ask", "", "a `path` of HTTP, or a command of Redis")
	flag.StringVar(&cfg.addr, "addr", "", "`address` of the server")
	flag.IntVar(&cfg.depth, "depth", 1, "requests in one write")
	flag.IntVar(&cfg.conns, "conns", 64, "connections")
	flag.DurationVar(&cfg.during, "for", time.Second, "length of the load")
	flag.Parse()
	if strings.HasPrefix(*ask, "/") {
		cfg.request = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", *ask, cfg.addr)
	} else {
		// As clients send it: an array of strings.
		words := strings.Fields(*ask)
		cfg.request = fmt.Appendf(nil, "*%d\r\n", len(words))
		for _, word := range words {
			cfg.request = fmt.Appendf(cfg.request, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	r, err := load(context.Background(), cfg)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
