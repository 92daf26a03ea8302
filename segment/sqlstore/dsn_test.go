package sqlstore

import (
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

func TestMySQLConfigDefaults(t *testing.T) {
	cfg, err := mysqlConfig("leaf:secret@tcp(db:3306)/leaf")
	require.NoError(t, err)
	require.Equal(t, 500*time.Millisecond, cfg.Timeout)
	require.Equal(t, 3*time.Second, cfg.ReadTimeout)
	require.Equal(t, time.Second, cfg.WriteTimeout)
	require.Equal(t, map[string]string{"wait_timeout": "60", "lock_wait_timeout": "1", "innodb_lock_wait_timeout": "1"}, cfg.Params)
	require.IsType(t, &mysql.NopLogger{}, cfg.Logger, "errors are returned, and not printed")
	require.Less(t, otherIdle+time.Second, 60*time.Second, "the pool lets go of a connection before the server does, to the second")
	require.LessOrEqual(t, fetchIdle+time.Second, 3*time.Second)
}

// TestMySQLConfigForces: what the DSN says against correctness is ignored,
// what it says otherwise is not.
func TestMySQLConfigForces(t *testing.T) {
	cfg, err := mysqlConfig("leaf@tcp(db)/leaf?timeout=2s&readTimeout=3s&writeTimeout=4s&clientFoundRows=false&parseTime=false" +
		"&loc=America%2FNew_York&multiStatements=true&allowAllFiles=true&checkConnLiveness=false&charset=latin1" +
		"&collation=gbk_chinese_ci&SQL_MODE=%27%27&time_zone=%27SYSTEM%27&Wait_Timeout=7&AutoCommit=0")
	require.NoError(t, err)
	require.Equal(t, []time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second},
		[]time.Duration{cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout})
	require.True(t, cfg.ClientFoundRows)
	require.True(t, cfg.ParseTime)
	require.True(t, cfg.CheckConnLiveness)
	require.False(t, cfg.MultiStatements, "nothing travels with a COMMIT")
	require.False(t, cfg.AllowAllFiles)
	require.Equal(t, time.UTC, cfg.Loc)
	require.Contains(t, cfg.FormatDSN(), "charset=utf8mb4&collation=utf8mb4_general_ci")
	require.Equal(t, "7", cfg.Params["wait_timeout"])
}

// TestHosts: an address may be a list, which the driver takes for one host.
func TestHosts(t *testing.T) {
	for address, want := range map[string][]string{
		"tcp(db)":                    {"db:3306"},
		"tcp(db1:3306,db2:3307)":     {"db1:3306", "db2:3307"},
		"tcp(db1,db2)":               {"db1:3306", "db2:3306"},
		"tcp(db1:1,db2,db1:1)":       {"db1:1", "db2:3306", "db1:1"},
		"tcp(db2,db1:1)":             {"db2:3306", "db1:1"},
		"tcp([::1]:3306,[::2]:3307)": {"[::1]:3306", "[::2]:3307"},
		"tcp([::1],db,[::2])":        {"[::1]:3306", "db:3306", "[::2]:3306"},
		"tcp(db1:3306,[::2]:3306)":   {"db1:3306", "[::2]:3306"},
		"unix(/run/a,b.sock)":        {"/run/a,b.sock"},
	} {
		for range 2 { // as it was given, and as it is shown
			cfg, err := mysqlConfig("leaf@" + address + "/leaf")
			require.NoError(t, err, address)
			require.Equal(t, want, hostsOf(cfg), address)
			require.Equal(t, len(want), Config{DSN: "leaf@" + address + "/leaf"}.Hosts())
			parsed, err := parseDSN("leaf@" + address + "/leaf")
			require.NoError(t, err)
			address = strings.TrimSuffix(strings.TrimPrefix(parsed.FormatDSN(), "leaf@"), "/leaf")
		}
	}
	require.Zero(t, Config{Path: "x"}.Hosts())
	require.True(t, SameDatabase("a@tcp(db1,db2)/leaf", "b@tcp(db2,db1:3306)/leaf"), "in any order")
	require.False(t, SameDatabase("a@tcp(db1,db2)/leaf", "a@tcp(db1)/leaf"))
	require.Equal(t, "db1:3306,db2:3306/leaf", Config{DSN: "a@tcp(db2,db1)/leaf"}.Name())
	require.Equal(t, "segments.db", Config{Path: "/var/lib/leafd/segments.db"}.Name())
}

