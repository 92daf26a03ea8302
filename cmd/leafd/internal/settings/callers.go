package settings

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/ids"
)

// maxCallers bounds the entries of a tokens-file: each name is a series of a metric.
const maxCallers = 1000

// callerName is what a caller may be called: it has no space, as the admin token's name has.
var callerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// fillCallers reads the file of --tokens-file, after the admin token.
func (c *Config) fillCallers(v *Values) {
	path := c.HTTP.TokensFile
	if path == "" {
		return
	}
	content, mode, err := plainfile.Read(path, maxFileBytes)
	if err == nil {
		c.HTTP.Callers, err = parseCallers(content)
	} else {
		err = fmt.Errorf("it can't be read: %w", bare(err))
	}
	for i, caller := range c.HTTP.Callers {
		if c.HTTP.AdminToken != "" && caller.SHA256 == sha256.Sum256([]byte(c.HTTP.AdminToken)) {
			err = fmt.Errorf("entry %d, %s, has the token of admin-token-file", i+1, caller.Name)
		}
	}
	if err != nil {
		v.refuse("tokens-file", err.Error())
		return
	}
	if mode&0o002 != 0 { // that others read the hashes of tokens does no harm
		c.warn(plainfile.Exposed("tokens-file "+path, mode))
	}
}

// parseCallers returns the callers of a tokens-file.
func parseCallers(content []byte) ([]ids.Caller, error) {
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
	seen := map[[sha256.Size]byte]int{{}: 0} // nothing has the digest zero
	for i, e := range entries {
		refused := func(want string) ([]ids.Caller, error) {
			return nil, fmt.Errorf("entry %d, %.64q: want %s", i+1, e.Name, want)
		}
		c := ids.Caller{Name: e.Name, Admin: e.Admin}
		if !callerName.MatchString(e.Name) {
			return refused("a name of 1 to 64 letters, digits, points, hyphens and underscores")
		}
		if n, err := hex.Decode(c.SHA256[:], []byte(e.SHA256[:min(len(e.SHA256), 2*sha256.Size)])); err != nil || n != sha256.Size || len(e.SHA256) != 2*sha256.Size {
			return refused("in sha256 the token's SHA-256, 64 hexadecimal digits")
		}
		if before, there := seen[c.SHA256]; there {
			return refused(fmt.Sprintf("a token of its own, and not that of entry %d", before))
		}
		seen[c.SHA256] = i + 1
		if e.IDs != "" {
			c.IDs = strings.Split(e.IDs, ",")
		}
		for j, key := range c.IDs {
			c.IDs[j] = strings.TrimSpace(key)
			if prefix := strings.TrimSuffix(c.IDs[j], "*"); c.IDs[j] == "" || len(prefix) > segment.MaxTagBytes || strings.Contains(prefix, "*") {
				return refused("in ids keys, separated by commas, with * at the end alone")
			}
		}
		if len(c.IDs) == 0 && !c.Admin {
			return refused("ids, or admin: true")
		}
		all[i] = c
	}
	return all, nil
}
