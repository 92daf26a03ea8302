package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/certtest"
	"github.com/leafd/leafd/test/clitest"
)

// tlsArgs gives a machine a certificate of ca, and returns the settings that name
// it; with mutual every client needs one of ca, the other daemons too.
func (m *machine) tlsArgs(ca *certtest.Authority, mutual bool, change ...func(*x509.Certificate)) []string {
	m.t.Helper()
	pair := ca.Issue(m.t, "leafd", change...)
	args := []string{"--tls-cert", certtest.Write(m.t, m.dir, "tls.crt", pair.Cert), "--tls-key", certtest.Write(m.t, m.dir, "tls.key", pair.Key)}
	if mutual {
		args = append(args, "--tls-client-ca", certtest.Write(m.t, m.dir, "ca.crt", ca.PEM))
	}
	return args
}

// awaitPeers waits until a daemon's peers tell their clocks, n of them.
func (l *child) awaitPeers(conf *tls.Config, n int) {
	l.t.Helper()
	url := "http://"
	if conf != nil {
		url = "https://"
	}
	var last clockAnswer
	require.Eventually(l.t, func() bool {
		a, err := request(l.t, conf, url+l.addr+"/api/overview")
		if err != nil || a.status != http.StatusOK {
			return false
		}
		last = clitest.FromJSON[struct{ Clock clockAnswer }](l.t, a.body).Clock
		told := 0
		for _, p := range last.Peers {
			if p.Offset != nil {
				told++
			}
		}
		return told == n
	}, eventually, 20*time.Millisecond, "%d peers that tell their clocks", n)
	for _, p := range last.Peers {
		require.Empty(l.t, p.Error)
	}
}

// The guards hold where every connection needs a certificate: the daemons hear each
// other's clocks, and one with a wrong clock is shut out. The commands do too.
func TestClusterWithClientCertificates(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	ca := certtest.New(t, "ca")
	conf := ca.Client(t, ca.Issue(t, "operator"))
	var daemons []*child
	for range 2 {
		m := g.machine()
		l := m.start(often(m.tlsArgs(ca, true)...)...)
		l.awaitLog("issuing snowflake IDs")
		daemons = append(daemons, l)
	}
	for _, l := range daemons {
		l.awaitPeers(conf, 1)
		_, err := request(t, ca.Client(t), "https://"+l.addr+"/api/clock")
		require.ErrorContains(t, err, "certificate required")
	}

	late := g.machine()
	late.step(6 * time.Second)
	settings := late.tlsArgs(ca, true)
	g.refuses(late, "ahead of the peers' clocks, 2 of 2 peers answered", often(settings...)...)
	check := g.run(late, append([]string{"clock", "check", "--data-dir", late.dataDir()}, settings...)...)
	require.Equal(t, cli.ExitClock, check.Code, check.Stderr)
	list := g.run(late, append([]string{"worker", "list", "-o", "json"}, settings...)...)
	require.Equal(t, cli.ExitOK, list.Code, list.Stderr)
	for _, w := range clitest.FromJSON[struct{ Workers []views.WorkerInfo }](t, list.Stdout).Workers {
		require.NotNil(t, w.Offset, list.Stdout)
	}

	late.step(-6 * time.Second)
	daemons = append(daemons, late.start(often(settings...)...))
	daemons[2].awaitLog("issuing snowflake IDs")
	for _, l := range daemons {
		l.awaitPeers(conf, 2)
	}
	for _, l := range daemons { // before the first stops, which the others then miss
		require.Empty(t, l.alarmCodes(), l.Log())
	}
	for _, l := range daemons {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