// unusable are DSNs with errors that must not tell the password s3cret.
var unusable = map[string]struct{ dsn, says string }{
	"empty":                   {dsn: "", says: "names no database"},
	"no slash":                {dsn: "leaf:s3cret@tcp(db:3306)", says: "missing the slash"},
	"no database":             {dsn: "leaf:s3cret@tcp(db:3306)/", says: "names no database"},
	"a URL":                   {dsn: "mysql://leaf:s3cret@db:3306/leaf", says: "want user:password@tcp(host:3306)/leaf"},
	"JDBC":                    {dsn: "jdbc:mysql://db:3306/leaf?user=leaf&password=s3cret"},
	"no parentheses":          {dsn: "leaf:s3cret@db:3306/leaf"},
	"all in parentheses":      {dsn: "tcp(leaf:s3cret@db:3306)/leaf"},
	"no at sign":              {dsn: "leaf:s3cret/leaf"},
	"no at sign, parentheses": {dsn: "leaf:s3cret(db:3306)/leaf"},
	"at sign twice":           {dsn: "leaf:x@leaf:s3cret@(db)/leaf@s3cret/leaf"},
	"unescaped zone":          {dsn: "leaf:s3cret@tcp(db:3306)/leaf?loc=Asia/Shanghai"},
	"unclosed":                {dsn: "leaf:s3cret@tcp(db:3306/leaf"},
	"wrong time-out":          {dsn: "leaf:s3cret@tcp(db:3306)/leaf?x=s3cret&timeout=5", says: "parameter timeout has a wrong value"},
	"wrong bool":              {dsn: "leaf:s3cret@tcp(db:3306)/leaf?parseTime=s3cret", says: "parameter parseTime has a wrong value"},
	"a parameter that panics": {dsn: "leaf:s3cret@tcp(db:3306)/leaf?strict=true", says: "parameter strict"},
	"wrong escape":            {dsn: "leaf:s3cret@tcp(db:3306)/leaf?x=%zz"},
	"a host left out":         {dsn: "leaf:s3cret@tcp(db:3306,)/leaf", says: "a host is missing"},
	"wrong TLS":               {dsn: "leaf:s3cret@tcp(db:3306)/leaf?tls=s3cret"},
}

func TestOpenMySQLUnusableDSN(t *testing.T) {
	for name, c := range unusable {
		t.Run(name, func(t *testing.T) {
			store, err := openMySQL(Config{DSN: c.dsn})
			if err == nil {
				require.NoError(t, store.Close())
			}
			require.ErrorIs(t, err, ErrBadDSN)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}

func TestRedactDSN(t *testing.T) {
	for name, c := range unusable {
		require.NotContains(t, RedactDSN(c.dsn), "s3cret", name)
	}
	for dsn, want := range map[string]string{
		"leaf:s3cret@tcp(db:3306)/leaf":                       "leaf:xxxxx@tcp(db:3306)/leaf",
		"leaf:s3cret@tcp(db1:3306,db2)/leaf":                  "leaf:xxxxx@tcp(db1:3306,db2:3306)/leaf",
		"leaf:@tcp(db:3306)/leaf":                             "leaf@tcp(db:3306)/leaf",
		"leaf@tcp(db)/leaf?timeout=2s":                        "leaf@tcp(db:3306)/leaf?timeout=2s",
		"leaf:s3/c@r:e?t@unix(/run/db.sock)/leaf":             "leaf:xxxxx@unix(/run/db.sock)/leaf",
		"leaf:s3cret@tcp(db:3306)/leaf?password=s3cret":       "leaf:xxxxx@tcp(db:3306)/leaf?password=xxxxx",
		"leaf:a@tcp(db)/l?connectionAttributes=key:s3cret":    "leaf:xxxxx@tcp(db:3306)/l?connectionAttributes=xxxxx",
		"leaf:s3cret@tcp([fe80::1]:3306)/leaf?tls=true":       "leaf:xxxxx@tcp([fe80::1]:3306)/leaf?tls=true",
		"mysql://leaf:s3cret@tcp(db:3306)/leaf":               "mysql:xxxxx@tcp(db:3306)/leaf",
		"not a DSN at all, but perhaps a password on its own": "xxxxx",
	} {
		require.Equal(t, want, RedactDSN(dsn))
	}
}
