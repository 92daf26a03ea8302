package settings

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/server/ids"
)

// UnixScheme begins the address of a unix socket.
const UnixScheme = "unix:"

// rule is what a value has to keep, and what is said where it doesn't.
type rule struct {
	holds bool
	want  string
}

// broken returns the first rule that doesn't hold.
func broken(rules ...rule) error {
	for _, r := range rules {
		if !r.holds {
			return errors.New(r.want)
		}
	}
	return nil
}

// CheckSocketPath returns an error for a path that no unix socket can have.
func CheckSocketPath(path string) error {
	const most = 107 // sockaddr_un's, less its end
	return broken(
		rule{path != "", "want a path"},
		rule{!strings.HasPrefix(path, "@") && !strings.ContainsRune(path, 0), "want a path in the file system: an abstract socket has no permissions"},
		rule{len(path) <= most, fmt.Sprintf("the path has %d bytes: a unix socket's has at most %d", len(path), most)})
}

// checkListen returns an error for an address that can't be listened on, a unix socket's too.
func checkListen(listen string) error {
	if path, unix := strings.CutPrefix(listen, UnixScheme); unix {
		return CheckSocketPath(path)
	}
	_, port, err := net.SplitHostPort(listen)
	_, wrong := strconv.ParseUint(port, 10, 16)
	return broken(
		rule{err == nil, "want host:port, such as 127.0.0.1:8080 or [::]:8080, or unix:/path"},
		rule{wrong == nil, "want a port from 0 to 65535"})
}

// unprintable reports whether r is no printable ASCII character, or a space.
func unprintable(r rune) bool { return r <= ' ' || r > '~' }

// checkZnode returns an error for a path that no znode can have.
func checkZnode(path string) error {
	parts := strings.Split(path, "/")
	return broken(
		rule{strings.HasPrefix(path, "/"), "want a path that begins with a slash, such as /leaf"},
		rule{!slices.Contains(parts[1:], ""), "want a path without empty parts, such as /leaf"},
		rule{!slices.Contains(parts, ".") && !slices.Contains(parts, ".."), "want a path without the parts . and .."},
		rule{!strings.ContainsFunc(path, unprintable), "want printable ASCII characters and no space"})
}

// ParseServers returns the addresses in text, none for "". It returns an error that names the one
// at fault.
func ParseServers(text string) (servers []string, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		host, port, err := net.SplitHostPort(part)
		n, wrong := strconv.ParseUint(port, 10, 16)
		if err := broken(
			rule{!strings.Contains(part, "/"), "want host:port[,host:port]; a path belongs in zk-root"},
			rule{err == nil && host != "" && wrong == nil && n > 0, fmt.Sprintf("%q: want host:port[,host:port], such as 10.0.0.1:2181,10.0.0.2:2181", part)},
		); err != nil {
			return nil, err
		}
		servers = append(servers, part)
	}
	return servers, nil
}

// resolveTimeout bounds the look-up of a host name in --listen.
const resolveTimeout = 5 * time.Second

// deriveAdvertise returns the address that others reach us at: the one listened
// on, or, where that is every address of the machine, its first one that isn't
// loopback. A machine without one is reachable from itself alone, which is a
// warning. Port 0 stays 0: only the listener will know it.
func deriveAdvertise(ctx context.Context, listen string, addrs func() ([]net.Addr, error)) (advertise, warning string, err error) {
	host, port, _ := net.SplitHostPort(listen) // it was checked
	ip := netip.IPv4Unspecified()
	if host != "" {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return "", "", fmt.Errorf("the host has no address: %w", err)
		}
		four := slices.IndexFunc(ips, func(ip netip.Addr) bool { return ip.Unmap().Is4() }) // net.Listen prefers it, too
		ip = ips[max(four, 0)].Unmap()
	}
	if ip.IsUnspecified() {
		list, err := addrs()
		if err != nil {
			return "", "", fmt.Errorf("the machine's addresses can't be read, so set --advertise: %w", err)
		}
		if ip = firstAddress(list); !ip.IsValid() {
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			warning = "this machine has no address but loopback: other machines won't reach the advertised one; set --advertise"
		}
	}
	return net.JoinHostPort(ip.String(), port), warning, nil
}

// firstAddress returns the first address of the machine that others can use,
// IPv4 before IPv6; the zero Addr when there is none.
func firstAddress(list []net.Addr) (first netip.Addr) {
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		ip := prefix.Addr().Unmap()
		if err == nil && ip.IsGlobalUnicast() && (!first.IsValid() || ip.Is4() && first.Is6()) {
			first = ip
		}
	}
	return first
}

