package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
)

// webhook connects to the webhook's server, or its proxy, and sends nothing. Of the URL, which may
// be a secret, it reports the scheme and the host alone.
func (p *Patient) webhook(ctx context.Context, r *report) {
	const check = "alarm-webhook"
	target := p.Cfg.WebhookURL
	if target == nil {
		return
	}
	where := target.Scheme + "://" + target.Host
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if proxy != nil {
		target, where = proxy, where+" through the proxy "+proxy.Host
	}
	if err == nil {
		var conn net.Conn
		var dialer net.Dialer
		port := cmp.Or(target.Port(), map[string]string{"http": "80", "https": "443"}[target.Scheme])
		if conn, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(target.Hostname(), port)); err == nil {
			r.OK(check, "%s takes connections", where)
			_ = conn.Close() // nothing was said
			return
		}
	}
	r.Warn(check, fmt.Sprintf("%s can't be reached: %v", where, err), "see the network, HTTPS_PROXY and --alarm-webhook: alarms are lines of the log alone until then")
}
