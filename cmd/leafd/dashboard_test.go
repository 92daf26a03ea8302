//go:build long

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/webtest"
)

// hostileTag is a name that a client with the right to create tags may give one.
const hostileTag = `<script>alert(1)</script><img src=x onerror=alert(2)>`

// adminSecret is the token of this file's daemons.
const adminSecret = "let-me-in-for-a-test"

// dashboardViews are those that the page has to look right in.
var dashboardViews = []webtest.View{
	{Width: 1280, Height: 900},
	{Width: 1280, Height: 900, Dark: true},
	{Width: 360, Height: 740},
	{Width: 360, Height: 740, Dark: true},
}

// The dashboard of a cluster in a real browser, in each state. With LEAFDTEST_SCREENSHOTS
// naming a directory, the pictures of docs/DASHBOARD.md are written there.
func TestDashboard(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	mariadb := mariadbtest.Start(t)
	database := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, database))
	args := often("--admin-token-file", clitest.WriteFile(t, "token", adminSecret+"\n"), "--mysql", mariadb.DSN(database))
	var daemons []*child
	var machines []*machine
	for i := range 3 {
		m := g.machine()
		machines = append(machines, m)
		daemons = append(daemons, m.start(slices.Concat(args, []string{"--drain-delay", []string{"8s", "0s", "0s"}[i]})...))
	}
	for _, l := range daemons {
		l.awaitStatus("/readyz", http.StatusOK)
	}
	m, l := machines[0], daemons[0]
	for _, tag := range []string{hostileTag, "leaf-segment-test"} {
		body, err := json.Marshal(map[string]any{"tag": tag, "step": 1000})
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, l.send(http.MethodPost, "/api/segments", adminSecret, string(body)).status)
		for _, d := range daemons {
			// HEAD looks the tag up and uses no ID: it is in memory then.
			require.Eventually(t, func() bool {
				response, err := http.Head(d.url + "/api/segment/get/" + url.PathEscape(tag))
				return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
			}, 10*time.Second, 50*time.Millisecond)
		}
	}

	p := webtest.Open(t).Page(l.url+"/", dashboardViews[0])
	showsTheCluster(t, p, daemons)
	showsWhatIsIssued(t, p, l)
	for _, view := range dashboardViews {
		p.Look(view)
		require.LessOrEqual(t, p.Overflow(), 0, view)
		require.Empty(t, p.Faint(), view)
		if view.Width < 560 {
			require.Empty(t, p.Cut(), view)
		}
	}
	p.Look(dashboardViews[0])
	require.Empty(t, p.Complaints())
	end := getsToWork(t, p, daemons)
	takePictures(p, "ready")
	showsADatabaseThatIsGone(t, p, l, mariadb)
	showsAFence(t, p, g.watch(), l)
	g.onMachine(newMachine(t), "cluster", "open", "--yes", "--clock-threshold", "10ms").OK(t)
	p.Await(`document.querySelector("#verdict").innerText === "ready"`)
	end()
	showsALostDaemon(t, p, m, l, args)
	require.NoError(t, noteworthy(p.Complaints()))
	require.Empty(t, p.Strangers(l.addr))
	require.Empty(t, p.Complaints())
}

func showsTheCluster(t *testing.T, p *webtest.Page, daemons []*child) {
	t.Helper()
	self := daemons[0].info()
	p.AwaitText("#verdict", "ready")
	p.AwaitText("#workers-note", "3 of 3 live")
	p.Await(`/^3 live daemons: 3 (ready|degraded)\. .* Asked /.test(document.querySelector("#cluster-note").innerText)`)
	p.AwaitText("#guards", "agree")
	require.Equal(t, self.Node, p.Text("#node"))
	for _, d := range daemons {
		row := fmt.Sprintf(`[...document.querySelectorAll("#workers tbody tr")].find((r) => r.cells[1].innerText === %q)`, d.info().Node)
		p.Await(row + `?.cells[0].innerText === "` + fmt.Sprint(d.info().ID) + `"`)
		if d.info().Node != self.Node {
			p.Await("/ms$/.test(" + row + `.cells[4].innerText)`) // its clock's offset
		}
	}
	guards := p.Text("#guards")
	for _, part := range []string{"IDs can be issued", "Fence", "the identity is ours", "Ceiling", "of 3.0 s", "Last report", "every 500 ms", "ZooKeeper", "connected", "up to 5.0 s allowed"} {
		require.Contains(t, guards, part)
	}
	p.AwaitText("#tags tbody", hostileTag)
	require.Zero(t, webtest.Eval[int](p, `document.querySelectorAll("#tags script, #tags img").length`))
}

func showsWhatIsIssued(t *testing.T, p *webtest.Page, l *child) {
	t.Helper()
	require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/order?n=1234").status)
	l.awaitStatus("/api/segment/get/leaf-segment-test?n=777", http.StatusOK)
	p.AwaitText("#t-snowflake-sub", "1,234 since the start")
	p.AwaitText("#t-segment-sub", "777 since the start")
	row := `[...document.querySelectorAll("#tags tbody tr")].find((r) => r.cells[0].innerText === "leaf-segment-test")`
	p.Await(row + `?.cells[6].innerText === "777"`)
	p.Await(row + fmt.Sprintf(`.cells[7].innerText.startsWith(%q)`, l.info().Node+", "))
}