// Bounds of an admin token, and of the file of a password, in bytes.
const minTokenBytes, maxTokenBytes, maxPassword = 16, 4096, 4096

// ReadToken returns the token in the file path, without the white space around it. It returns an
// error for a file that can't be read or has no usable token; the token itself is in no error.
func ReadToken(path string) (string, error) {
	content, _, err := plainfile.Read(path, maxTokenBytes)
	if err != nil {
		return "", fmt.Errorf("it can't be read: %w", bare(err))
	}
	token := string(bytes.TrimSpace(content))
	return token, broken(
		rule{len(token) >= minTokenBytes, fmt.Sprintf("the token has %d bytes: want %d or more", len(token), minTokenBytes)},
		rule{!strings.ContainsFunc(token, unprintable), "the token has a space or a character that an HTTP header can't carry: want printable ASCII on one line"})
}

// readPassword returns the first line of the file at path.
func readPassword(path string) (string, error) {
	content, _, err := plainfile.Read(path, maxPassword)
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	password, _, _ := strings.Cut(string(content), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", fmt.Errorf("reading the password: %s has none in its first line", path)
	}
	return password, nil
}

// bare returns err without the path that the setting's value shows already.
func bare(err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// Secrets returns what the settings have that a report must not have.
func (c *Config) Secrets() []string {
	secrets := []string{sqlstore.Password(c.Segment.MySQL), c.Segment.MySQL, c.HTTP.AdminToken, c.Webhook, c.ZooKeeper.Auth.Secret()}
	if read := c.Store(false).Password; read != nil {
		if password, err := read(); err == nil {
			secrets = append(secrets, password)
		}
	}
	const least = 4 // bytes: a shorter one is everywhere, by chance
	return slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < least })
}

// maxCallers bounds the entries of a tokens-file: each name is a series of a metric.
const maxCallers = 1000

// callerName is what a caller may be called: it has no space, as the admin token's name has.
var callerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// readCallers returns the callers of a tokens-file. The admin token is no caller's.
func (c *Config) readCallers(path string) ([]ids.Caller, error) {
	content, mode, err := plainfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("it can't be read: %w", bare(err))
	}
	if mode&0o002 != 0 { // that others read the hashes of tokens does no harm
		c.warn(plainfile.Exposed("tokens-file "+path, mode))
	}
	seen := map[[sha256.Size]byte]string{{}: "no token"}
	if c.HTTP.AdminToken != "" {
		seen[sha256.Sum256([]byte(c.HTTP.AdminToken))] = "admin-token-file"
	}
	var entries []struct {
		Name, SHA256, IDs string
		Admin             bool
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		if bad := (*yaml.TypeError)(nil); errors.As(err, &bad) { // its text has values of the file
			err = errors.New("something in it is of another kind, or has another name")
		}
		return nil, fmt.Errorf("want a list of entries with name, sha256, ids and admin: %w", err)
	}
	if len(entries) < 1 || len(entries) > maxCallers || decoder.Decode(new(any)) == nil {
		return nil, fmt.Errorf("want one YAML document with 1 to %d entries, and not %d", maxCallers, len(entries))
	}
	all := make([]ids.Caller, len(entries))
	for i, e := range entries {
		c := ids.Caller{Name: e.Name, Admin: e.Admin}
		digest, err := hex.DecodeString(e.SHA256)
		copy(c.SHA256[:], digest)
		if e.IDs != "" {
			c.IDs = strings.Split(e.IDs, ",")
		}
		for j, key := range c.IDs {
			c.IDs[j] = strings.TrimSpace(key)
		}
		if err := broken(
			rule{callerName.MatchString(e.Name), "a name of 1 to 64 letters, digits, points, hyphens and underscores"},
			rule{err == nil && len(digest) == sha256.Size, "in sha256 the token's SHA-256, 64 hexadecimal digits"},
			rule{seen[c.SHA256] == "", "a token of its own, and not that of " + seen[c.SHA256]},
			rule{!slices.ContainsFunc(c.IDs, notKeys), "in ids keys, separated by commas, with * at the end alone"},
			rule{len(c.IDs) > 0 || c.Admin, "ids, or admin: true"},
		); err != nil {
			return nil, fmt.Errorf("entry %d, %.64q: want %w", i+1, e.Name, err)
		}
		seen[c.SHA256] = fmt.Sprintf("entry %d", i+1)
		all[i] = c
	}
	return all, nil
}

// notKeys reports whether text names neither a key, nor with * at its end those that begin so.
func notKeys(text string) bool {
	prefix := strings.TrimSuffix(text, "*")
	return text == "" || len(prefix) > segment.MaxTagBytes || strings.Contains(prefix, "*")
}
