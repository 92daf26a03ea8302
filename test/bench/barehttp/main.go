// Command barehttp is the yardstick of leafd's HTTP figures: a fasthttp server
// that answers every request with the same 19 bytes, as many as an ID has, under the
// headers of leafd's answer (Date, Content-Type, Content-Length, Cache-Control), and
// does nothing else. It has no time-outs and every other setting is fasthttp's
// default. GOMAXPROCS is taken from the environment, as any Go program does.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/valyala/fasthttp"
)

const body = "1234567890123456789"

func main() {
	addr := flag.String("addr", "127.0.0.1:8081", "`address` to listen on")
	flag.Parse()
	name, value := []byte(fasthttp.HeaderCacheControl), []byte("no-store")
	server := fasthttp.Server{
		NoDefaultServerHeader: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.Response.Header.SetCanonical(name, value)
			ctx.SetBodyString(body)
		},
	}
	if err := server.ListenAndServe(*addr); err != nil {
		fmt.Fprintf(os.Stderr, "barehttp: %v\n", err)
		os.Exit(1)
	}
}