func showsALostDaemon(t *testing.T, p *webtest.Page, m *machine, l *child, args []string) {
	t.Helper()
	l.signal(syscall.SIGTERM)
	p.AwaitText("#verdict", "not ready: draining")
	p.AwaitText("#banner", "Not ready: leafd is stopping")
	takePictures(p, "draining")
	require.Equal(t, cli.ExitOK, l.ExitCode())
	p.AwaitText("#lost", "leafd does not answer (no connection). Trying again.")
	p.AwaitText("#verdict", "no answer")
	require.Contains(t, p.Text("#workers tbody"), m.addr, "what was known stays, marked as old")
	m.ready(args...)
	p.AwaitText("#verdict", "ready")
	p.Await(`document.querySelector("#lost").hidden && !document.body.classList.contains("stale")`)
}

// noteworthy leaves out what Chromium says of a daemon that is gone.
func noteworthy(complaints []string) error {
	left := slices.DeleteFunc(complaints, func(c string) bool {
		return strings.HasPrefix(c, "log network: Failed to load resource: net::ERR_CONNECTION")
	})
	if len(left) > 0 {
		return fmt.Errorf("the browser complains: %q", left)
	}
	return nil
}

// getsToWork gives the daemons of pictures something to do until end is called.
func getsToWork(t *testing.T, p *webtest.Page, daemons []*child) (end func()) {
	t.Helper()
	if os.Getenv("LEAFDTEST_SCREENSHOTS") == "" {
		return func() {}
	}
	for _, tag := range []string{hostileTag, "leaf-segment-test", "a", "b"} {
		require.Equal(t, http.StatusNoContent, daemons[0].send(http.MethodDelete, "/api/segments/"+url.PathEscape(tag), adminSecret, "").status)
	}
	for _, tag := range []string{"order", "payment", "refund"} {
		require.Equal(t, http.StatusCreated, daemons[0].send(http.MethodPost, "/api/segments", adminSecret, `{"tag":"`+tag+`","step":20000}`).status)
	}
	load := newLoad(daemons[0], "/api/snowflake/get/order", "/api/segment/get/order", "/api/segment/get/payment?n=3")
	p.Await(`+document.querySelector("#rate [data-series=snowflake]").dataset.points >= 7`)
	return func() { load.stop() }
}

// takePictures makes the pictures of a state for the documentation.
func takePictures(p *webtest.Page, state string) {
	dir := os.Getenv("LEAFDTEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	for suffix, view := range map[string]webtest.View{"": dashboardViews[0], "-dark": dashboardViews[1], "-phone": dashboardViews[2]} {
		p.Look(view)
		p.Screenshot(filepath.Join(dir, state+suffix+".png"))
	}
	p.Look(dashboardViews[0])
}

// showsADatabaseThatIsGone kills the database, and brings it back.
func showsADatabaseThatIsGone(t *testing.T, p *webtest.Page, l *child, mariadb *mariadbtest.Server) {
	t.Helper()
	mariadb.Kill(t)
	p.Await(`document.querySelector("#verdict").innerText === "degraded" && document.querySelector("#head").className === "warn"`)
	require.Contains(t, l.mustGet("/readyz").body, `"status":"degraded"`)
	p.AwaitText("#banner", "MySQL: the database gives no range")
	p.Await(`/connection refused by ` + regexp.QuoteMeta(mariadb.Addr()) + `, for [1-9]\d* s/.test(document.querySelector("#alarms").innerText)`)
	p.AwaitText("#alarms", "What to do: The error says what is wrong: bring the database back, or lead --mysql to its primary. Put a table that is gone back; make no new one. (segment_store)")
	takePictures(p, "degraded")
	mariadb.Restart(t)
	p.Await(`document.querySelector("#verdict").innerText === "ready" && document.querySelector("#head").className === "ok"`)
	p.Await(`document.querySelector("#banner").hidden`)
}

// showsAFence gives the worker ID to another while no new one is given out, so that the next life waits.
func showsAFence(t *testing.T, p *webtest.Page, o *onlooker, l *child) {
	t.Helper()
	id := l.info().ID
	o.remove(o.path(id)) // the daemon puts its own back
	p.AwaitText("#verdict", "degraded")
	p.AwaitText("#alarms", "no new worker ID is given out")
	o.takeAway(id)
	p.AwaitText("#verdict", "not ready: worker_fenced")
	require.Equal(t, "bad", webtest.Eval[string](p, `document.querySelector("#head").className`))
	p.AwaitText("#alarms", "fenced: nothing is issued until a new life")
	l.awaitLog(lineFenced, fmt.Sprintf("worker %d is node ", id))
	takePictures(p, "fenced")
}
