// Command fair measures what clients see of a leafd beside others that take as much of it as
// they can: p50 and p99 of their requests, and how many were refused. `make bench-fair` builds
// the daemon and runs it; docs/evidence/figures.txt has what came of it.
//
// All of it stays on 127.0.0.0/8, for -seconds a row. The daemon and each crowd are processes
// of their own.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/proctest"
)

const (
	unknownHTTP  = "GET /api/segment/get/nosuchtag HTTP/1.1\r\nHost: x\r\n\r\n"
	unknownRedis = "*2\r\n$4\r\nINCR\r\n$9\r\nnosuchtag\r\n"
	// Addresses of crowds; the innocents have 127.0.0.1.
	crowdAddress = "127.0.0.2"
)

// crowd is what others do.
type crowd struct {
	name    string
	port    int // 0: HTTP; 1: Redis; 2: the HTTP of the daemon with TLS
	conns   int
	request string
	deep    int  // requests that each sends at once, and then reads the answers of; 0: none
	again   bool // connects again for each
	hello   bool // asks for a handshake, and goes
}

func crowds() []crowd {
	return []crowd{
		{name: "none"},
		{name: "HTTP, 400 that ask one at a time for an unknown tag", conns: 400, request: unknownHTTP, deep: 1},
		{name: "HTTP, the same 400, 150 deep", conns: 400, request: unknownHTTP, deep: 150},
		{name: "Redis, 400 that ask one at a time for an unknown tag", port: 1, conns: 400, request: unknownRedis, deep: 1},
		{name: "Redis, the same 400, 512 deep", port: 1, conns: 400, request: unknownRedis, deep: 512},
		{name: "1,000 idle connections of 1,000", conns: 1000},
		{name: "100 that connect again and again, and ask once", conns: 100, request: unknownHTTP, deep: 1, again: true},
		{name: "bodies of 64,000 of 65,536 bytes on 900 connections", conns: 900, deep: 1, request: "POST /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 64_000)},
		{name: "none, TLS", port: 2},
		{name: "100 that ask for TLS handshakes and go", port: 2, conns: 100, again: true, hello: true},
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
	seconds := flag.Int("seconds", 5, "how long each crowd is there")
	only := flag.String("only", "", "the crowds with this in their name")
	as := flag.Int("as", -1, "be crowd number `n`, at the address that follows")
	flag.Parse()
	all := crowds()
	if *as >= 0 && *as < len(all) && flag.NArg() == 1 {
		return all[*as].be(flag.Arg(0), time.Duration(*seconds)*time.Second)
	}
	fmt.Fprintf(os.Stdout, "%-58s %9s %9s %9s %9s %8s\n", "beside", "p50", "p99", "max", "answered", "refused") //nolint:errcheck // a lost line is seen
	for i, c := range all {
		if strings.Contains(c.name, *only) {
			if err := beside(*program, i, c, *seconds); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

// beside prints what innocents see beside a crowd.
func beside(program string, number int, c crowd, seconds int) (err error) {
	dir, err := os.MkdirTemp("", "fair")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	address, err := proctest.FreeAddress()
	if err != nil {
		return err
	}
	redis, err := proctest.FreeAddress()
	if err != nil {
		return err
	}
	const few = `ulimit -n 1384 && exec "$0" "$@"` // leafd keeps 384 for itself: 1,000 connections
	args := []string{"sh", "-c", few, program, "serve", "--listen", address, "--listen-redis", redis, "--data-dir", filepath.Join(dir, "data")}
	url, secure := "http://"+address, (*tls.Config)(nil)
	if c.port == 2 {
		cert, key, err := certificate(dir)
		if err != nil {
			return err
		}
		args = append(args, "--tls-cert", cert, "--tls-key", key)
		url, secure = "https://"+address, &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it signed itself
	}
	d, err := proctest.StartDaemon(proctest.Config{Command: args, Address: address})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop(proctest.Patience)) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !strings.Contains(d.Log(), "issuing snowflake IDs") && ctx.Err() == nil && !d.Ended() {
		time.Sleep(10 * time.Millisecond)
	}
	if err := d.AwaitListening(ctx); err != nil {
		return err
	}
	if c.conns > 0 {
		target := address
		if c.port == 1 {
			target = redis
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(context.Background(), self, "-as", strconv.Itoa(number), "-seconds", strconv.Itoa(seconds+2), target)
		cmd.Stderr = os.Stderr
		p, err := proctest.Start(cmd)
		if err != nil {
			return err
		}
		defer func() { <-p.Done() }()
		time.Sleep(time.Second) // it is there
	}
	r, err := loadtest.Run(context.Background(), loadtest.Config{
		URLs: []string{url}, Mode: loadtest.Snowflake, Keys: []string{"x"}, Batch: 1, Rate: 200, Clients: 20,
		Duration: time.Duration(seconds) * time.Second, Timeout: 10 * time.Second, TLS: secure,
	})
	if err != nil {
		return err
	}
	refused := int64(0)
	for _, f := range r.Failures {
		refused += f.Count
	}
	fmt.Fprintf(os.Stdout, "%-58s %9s %9s %9s %9d %8d\n", c.name, r.Latency.P50.Round(10*time.Microsecond), r.Latency.P99.Round(10*time.Microsecond), r.Latency.Max.Round(10*time.Microsecond), r.Latency.Count, refused) //nolint:errcheck // a lost line is seen
	return nil
}

// certificate writes a certificate of RSA, as most have, and its key.
func certificate(dir string) (cert, key string, err error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return cert, key, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// be is the crowd, for so long.
func (c crowd) be(address string, during time.Duration) error {
	end := time.Now().Add(during)
	var all sync.WaitGroup
	for range c.conns {
		all.Go(func() {
			for time.Now().Before(end) {
				if err := c.one(address, end); err != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// one is a connection of the crowd.
func (c crowd) one(address string, end time.Time) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(crowdAddress)}, Deadline: end}
	nc, err := d.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer nc.Close() //nolint:errcheck // a crowd's
	if err := nc.SetDeadline(end); err != nil {
		return err
	}
	if c.hello {
		return tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(context.Background()) //nolint:gosec // a crowd's
	}
	in := bufio.NewReaderSize(nc, 64<<10)
	ends := 1 // lines of an answer
	if c.port != 1 {
		ends = 7
	}
	for {
		if _, err := io.WriteString(nc, strings.Repeat(c.request, max(c.deep, 1))); err != nil {
			return err
		}
		for range ends * c.deep {
			if _, err := in.ReadSlice('\n'); err != nil {
				return err
			}
		}
		if c.deep == 0 {
			_, err := in.ReadByte()
			return err
		}
		if c.again {
			return nil
		}
	}
}
