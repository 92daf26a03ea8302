package zksession

import (
	"bytes"
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

// ParseCredentials reads a file with the one line user:password; the password may
// have colons. The warning, for people, is about a file that others can read;
// empty otherwise. Errors tell neither user nor password.
func ParseCredentials(path string) (c *Credentials, warning string, err error) {
	content, mode, err := plainfile.Read(path, maxCredentialsBytes)
	if err != nil {
		return nil, "", fmt.Errorf("credentials: %w", err)
	}
	c, err = parseCredentials(content)
	if err != nil {
		return nil, "", fmt.Errorf("credentials %s: %w", path, err)
	}
	return c, plainfile.Exposed("zk-auth-file "+path, mode), nil
}

func parseCredentials(content []byte) (*Credentials, error) {
	content = bytes.TrimSuffix(content, []byte("\n"))
	content = bytes.TrimSuffix(content, []byte("\r"))
	user, password, found := strings.Cut(string(content), ":")
	switch {
	case !found:
		return nil, errors.New("want one line user:password")
	case user == "":
		return nil, errors.New("the user is empty: want user:password")
	case password == "":
		return nil, errors.New("the password is empty: want user:password")
	}
	for _, r := range user + password {
		if r < ' ' || r == 0x7f {
			return nil, errors.New("there is a line break or another control character: want one line user:password")
		}
	}
	return &Credentials{user, password}, nil
}

// digest is what ZooKeeper is sent.
func (c *Credentials) digest() []byte { return []byte(c.user + ":" + c.password) }

// as tells people who asked.
func (c *Credentials) as() string {
	if c == nil {
		return "asked without credentials: see --zk-auth-file"
	}
	return fmt.Sprintf("asked as user %q: look at the node's ACL, and at user and password in --zk-auth-file", c.user)
}

// String returns the user alone.
func (c *Credentials) String() string {
	if c == nil {
		return "no credentials"
	}
	return "user " + c.user
}

// GoString keeps the password out of %#v.
func (c *Credentials) GoString() string { return c.String() }
