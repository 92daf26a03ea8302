package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"

	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
)

// alarms looks whether alarms would arrive. None is sent.
func (p *patient) alarms(ctx context.Context, r *doctor.Report) {
	if p.cfg.AlarmExec != "" {
		if path, err := exec.LookPath(p.cfg.AlarmExec); err != nil {
			r.Fail("alarm-exec", asUsage(fmt.Errorf("the program can't be run: %w", err)), "name an executable file with --alarm-exec: a start fails without")
		} else {
			r.OK("alarm-exec", "%s can be run", path)
		}
	}
	if p.cfg.AlarmWebhook != "" {
		p.webhook(ctx, r)
	}
}

// webhook connects to where the webhook is, and says nothing there. Of its URL, which
// may be a secret, scheme and host alone are told.
func (p *patient) webhook(ctx context.Context, r *doctor.Report) {
	const check = "alarm-webhook"
	target, err := url.Parse(p.cfg.AlarmWebhook)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Hostname() == "" {
		r.Fail(check, asUsage(errors.New("the webhook is not an http or https URL with a host")), "correct --alarm-webhook: a start fails with it")
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

// certificates looks at our own ones. Whether they can be read is for the settings.
func (p *patient) certificates(_ context.Context, r *doctor.Report) {
	if files := p.cfg.TLS; files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			r.Fail("tls-cert", err, "name a certificate with its key")
		} else {
			doctor.Certificate(r, "tls-cert", files.Cert, pair, p.app.wall().Time())
		}
	}
	if p.cfg.ZKTLS != nil {
		for _, pair := range p.cfg.ZKTLS.Certificates {
			doctor.Certificate(r, "zk-tls-cert", p.values.text("zk-tls-cert"), pair, p.app.wall().Time())
		}
	}
}
