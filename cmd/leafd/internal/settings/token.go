package settings

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/leafd/leafd/internal/plainfile"
)

// Bounds of an admin token, in bytes.
const (
	minTokenBytes = 16
	maxTokenBytes = 4096
)

// fillToken reads the file of --admin-token-file. The token itself is never in
// an error or a warning.
func (c *Config) fillToken(v *Values) {
	path := c.HTTP.AdminTokenFile
	if path == "" {
		return
	}
	token, warning, err := ReadToken(path)
	if err != nil {
		v.refuse("admin-token-file", err.Error())
		return
	}
	c.warn(warning)
	c.HTTP.AdminToken = token
}

// ReadToken returns the token in the file path, without the white space around
// it, and a warning where others can read the file.
func ReadToken(path string) (token, warning string, err error) {
	content, mode, err := plainfile.Read(path, maxTokenBytes)
	if err != nil {
		return "", "", fmt.Errorf("it can't be read: %w", bare(err))
	}
	content = bytes.TrimSpace(content)
	if len(content) < minTokenBytes {
		return "", "", fmt.Errorf("the token has %d bytes: want %d or more", len(content), minTokenBytes)
	}
	for _, b := range content {
		if b <= ' ' || b > '~' {
			return "", "", errors.New("the token has a space or a character that an HTTP header can't carry: want printable ASCII on one line")
		}
	}
	return string(content), plainfile.Exposed("admin-token-file "+path, mode), nil
}

// bare is err without the path that the setting's value shows already.
func bare(err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
