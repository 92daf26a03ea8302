package sqlstore

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDSN: a DSN is taken, and shown without its password; or refused with one of a
// few texts, which quote nothing of it.
func FuzzDSN(f *testing.F) {
	for _, c := range unusable {
		f.Add(c.dsn)
	}
	for _, dsn := range []string{
		"leaf:s3cret@tcp(db:3306)/leaf?timeout=2s", "leaf@unix(/run/db.sock)/leaf", "/", "@/", "tcp(db)/leaf", "leaf:s3cret@tcp([fe80::1%25eth0]:3306)/leaf?tls=true&x=y", "leaf:s3/c@r:e?t@tcp(db)/l?collation=utf8mb4_bin",
		"u:p@tcp(h:1)/d?connectionAttributes=a:b,c:d", "u:p@tcp(h:1)/d%2Fe", "u:p@tcp(h:1)/?loc=Local&parseTime=1", "u:p@tcp(h:1)/d?maxAllowedPacket=-1", "u:p@tcp(h:1)/d?timeout=9999999h", "u:p@tcp(h:1)/d?charset=utf8,latin1", "u:p@tcp(h:1,i)/d",
	} {
		f.Add(dsn)
	}
	closed := regexp.MustCompile(`^(default addr for network unknown: |the network is neither tcp nor unix|user and address can't be told apart|a host is missing|it can't be read|parameter [a-zA-Z]+ has a wrong value|` +
		`did you forget to escape a param value\?|network address not terminated \(missing closing brace\)|missing the slash separating the database name)$`)
	f.Fuzz(func(t *testing.T, dsn string) {
		cfg, err := parseDSN(dsn)
		shown := RedactDSN(dsn)
		if err != nil {
			require.ErrorIs(t, err, ErrBadDSN)
			require.Regexp(t, closed, strings.TrimPrefix(err.Error(), ErrBadDSN.Error()+": "))
			require.Equal(t, hidden, shown)
			return
		}
		again, err := parseDSN(shown)
		if err != nil {
			require.ErrorIs(t, err, ErrBadDSN) // its parts can't be written down; shown hides the password all the same
			return
		}
		require.Contains(t, []string{"", hidden}, again.Passwd)
		if cfg.User != "" { // without, the driver doesn't write the password down either
			require.Equal(t, cfg.Passwd == "", again.Passwd == "")
		}
		open := cfg.Clone() // all but the secrets
		open.Passwd, open.ConnectionAttributes, open.Params = "", "", again.Params
		if len(cfg.Passwd) >= 6 && !strings.Contains(open.FormatDSN(), cfg.Passwd) {
			require.NotContains(t, shown, cfg.Passwd)
		}
		for _, value := range again.Params {
			require.Equal(t, hidden, value)
		}
	})
}
