package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// leafd support writes what a report needs, and no secret: not even one that another part of the
// daemon tells, here as the name of the node.
func TestSupport(t *testing.T) {
	t.Parallel()
	mariadb, zk := mariadbtest.Shared(t), zookeepertest.Shared(t)
	name := mariadb.NewDatabase(t)
	javaTable(t, mariadb.DB(t, name))
	const password, zkPassword = "hunter2-database", "hunter2-zookeeper"
	for _, statement := range []string{
		"CREATE USER " + name + "@'127.0.0.1' IDENTIFIED BY '" + password + "'",
		"GRANT ALL ON " + name + ".* TO " + name + "@'127.0.0.1'",
	} {
		_, err := mariadb.DB(t, name).ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	m := newMachine(t)
	m.addr = freeAddress(t)
	dsn := strings.Replace(mariadb.DSN(name), "root@", name+":"+password+"@", 1)
	webhook := "http://" + freeAddress(t) + "/hunter2-webhook"
	token := clitest.WriteFile(t, "token", clitest.AdminToken+"\n")
	config := clitest.WriteFile(t, "leafd.yaml", fmt.Sprintf("listen: %s\ndata-dir: %s\nmysql: %s\nzk: %s\nzk-root: %s\nzk-auth-file: %s\nadmin-listen: %s\nadmin-token-file: %s\nalarm-webhook: %s\nnode: %s\n",
		m.addr, m.dataDir(), dsn, zk.Addr(), zk.NewRoot(t), clitest.WriteFile(t, "zk", "leafd:"+zkPassword+"\n"), freeAddress(t), token, webhook, "node-"+password))
	support := func() map[string]string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "leafd.tar.gz")
		out, err := exec.CommandContext(t.Context(), proctest.Leafd(t), "support", "--config", config, "--timeout", "5s", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "Wrote "+path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode())
		files := unpack(t, path)
		for file, text := range files {
			for _, secret := range []string{password, zkPassword, dsn, clitest.AdminToken, "hunter2"} {
				require.NotContains(t, text, secret, file)
			}
		}
		require.Contains(t, files["settings.json"], "(hidden)")
		require.Contains(t, files["doctor.json"], `"results"`)
		require.Contains(t, files["version.json"], `"go"`)
		return files
	}
	out, err := exec.CommandContext(t.Context(), proctest.Leafd(t), "cluster", "init", "--new", "--yes", "--config", config).CombinedOutput()
	require.NoError(t, err, "%s", out)

	l := m.ready("--config", config)
	l.awaitStatus("/api/segment/get/a", http.StatusOK)
	files := support()
	for file, has := range map[string]string{
		"readyz.json": "ready", "overview.json": `"version"`, "history.json": "{", "clock.json": `"owner"`, "worker.json": `"node-(hidden)"`, "workers.json": `"workers"`,
		"segments.json": `"tag":"a"`, "metrics.txt": "leafd_", "goroutines.txt": "goroutine 1 [", "zookeeper-root.json": `"cluster"`, "zookeeper-entries.json": `"node-(hidden)"`,
	} {
		require.Contains(t, files[file], has, file)
	}
	require.NotContains(t, files, "missing.txt", files["missing.txt"])
	require.Equal(t, cli.ExitOK, l.stop())

	files = support() // of a daemon that is down
	require.Contains(t, files["missing.txt"], "readyz.json: no answer from http://"+m.addr)
	require.NotContains(t, files, "overview.json")
	require.Contains(t, files["zookeeper-entries.json"], `"node-(hidden)"`)
}

// unpack returns the files of an archive.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	packed, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[strings.TrimPrefix(header.Name, "leafd-support/")] = string(text)
	}
}
