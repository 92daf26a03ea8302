package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// alarms connects to the webhook's server, and sends nothing. Of the URL, which may
// be a secret, it reports the scheme and the host alone.
func (p *Patient) alarms(ctx context.Context, r *report) {
	const check = "alarm-webhook"
	if p.Cfg.Alarm.Webhook == "" {
		return
	}
	target, err := url.Parse(p.Cfg.Alarm.Webhook)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Hostname() == "" {
		r.Fail(check, settings.AsUsage(errors.New("the webhook is not an http or https URL with a host")), "correct --alarm-webhook: a start fails with it")
		return
	}
	by := ""
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		r.Warn(check, "the environment's proxy can't be used", "correct HTTPS_PROXY, HTTP_PROXY or NO_PROXY")
		return
	}
	host := target
	if proxy != nil {
		host, by = proxy, fmt.Sprintf(" through the proxy %s", proxy.Host)
	}
	port := host.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[host.Scheme]
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host.Hostname(), port))
	if err != nil {
		r.Warn(check, fmt.Sprintf("%s://%s can't be reached%s: %v", target.Scheme, target.Host, by, err), "see the network and --alarm-webhook: alarms are lines of the log alone until then")
		return
	}
	_ = conn.Close() // nothing was said
	r.OK(check, "%s://%s takes connections%s", target.Scheme, target.Host, by)
}

// certificates checks when our own certificates are valid.
func (p *Patient) certificates(_ context.Context, r *report) {
	if files := p.Cfg.Listen.TLS; files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			r.Fail("tls-cert", err, "name a certificate with its key")
		} else {
			certificate(r, "tls-cert", files.Cert, pair, p.wall().Time())
		}
	}
	if p.Cfg.ZooKeeper.TLS != nil {
		for _, pair := range p.Cfg.ZooKeeper.TLS.Certificates {
			certificate(r, "zk-tls-cert", p.Values.Text("zk-tls-cert"), pair, p.wall().Time())
		}
	}
}
