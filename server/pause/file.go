package pause

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/renameio/v2"

	"github.com/leafd/leafd/segment"
)

// The file in the data directory: people may read it, only leafd writes it.
const (
	fileName = "stops.json"
	version  = 1
	// maxBytes is room for Max tags and reasons at their longest.
	maxBytes = 16 << 20
)

// leftover matches the temporary files of a write that a crash cut short, as
// renameio names them.
var leftover = regexp.MustCompile(`^\.stops\.json[0-9]+$`)

// document is the file. The checksum is of the list as encoding/json writes it
// without indentation.
type document struct {
	Leafd   int     `json:"leafd"` // version
	SHA256  string  `json:"sha256"`
	Stopped []Entry `json:"stopped"`
}

// fileOps are the steps of a write that tests make fail.
type fileOps struct {
	write   func(*os.Root, []byte) error // atomic, synced
	syncDir func(*os.Root) error
}

func realFiles() fileOps {
	return fileOps{
		write: func(root *os.Root, content []byte) error {
			return renameio.WriteFile(fileName, content, 0o600, renameio.WithRoot(root), renameio.WithStaticPermissions(0o600))
		},
		syncDir: func(root *os.Root) error {
			self, err := root.Open(".")
			if err != nil {
				return err
			}
			return errors.Join(self.Sync(), self.Close())
		},
	}
}

// write records tags for the next Open, or returns ErrNotRecorded. mu is held.
func (s *List) write(tags map[string]*Entry) error {
	content, err := encode(sorted(tags))
	if err == nil {
		err = s.files.write(s.root, content) // pause.T3
	}
	if err == nil {
		err = s.files.syncDir(s.root)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotRecorded, fileName, err)
	}
	return nil
}

func encode(list []Entry) ([]byte, error) {
	sum, err := checksum(list)
	if err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(document{Leafd: version, SHA256: sum, Stopped: list}, "", "  ")
	return append(content, '\n'), err
}

func checksum(list []Entry) (string, error) {
	plain, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:]), nil
}

// read returns the list in the directory; none where there is no file (pause.T4).
func read(root *os.Root) ([]*Entry, error) {
	st, err := root.Lstat(fileName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, damaged("it is no regular file")
	}
	f, err := root.Open(fileName)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	content, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	return decode(content)
}

// decode returns the list in content, or ErrDamaged.
func decode(content []byte) ([]*Entry, error) {
	if len(content) > maxBytes {
		return nil, damaged("it has more than %d bytes", maxBytes)
	}
	var doc document
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return nil, damaged("it is cut short, was altered, or is a newer leafd's (%v)", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, damaged("something follows the list")
	}
	if doc.Leafd != version {
		return nil, damaged("its version is %d, this leafd knows %d", doc.Leafd, version)
	}
	sum, err := checksum(doc.Stopped)
	if err != nil || doc.Stopped == nil || sum != doc.SHA256 {
		return nil, damaged("its list is not the one that its checksum is of")
	}
	seen := make(map[string]bool, len(doc.Stopped))
	list := make([]*Entry, 0, len(doc.Stopped))
	for _, entry := range doc.Stopped {
		odd := strings.ContainsFunc(entry.Tag+entry.Reason, unicode.IsControl)
		if entry.Tag == "" || len(entry.Tag) > segment.MaxTagBytes || odd || seen[entry.Tag] || utf8.RuneCountInString(entry.Reason) > MaxReason {
			return nil, damaged("it has an entry that leafd never wrote, for the tag %.40q", entry.Tag)
		}
		seen[entry.Tag] = true
		list = append(list, &entry)
	}
	return list, nil
}

// damaged returns ErrDamaged with what is wrong and what to do about it.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s; no tag is served until it is known which are stopped: read the file, move it away, "+
		"start leafd, and stop the tags again that are to be stopped", ErrDamaged, fmt.Sprintf(format, args...))
}

// removeLeftovers removes the temporary files of a crash. One that can't be removed
// does no harm.
func removeLeftovers(root *os.Root) {
	self, err := root.Open(".")
	if err != nil {
		return
	}
	defer self.Close() //nolint:errcheck // read only
	names, _ := self.Readdirnames(-1)
	for _, name := range names {
		if leftover.MatchString(name) {
			_ = root.Remove(name)
		}
	}
}
