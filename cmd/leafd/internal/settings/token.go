package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
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
	if warning != "" {
		c.Warnings = append(c.Warnings, warning)
	}
	c.HTTP.AdminToken = token
}

// ReadToken returns the token in the file path, without the white space around
// it, and a warning where others can read the file.
func ReadToken(path string) (token, warning string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", fmt.Errorf("want a readable file: %w", bare(err))
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return "", "", fmt.Errorf("want a readable file: %w", bare(err))
	}
	if info.IsDir() {
		return "", "", errors.New("want a file, not a directory")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if err != nil {
		return "", "", fmt.Errorf("want a readable file: %w", bare(err))
	}
	if len(content) > maxTokenBytes {
		return "", "", fmt.Errorf("want a token of at most %d bytes", maxTokenBytes)
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
	if mode := info.Mode().Perm(); mode&0o004 != 0 {
		warning = fmt.Sprintf("admin-token-file %s is readable to every user of this machine (mode %04o): chmod o-r", path, mode)
	}
	return string(content), warning, nil
}

// bare is err without the path that the setting's value shows already.
func bare(err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
