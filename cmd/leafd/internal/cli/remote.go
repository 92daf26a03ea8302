package cli

import (
	"context"
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
// second unless set otherwise; the largest holds a million IDs.
const (
	remoteTimeout  = 15 * time.Second
	dialTimeout    = 5 * time.Second
	maxRemoteBytes = 32 << 20
)

// remote says which daemon a command asks over HTTP, and how.
type remote struct {
	url       string // http://host:port, https://host:port or unix:/path
	ca        string // file; empty: the machine's
	cert, key string // files; empty: no certificate
	token     string // file; empty: none
}

// flags adds --url, and how to speak TLS there.
func (r *remote) flags(fs *pflag.FlagSet) {
	fs.StringVar(&r.url, "url", "", "where the daemon serves HTTP, http://host:port, https://host:port or unix:/path (default: at the settings' listen)")
	fs.StringVar(&r.ca, "ca-file", "", "file with the certificates that sign the daemon's; empty: those of this machine")
	fs.StringVar(&r.cert, "cert-file", "", "file with our certificate, where the daemon wants one")
	fs.StringVar(&r.key, "key-file", "", "file with the key of cert-file")
	fs.StringVar(&r.token, "token-file", "", "file with our token, where the daemon has a tokens-file")
}

// client checks the flags, and returns the base of URLs with what asks there.
func (r *remote) client() (base string, client *http.Client, err error) {
	base = strings.TrimSuffix(r.url, "/")
	dialer := &net.Dialer{Timeout: dialTimeout}
	// No proxy from the environment: one that keeps answers would hand out IDs twice.
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	path, unix := strings.CutPrefix(r.url, settings.UnixScheme)
	switch parsed, err := url.Parse(r.url); {
	case unix:
		if err := settings.CheckSocketPath(path); err != nil {
			return "", nil, settings.Usagef("--url is %q: %w", r.url, err)
		}
		base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
	case err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return "", nil, settings.Usagef("--url is %q: want http://host:port, https://host:port or unix:/path", r.url)
	case parsed.User != nil:
		return "", nil, settings.Usagef("--url has a user and password: the daemon asks for none")
	}
	if r.ca != "" || r.cert != "" || r.key != "" {
		if !strings.HasPrefix(base, "https://") {
			return "", nil, settings.Usagef("--ca-file, --cert-file and --key-file are for an --url with https://, and it is %q", r.url)
		}
		if transport.TLSClientConfig, err = (plainfile.TLSFiles{CA: r.ca, Cert: r.cert, Key: r.key}).Config(); err != nil {
			return "", nil, settings.Usagef("--ca-file, --cert-file, --key-file: %w", err)
		}
	}
	return base, &http.Client{
		Timeout:       remoteTimeout,
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// get asks once: an answer that got lost may have taken IDs already, which is for the user to
// know. target is a path and a query. It returns the body of a 2xx answer.
func (r *remote) get(ctx context.Context, target string) ([]byte, error) {
	token := ""
	if r.token != "" {
		var err error
		if token, err = settings.ReadToken(r.token); err != nil {
			return nil, settings.Usagef("--token-file %s: %w", r.token, err)
		}
	}
	return r.ask(ctx, target, token)
}

// ask is get with the bearer of token, if any. With the error of an answer that is not 2xx it returns
// the body.
func (r *remote) ask(ctx context.Context, target, token string) ([]byte, error) {
	base, client, err := r.client()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+target, nil)
	if err != nil {
		return nil, settings.Usagef("--url: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, r.unreachable(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxRemoteBytes))
	if err != nil {
		return nil, fmt.Errorf("the daemon's answer broke off: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		err = refused(response.Status, text)
	}
	return text, err
}

// unreachable says what to do about a daemon that can't be reached.
func (r *remote) unreachable(err error) error {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return fmt.Errorf("no answer from %s: %w; --ca-file names the certificates that sign the daemon's", r.url, err)
	}
	return fmt.Errorf("no answer from %s: %w; is leafd serve running there? --url names another", r.url, err)
}

func refused(status string, body []byte) error {
	var r struct{ Code, Message string }
	if err := json.Unmarshal(body, &r); err != nil || r.Code == "" {
		return fmt.Errorf("the server answered %s, and not as leafd does; check --url", status)
	}
	return fmt.Errorf("the daemon refused (HTTP %s): %s: %s", status, oneLine(r.Code), oneLine(r.Message))
}
