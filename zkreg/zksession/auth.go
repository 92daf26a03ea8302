package zksession

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/leafd/leafd/internal/plainfile"
)

// maxCredentialsBytes bounds a file of credentials.
const maxCredentialsBytes = 4096

// Credentials are a user and password of ZooKeeper's digest scheme. They print
// without the password.
type Credentials struct {
	user     string
	password string
}

// ParseCredentials returns the credentials in a file with the one line user:password; the password may have
// colons. It returns an error for any other file, which has neither user nor password.
func ParseCredentials(path string) (*Credentials, error) {
	content, _, err := plainfile.Read(path, maxCredentialsBytes)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	c, err := parseCredentials(content)
	if err != nil {
		return nil, fmt.Errorf("credentials %s: %w", path, err)
	}
	return c, nil
}

func parseCredentials(content []byte) (*Credentials, error) {
	content = bytes.TrimSuffix(content, []byte("\n"))
	content = bytes.TrimSuffix(content, []byte("\r"))
	user, password, found := strings.Cut(string(content), ":")
	switch {
	case !found || user == "" || password == "":
		return nil, errors.New("want one line user:password, neither of them empty")
	case strings.ContainsFunc(user+password, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, errors.New("there is a line break or another control character: want one line user:password")
	}
	return &Credentials{user, password}, nil
}

// String returns, for errors, as which user a request is made.
func (c *Credentials) String() string {
	if c == nil {
		return "without credentials"
	}
	return fmt.Sprintf("as user %q", c.user)
}

// Secret returns the password, to be looked for in what must not have it.
func (c *Credentials) Secret() string {
	if c == nil {
		return ""
	}
	return c.password
}

// GoString keeps the password out of %#v.
func (c *Credentials) GoString() string { return c.String() }

// request returns what ZooKeeper is sent over each connection before anything else:
// authXid, the type of a request for authentication, its scheme and the credentials.
func (c *Credentials) request() []byte {
	const setAuth = 100
	b, _ := binary.Append(make([]byte, 4, 64), binary.BigEndian, []int32{authXid, setAuth, 0}) // of a fixed size
	for _, text := range []string{"digest", c.user + ":" + c.password} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...) //nolint:gosec // maxCredentialsBytes at most
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4)) //nolint:gosec // as above
	return b
}

// authXid is the number of a request for authentication, and of its answer, which go-zookeeper
// drops.
const authXid = -4
