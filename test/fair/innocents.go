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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
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
	if r.port >= portTLS {
		files, conf, err := certificate(dir)
		if err != nil {
			return err
		}
		args = append(args, "--tls-cert", files.cert, "--tls-key", files.key)
		if r.port == portMutual {
			args = append(args, "--tls-client-ca", files.cert)
		}
		url, secure = "https://"+address, conf
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
	if r.tags {
		table, err := sqlstore.OpenSQLite(filepath.Join(dir, "data", "segments.db"))
		if err != nil {
			return err
		}
		defer table.Close() //nolint:errcheck // the daemon's
		ask = sqlAsker(table, url)
	}
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

// sqlAsker returns what makes a tag in the table, beside the daemon, and asks for it until it is there.
func sqlAsker(table *sqlstore.Store, url string) func(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(innocentAddress)}}).DialContext}}
	var mu sync.Mutex
	made := 0
	return func(ctx context.Context) error {
		mu.Lock()
		made++
		tag := fmt.Sprintf("made-%d", made)
		err := table.Create(ctx, segment.Row{Tag: tag, MaxID: 1, Step: 1000}, nil)
		mu.Unlock()
		for err == nil {
			var status int
			if status, err = get(ctx, client, url+"/api/segment/get/"+tag); status == http.StatusOK {
				return nil
			}
			time.Sleep(50 * time.Millisecond)
		}
		return err
	}
}

type files struct{ cert, key string }

// certificate writes a certificate of RSA, as most have, which also signs itself as a client's, and its key.
func certificate(dir string) (f files, client *tls.Config, err error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return f, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "leafd"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return f, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return f, nil, err
	}
	f = files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	client = &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: private}}} //nolint:gosec // it signed itself
	return f, client, errors.Join(
		os.WriteFile(f.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(f.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}
