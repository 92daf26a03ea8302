package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/proctest"
)

const (
	// patience is how long an innocent waits for an answer.
	patience = 5 * time.Second
	// innocents' requests a second, and those for health.
	rate, healthRate = 20, 4
)

// measure prints what innocents see alone, and beside a crowd.
func (r *row) measure(program string, number, seconds int) (err error) {
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
	places := r.places
	if places == 0 {
		places = 1000
	}
	limit := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, places+384) // leafd keeps 384 for itself
	args := []string{"sh", "-c", limit, program, "serve", "--listen", address, "--listen-redis", redis, "--data-dir", filepath.Join(dir, "data")}
	url, secure := "http://"+address, (*tls.Config)(nil)
	if r.port == portTLS {
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		if err := certificate(cert, key); err != nil {
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for !strings.Contains(d.Log(), "issuing snowflake IDs") && ctx.Err() == nil && !d.Ended() {
		time.Sleep(10 * time.Millisecond)
	}
	if err := d.AwaitListening(ctx); err != nil {
		return err
	}
	ask := r.asker(url, secure, r.kept)
	health := (&row{asks: "/readyz"}).asker(url, secure, false)
	alone, _, err := during(ctx, time.Duration(seconds)*time.Second/2, ask, health)
	if err != nil {
		return err
	}
	target := address
	if r.port == portRedis {
		target = redis
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), self, "-as", strconv.Itoa(number), "-seconds", strconv.Itoa(seconds+4), target)
	cmd.Stderr = os.Stderr
	p, err := proctest.Start(cmd)
	if err != nil {
		return err
	}
	defer func() { <-p.Done() }()
	time.Sleep(3 * time.Second) // it is there
	beside, healthy, err := during(ctx, time.Duration(seconds)*time.Second, ask, health)
	fmt.Fprintf(os.Stdout, "%-56s %9s %9s  %9s %9s %9s %5d of %3d %2d of %2d\n", //nolint:errcheck // a lost line is seen
		r.name, short(alone.Latency.P50), short(alone.Latency.P99), short(beside.Latency.P50), short(beside.Latency.P99), short(beside.Latency.Max),
		beside.Answered, beside.Due, healthy.Answered, healthy.Due)
	return err
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// during has innocents ask, at their rate whether they are answered or not.
func during(ctx context.Context, d time.Duration, ask, health func(ctx context.Context) error) (asked, healthy *loadtest.Result, err error) {
	load := func(into **loadtest.Result, rate float64, ask func(ctx context.Context) error) func() error {
		return func() (err error) {
			*into, err = loadtest.Run(ctx, loadtest.Config{Ask: ask, Rate: rate, Clients: int(2 * rate * patience.Seconds()), Duration: d, Timeout: patience})
			return err
		}
	}
	var both errgroup.Group
	both.Go(load(&asked, rate, ask))
	both.Go(load(&healthy, healthRate, health))
	err = both.Wait()
	return asked, healthy, err
}

// asker returns what asks once, over connections that are kept or not.
func (r *row) asker(url string, secure *tls.Config, kept bool) func(ctx context.Context) error {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(innocentAddress)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: secure, DisableKeepAlives: !kept, MaxIdleConnsPerHost: 100}}
	path := r.asks
	if path == "" {
		path = "/api/snowflake/get/x"
	}
	return func(ctx context.Context) error {
		status, err := get(ctx, client, url+path)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	}
}

func get(ctx context.Context, client *http.Client, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

// certificate writes a certificate of RSA, as most have, and its key.
func certificate(cert, key string) error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "leafd"}, NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	return errors.Join(err,
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}
