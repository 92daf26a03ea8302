package zksession

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

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

// authRetry is the pause after credentials that were refused.
const authRetry = time.Second

// authenticate sends the credentials until a server took them; it ends then, or
// with the session. From then on go-zookeeper sends them itself at the start of
// each connection, before any request.
func (s *Session) authenticate() {
	for {
		connection, err := s.enter(s.ctx, call{credentials: true})
		if err != nil { // closed
			return
		}
		err = s.send(func() error { return s.conn.AddAuth("digest", s.cfg.Auth.digest()) })
		s.count(0, -1)
		switch {
		case err == nil && s.accepted(connection):
			return
		case err == nil:
			continue // over a connection that is gone; once more over this one
		case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer):
		default:
			s.refused(err)
		}
		select {
		case <-time.After(authRetry):
		case <-s.ctx.Done():
		}
	}
}

// accepted notes that connection carries the credentials, and that all later ones will.
// False where there is another one already: it may have been opened before go-zookeeper
// remembered them.
func (s *Session) accepted(connection uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up || s.connection != connection {
		return false
	}
	s.authenticated, s.refusal = true, nil
	s.requestsPassLocked()
	s.changedLocked()
	return true
}

// refused notes why a server refused the credentials, and tells it the first time.
func (s *Session) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.refusal != nil
	s.refusal = fmt.Errorf("server %s refused the credentials of user %q: %w", s.info.Server, s.cfg.Auth.user, err)
	s.turnLocked(AuthFailed)
	if !told {
		s.raiseLocked(EventAuthFailed, s.refusal)
	}
}
