// Command rawload loads a server of Redis' protocol and prints its figures as a line of
// JSON, as leafbench reads them from wrk. It is a program of its own so that it can have
// a CPU of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/leafd/leafd/test/bench/internal/raw"
)

func main() {
	cfg := raw.Config{}
	command := flag.String("command", "", "the command to send")
	flag.StringVar(&cfg.Addr, "addr", "", "`address` of the server")
	flag.IntVar(&cfg.Depth, "depth", 1, "requests in one write")
	flag.IntVar(&cfg.Conns, "conns", 64, "connections")
	flag.DurationVar(&cfg.For, "for", time.Second, "length of the load")
	flag.Parse()
	// As clients send it: an array of strings.
	words := strings.Fields(*command)
	cfg.Request = fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		cfg.Request = fmt.Appendf(cfg.Request, "$%d\r\n%s\r\n", len(word), word)
	}
	r, err := raw.Load(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("leafbench {\"requests\":%d,\"micros\":%d,\"p50\":%d,\"p99\":%d}\n", r.Requests, r.Elapsed.Microseconds(), r.P50.Microseconds(), r.P99.Microseconds())
}
