// Command rawload loads a server of HTTP or of Redis' protocol and prints its
// figures as a line of JSON, as leafbench reads them from wrk. It is a program of
// its own so that it can have a CPU of its own.
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
	protocol := flag.String("protocol", "http", "http or redis")
	path := flag.String("path", "/", "path of HTTP, command of Redis")
	flag.StringVar(&cfg.Addr, "addr", "", "`address` of the server")
	flag.IntVar(&cfg.Depth, "depth", 1, "requests in one write")
	flag.IntVar(&cfg.Conns, "conns", 64, "connections")
	flag.DurationVar(&cfg.For, "for", time.Second, "length of the load")
	flag.Parse()
	switch *protocol {
	case "http":
		cfg.Frame = raw.HTTP
		cfg.Request = []byte("GET " + *path + " HTTP/1.1\r\nHost: " + cfg.Addr + "\r\n\r\n")
	case "redis":
		// As clients send it: an array of strings.
		cfg.Frame = raw.Redis
		words := strings.Fields(*path)
		cfg.Request = fmt.Appendf(nil, "*%d\r\n", len(words))
		for _, word := range words {
			cfg.Request = fmt.Appendf(cfg.Request, "$%d\r\n%s\r\n", len(word), word)
		}
	default:
		fmt.Fprintf(os.Stderr, "rawload: protocol %q: want http or redis\n", *protocol)
		os.Exit(2)
	}
	r, err := raw.Load(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("leafbench {\"requests\":%d,\"micros\":%d,\"p50\":%d,\"p99\":%d}\n", r.Requests, r.Elapsed.Microseconds(), r.P50.Microseconds(), r.P99.Microseconds())
}
