package sqlstore

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// ErrBadDSN is returned by Open for a DSN that can't be used. The error
// repeats no part of the DSN in which a password can stand.
var ErrBadDSN = errors.New("unusable MySQL DSN (want user:password@tcp(host:3306)/leaf)")

// hidden stands for what RedactDSN hides, as in net/url.
const hidden = "xxxxx"

// RedactDSN returns dsn fit for showing: with the password hidden, and the
// values of the parameters that the driver hands on unread. Of a dsn that can't
// be read nothing is shown, since any part of it may be the password.
func RedactDSN(dsn string) string {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return hidden
	}
	if cfg.Passwd != "" {
		cfg.Passwd = hidden
	}
	if cfg.ConnectionAttributes != "" {
		cfg.ConnectionAttributes = hidden
	}
	for _, name := range slices.Collect(maps.Keys(cfg.Params)) {
		cfg.Params[name] = hidden
	}
	return cfg.FormatDSN()
}

// HasSecret reports whether dsn has anything that RedactDSN hides.
func HasSecret(dsn string) bool { return strings.Contains(RedactDSN(dsn), hidden) }

// Password returns the password in dsn, to be looked for in what must not have it.
func Password(dsn string) string {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return ""
	}
	return cfg.Passwd
}

// parseDSN parses dsn. Its errors quote nothing of it but a parameter's name,
// and that only when the driver has one of that name: the driver's own errors
// quote what they stumble over, which may be the password.
func parseDSN(dsn string) (*mysql.Config, error) {
	cfg, err := parseSafely(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrBadDSN, whatIsWrong(dsn, err))
	}
	// Anything else than these is a piece of something, most often of a DSN
	// in another form such as mysql://user:password@host/leaf.
	switch cfg.Net {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, fmt.Errorf("%w: the network is neither tcp nor unix", ErrBadDSN)
	}
	if strings.ContainsAny(cfg.User+cfg.Addr, "@()") || strings.Contains(cfg.User, "/") {
		return nil, fmt.Errorf("%w: user and address can't be told apart", ErrBadDSN)
	}
	if cfg.Net == "unix" || !strings.Contains(cfg.Addr, ",") {
		return cfg, nil
	}
	// The driver takes db1:3306,db2:3306 for one host, and puts it in brackets where it has too many colons.
	list := cfg.Addr
	if inner, ok := strings.CutSuffix(list, "]:3306"); ok && list[0] == '[' {
		list = inner[1:]
	}
	var hosts []string
	for host := range strings.SplitSeq(list, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "3306")
		}
		if host[0] == ':' {
			return nil, fmt.Errorf("%w: a host is missing", ErrBadDSN)
		}
		hosts = append(hosts, host)
	}
	cfg.Addr = strings.Join(hosts, ",")
	return cfg, nil
}

// hostsOf returns the addresses that parseDSN has found, each with its port, in their order.
func hostsOf(cfg *mysql.Config) []string {
	if cfg.Net == "unix" {
		return []string{cfg.Addr}
	}
	return strings.Split(cfg.Addr, ",")
}

// parseSafely is mysql.ParseDSN without its panic, with which the driver answers
// a parameter that it once had.
func parseSafely(dsn string) (cfg *mysql.Config, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			cfg, err = nil, errors.New("a parameter that the driver no longer has")
		}
	}()
	return mysql.ParseDSN(dsn)
}

// knownParams are the parameters that can have wrong values.
var knownParams = []string{ //nolint:gochecknoglobals // a constant list
	"allowAllFiles", "allowCleartextPasswords", "allowFallbackToPlaintext", "allowNativePasswords",
	"allowOldPasswords", "checkConnLiveness", "clientFoundRows", "columnsWithAlias", "compress",
	"connectionAttributes", "interpolateParams", "loc", "maxAllowedPacket", "multiStatements", "parseTime",
	"readTimeout", "rejectReadOnly", "serverPubKey", "strict", "timeTruncate", "timeout", "tls", "writeTimeout",
}

// whatIsWrong returns what is wrong with a dsn, for people, without its secrets.
func whatIsWrong(dsn string, err error) string {
	const constant = "invalid DSN: " // the driver's errors that quote nothing
	if text, ok := strings.CutPrefix(err.Error(), constant); ok {
		return text
	}
	_, params, _ := strings.Cut(dsn[strings.LastIndexByte(dsn, '/')+1:], "?")
	for param := range strings.SplitSeq(params, "&") {
		name, _, _ := strings.Cut(param, "=")
		if !slices.Contains(knownParams, name) {
			continue
		}
		if _, err := parseSafely("/?" + param); err != nil {
			return "parameter " + name + " has a wrong value"
		}
	}
	return "it can't be read"
}
