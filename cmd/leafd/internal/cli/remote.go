package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/internal/plainfile"
)

// Bounds of a request to a daemon. The slowest answer waits for a segment, half a
// second unless set otherwise, or for the store; the largest holds a million IDs.
const (
	remoteTimeout  = 15 * time.Second
	dialTimeout    = 5 * time.Second
	maxRemoteBytes = 32 << 20
)

// remote says which daemon a command asks over HTTP, and how.
type remote struct {
	url        string // http://host:port, https://host:port or unix:/path
	ca         string // file; empty: the machine's
	cert, key  string // files; empty: no certificate
	adminToken string // file; empty: no token
}

// flags adds --url, whose default is url, and how to speak TLS there.
func (r *remote) flags(fs *pflag.FlagSet, url, usage string) {
	fs.StringVar(&r.url, "url", url, usage+", http://host:port, https://host:port or unix:/path")
	r.tlsFlags(fs)
}

// tlsFlags adds how to speak TLS.
func (r *remote) tlsFlags(fs *pflag.FlagSet) {
	fs.StringVar(&r.ca, "ca-file", "", "file with the certificates that sign the daemon's; empty: those of this machine")
	fs.StringVar(&r.cert, "cert-file", "", "file with our certificate, where the daemon wants one")
	fs.StringVar(&r.key, "key-file", "", "file with the key of cert-file")
}

// tokenFlag adds --admin-token-file.
func (r *remote) tokenFlag(fs *pflag.FlagSet) {
	fs.StringVar(&r.adminToken, "admin-token-file", "", "with --url: file with the daemon's admin token")
}

// remoteDaemon is a daemon that can be asked.
type remoteDaemon struct {
	base   string // of URLs
	named  string // as the user named it
	token  string
	client *http.Client
}

// open checks the flags. Nothing is connected to.
func (r *remote) open() (*remoteDaemon, error) {
	d := &remoteDaemon{base: strings.TrimSuffix(r.url, "/"), named: r.url}
	dialer := &net.Dialer{Timeout: dialTimeout}
	// No proxy from the environment: one that keeps answers would hand out IDs twice.
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	if path, ok := strings.CutPrefix(r.url, settings.UnixScheme); ok {
		if why := settings.CheckSocketPath(path); why != "" {
			return nil, settings.Usagef("--url is %q: %s", r.url, why)
		}
		d.base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
	} else {
		base, err := url.Parse(r.url)
		switch {
		case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "":
			return nil, settings.Usagef("--url is %q: want http://host:port, https://host:port or unix:/path", r.url)
		case base.User != nil:
			return nil, settings.Usagef("--url has a user and password: the daemon asks for none")
		}
	}
	var err error
	if transport.TLSClientConfig, err = r.tls(); err != nil {
		return nil, err
	}
	if transport.TLSClientConfig != nil && !strings.HasPrefix(d.base, "https://") {
		return nil, settings.Usagef("--ca-file, --cert-file and --key-file are for an --url with https://, and it is %q", r.url)
	}
	if r.adminToken != "" {
		if d.token, _, err = settings.ReadToken(r.adminToken); err != nil {
			return nil, settings.Usagef("--admin-token-file is %q: %w", r.adminToken, err)
		}
	}
	d.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return d, nil
}

// tls reads the files of TLS; nil when there are none.
func (r *remote) tls() (*tls.Config, error) {
	if r.ca == "" && r.cert == "" && r.key == "" {
		return nil, nil //nolint:nilnil // the defaults do
	}
	conf, err := plainfile.TLSFiles{CA: r.ca, Cert: r.cert, Key: r.key}.Config()
	if err != nil {
		return nil, settings.Usagef("--ca-file, --cert-file, --key-file: %w", err)
	}
	return conf, nil
}

// ask sends a request once: an answer that got lost may have taken IDs already, or
// changed something, which is for the user to know. target is a path and a query,
// send the body as JSON, nil for none. It returns the body of a 2xx answer.
func (d *remoteDaemon) ask(ctx context.Context, method, target string, send any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	var body io.Reader
	if send != nil {
		text, err := json.Marshal(send)
		if err != nil {
			return nil, fmt.Errorf("encoding the request: %w", err)
		}
		body = strings.NewReader(string(text))
	}
	request, err := http.NewRequestWithContext(ctx, method, d.base+target, body)
	if err != nil {
		return nil, settings.Usagef("--url: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	if send != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if d.token != "" {
		request.Header.Set("Authorization", "Bearer "+d.token)
	}
	defer d.client.CloseIdleConnections()
	response, err := d.client.Do(request)
	if err != nil {
		return nil, d.unreachable(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxRemoteBytes))
	if err != nil {
		return nil, fmt.Errorf("the daemon's answer broke off: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, refused(response.Status, text)
	}
	return text, nil
}

// unreachable says what to do about a daemon that can't be reached.
func (d *remoteDaemon) unreachable(err error) error {
	var urlErr *url.Error
	if !errors.As(err, &urlErr) {
		return fmt.Errorf("no answer from the daemon: %w", err)
	}
	where := urlErr.URL
	if strings.HasPrefix(d.named, settings.UnixScheme) {
		where = d.named
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return fmt.Errorf("no answer from %s: %w; --ca-file names the certificates that sign the daemon's", where, urlErr.Err)
	}
	return fmt.Errorf("no answer from %s: %w; is leafd serve running there? --url names another", where, urlErr.Err)
}

// refusal is the daemon's answer when it doesn't do what it is asked.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func refused(status string, body []byte) error {
	var r refusal
	if err := json.Unmarshal(body, &r); err != nil || r.Code == "" {
		return fmt.Errorf("the server answered %s, and not as leafd does; check --url", status)
	}
	return fmt.Errorf("the daemon refused (HTTP %s): %s: %s", status, oneLine(r.Code), oneLine(r.Message))
}
