package zksession

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
	f, err := os.Open(path)
	if err != nil {
		return nil, "", fmt.Errorf("zksession: credentials: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, "", fmt.Errorf("zksession: credentials: %w", err)
	}
	if info.IsDir() {
		return nil, "", fmt.Errorf("zksession: credentials %s: want a file, not a directory", path)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxCredentialsBytes+1))
	if err != nil {
		return nil, "", fmt.Errorf("zksession: credentials: %w", err)
	}
	c, err = parseCredentials(content)
	if err != nil {
		return nil, "", fmt.Errorf("zksession: credentials %s: %w", path, err)
	}
	if mode := info.Mode().Perm(); mode&0o004 != 0 {
		warning = fmt.Sprintf("zk-auth-file %s is readable to every user of this machine (mode %04o): chmod o-r", path, mode)
	}
	return c, warning, nil
}

func parseCredentials(content []byte) (*Credentials, error) {
	if len(content) > maxCredentialsBytes {
		return nil, fmt.Errorf("want at most %d bytes", maxCredentialsBytes)
	}
	content = bytes.TrimSuffix(content, []byte("\n"))
	content = bytes.TrimSuffix(content, []byte("\r"))
	user, password, found := strings.Cut(string(content), ":")
	if !found {
		return nil, errors.New("want one line user:password")
	}
	c := &Credentials{user, password}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// check tells what makes c unusable.
func (c *Credentials) check() error {
	switch {
	case c.user == "":
		return errors.New("the user is empty: want user:password")
	case c.password == "":
		return errors.New("the password is empty: want user:password")
	case strings.Contains(c.user, ":"):
		return errors.New("the user has a colon: want user:password")
	}
	for _, r := range c.user + c.password {
		if r < ' ' || r == 0x7f {
			return errors.New("there is a line break or another control character: want one line user:password")
		}
	}
	return nil
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
