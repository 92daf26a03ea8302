package sqlstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/certtest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

// Connections are encrypted, and only to a server with a certificate that our authority has signed.
func TestMySQLTLS(t *testing.T) {
	ours, other := certtest.New(t, "ours"), certtest.New(t, "other")
	pair := ours.Issue(t, "127.0.0.1")
	dir := t.TempDir()
	server := mariadbtest.Start(t, "--ssl-cert="+certtest.Write(t, dir, "cert", pair.Cert), "--ssl-key="+certtest.Write(t, dir, "key", pair.Key))
	database, db := newTable(t, server, ourScript, "")
	execSQL(t, db, "CREATE USER leaf@'127.0.0.1' IDENTIFIED BY 'secret' REQUIRE SSL")
	execSQL(t, db, "GRANT SELECT, UPDATE ON "+database+".* TO leaf@'127.0.0.1'")
	cfg := sqlstore.Config{
		DSN:      strings.Replace(server.DSN(database), "root@", "leaf@", 1) + generous,
		Password: func() (string, error) { return "secret", nil },
	}
	fetch := func(cfg sqlstore.Config) error {
		t.Helper()
		store, err := sqlstore.Open(cfg)
		require.NoError(t, err)
		_, err = storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
		require.NoError(t, store.Close())
		return err
	}
	require.Error(t, fetch(cfg), "plain")
	cfg.TLS = other.Client(t)
	require.ErrorContains(t, fetch(cfg), "certificate")
	cfg.TLS = ours.Client(t)
	require.NoError(t, fetch(cfg))

	for _, more := range []string{"&tls=true", "&tls=skip-verify"} {
		twice := cfg
		twice.DSN += more
		require.ErrorIs(t, twice.Check(), sqlstore.ErrBadDSN)
	}
	twice := cfg
	twice.DSN = strings.Replace(cfg.DSN, "leaf@", "leaf:secret@", 1)
	require.ErrorIs(t, twice.Check(), sqlstore.ErrBadDSN)
	cfg.Password = func() (string, error) { return "", os.ErrNotExist }
	require.ErrorIs(t, fetch(cfg), os.ErrNotExist)

	require.True(t, sqlstore.SameDatabase("leaf:a@tcp(db)/leaf", "other:b@tcp(db:3306)/leaf?tls=true"))
	require.True(t, sqlstore.SameDatabase("", ""))
	for _, other := range []string{"", "nonsense", "leaf:a@tcp(db)/leaf2", "leaf:a@tcp(db2)/leaf"} {
		require.False(t, sqlstore.SameDatabase("leaf:a@tcp(db)/leaf", other))
	}
}
