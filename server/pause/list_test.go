package pause

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// reopened closes s and returns what the next start finds in dir.
func reopened(t *testing.T, s *List, dir string) *List {
	t.Helper()
	require.NoError(t, s.Close())
	return opened(t, dir)
}

func opened(t *testing.T, dir string) *List {
	t.Helper()
	s, err := Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStopAndStart(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	require.Nil(t, s.Get([]byte("order")))
	require.Empty(t, s.All())
	require.NoFileExists(t, filepath.Join(dir, fileName))

	was, err := s.Start("order")
	require.NoError(t, err)
	require.False(t, was)

	got, err := s.Stop("order", "a client loops: \"näh\" <b>", 1000)
	require.NoError(t, err)
	require.Equal(t, Entry{"order", "a client loops: \"näh\" <b>", 1000}, got)
	_, err = s.Stop("a/b", "", 2000)
	require.NoError(t, err)
	want := []Entry{{"a/b", "", 2000}, {"order", "a client loops: \"näh\" <b>", 1000}}
	require.Equal(t, want, s.All())

	s = reopened(t, s, dir)
	require.Equal(t, want, s.All())
	require.Equal(t, 2, s.Len())
	require.Equal(t, "a/b", s.Get([]byte("a/b")).Tag)
	require.Nil(t, s.Get([]byte("a")))

	got, err = s.Stop("order", "another", 3000)
	require.NoError(t, err)
	require.Equal(t, Entry{"order", "another", 1000}, got, "it is stopped since it was first")
	got, err = s.Stop("order", "", 4000)
	require.NoError(t, err)
	require.Equal(t, Entry{"order", "another", 1000}, got, "no reason is no other reason")
	was, err = s.Start("a/b")
	require.NoError(t, err)
	require.True(t, was)
	s = reopened(t, s, dir)
	require.Equal(t, []Entry{{"order", "another", 1000}}, s.All())
	was, err = s.Start("order")
	require.NoError(t, err)
	require.True(t, was)
	require.Nil(t, s.Get([]byte("order")))
	require.Empty(t, reopened(t, s, dir).All())
}

func TestNilHasNoneStopped(t *testing.T) {
	var s *List
	require.Nil(t, s.Get([]byte("order")))
	require.Zero(t, s.Len())
	require.Equal(t, []Entry{}, s.All())
}

func TestGetAllocatesNothing(t *testing.T) {
	s := opened(t, t.TempDir())
	_, err := s.Stop("order", "", 1)
	require.NoError(t, err)
	key := []byte("order")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if s.Get(key) == nil {
			t.Error("it runs")
		}
	}))
}

// pause.T1, pause.T2: whatever step of a change fails, the tag is stopped.
func TestChangeThatCanNotBeWritten(t *testing.T) {
	full := errors.New("no space left")
	for name, breakIt := range map[string]func(*fileOps){
		"write":              func(f *fileOps) { f.write = func(*os.Root, []byte) error { return full } },
		"sync the directory": func(f *fileOps) { f.syncDir = func(*os.Root) error { return full } },
	} {
		t.Run(name, func(t *testing.T) {
			files := realFiles()
			s, err := open(t.TempDir(), files)
			require.NoError(t, err)
			defer s.Close() //nolint:errcheck // of a test
			_, err = s.Stop("before", "", 1)
			require.NoError(t, err)
			breakIt(&s.files)
			got, err := s.Stop("order", "now", 2)
			require.ErrorIs(t, err, ErrNotRecorded)
			require.ErrorIs(t, err, full)
			require.Equal(t, Entry{"order", "now", 2}, got)
			require.NotNil(t, s.Get([]byte("order")))
			for _, tag := range []string{"order", "before"} {
				was, err := s.Start(tag)
				require.ErrorIs(t, err, ErrNotRecorded)
				require.True(t, was)
				require.NotNil(t, s.Get([]byte(tag)))
			}
			s.files = files
			_, err = s.Start("before")
			require.NoError(t, err)
			require.Nil(t, s.Get([]byte("before")))
			require.NotNil(t, s.Get([]byte("order")))
		})
	}
}

// The real thing: a directory whose files can't be replaced.
func TestDirectoryThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	s := opened(t, dir)
	require.NoError(t, os.RemoveAll(dir))
	_, err := s.Stop("order", "", 1)
	require.ErrorIs(t, err, ErrNotRecorded)
	require.NotNil(t, s.Get([]byte("order")))
	require.NoDirExists(t, dir)
}

func TestTooMany(t *testing.T) {
	s := opened(t, t.TempDir())
	s.files = fileOps{write: func(*os.Root, []byte) error { return nil }, syncDir: func(*os.Root) error { return nil }}
	tags := make(map[string]*Entry, Max)
	for i := range Max {
		tag := fmt.Sprintf("tag-%d", i)
		tags[tag] = &Entry{Tag: tag}
	}
	s.now.Store(&tags)
	_, err := s.Stop("one more", "", 1)
	require.ErrorIs(t, err, ErrTooMany)
	require.Nil(t, s.Get([]byte("one more")))
	_, err = s.Stop("tag-7", "another reason", 1)
	require.NoError(t, err)
	_, err = s.Start("tag-8")
	require.NoError(t, err)
	_, err = s.Stop("one more", "", 1)
	require.NoError(t, err)
}

// pause.T3, pause.T4: no byte of the file can be cut off or changed unnoticed.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	for _, tag := range []string{"order", "user"} {
		_, err := s.Stop(tag, "why", 1700000000000)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	path := filepath.Join(dir, fileName)
	good, err := os.ReadFile(path)
	require.NoError(t, err)

	refused := func(t *testing.T, content []byte, what string) {
		t.Helper()
		list, err := decode(content)
		if err == nil { // white space may come and go, and letters' case in names of fields
			require.Equal(t, []*Entry{{"order", "why", 1700000000000}, {"user", "why", 1700000000000}}, list, what)
			return
		}
		require.ErrorIs(t, err, ErrDamaged, what)
	}
	for n := range len(good) - 1 {
		refused(t, good[:n], fmt.Sprintf("cut off after %d bytes", n))
	}
	for i := range good {
		for _, bit := range []byte{1, 0x20} {
			bad := bytes.Clone(good)
			bad[i] ^= bit
			refused(t, bad, fmt.Sprintf("bit %x of byte %d", bit, i))
		}
	}
	for name, content := range map[string]string{
		"empty":              "",
		"no list":            `{"leafd":1,"sha256":""}`,
		"null":               `{"leafd":1,"sha256":"74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b","stopped":null}`,
		"newer":              strings.Replace(string(good), `"leafd": 1`, `"leafd": 2`, 1),
		"unknown field":      strings.Replace(string(good), `"leafd": 1`, `"leafd": 1, "until": 5`, 1),
		"twice":              string(good) + string(good),
		"a tag that is long": strings.Replace(string(good), "user", strings.Repeat("u", 129), 1),
		"one tag edited out": strings.Replace(string(good), "user", "usr", 1),
		"too large":          string(good) + strings.Repeat(" ", maxBytes),
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := Open(dir)
		require.ErrorIs(t, err, ErrDamaged, name)
		require.ErrorContains(t, err, path)
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err = Open(dir)
	require.ErrorIs(t, err, ErrDamaged)
}

func TestLeftoversOfACrash(t *testing.T) {
	dir := t.TempDir()
	left, other := filepath.Join(dir, ".stops.json123"), filepath.Join(dir, "stops.json123")
	for _, path := range []string{left, other} {
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	}
	require.Empty(t, opened(t, dir).All())
	require.NoFileExists(t, left)
	require.FileExists(t, other)
}

func TestNoDirectory(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestConcurrentChanges(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			tag := fmt.Sprintf("tag-%d", i)
			for range 3 {
				if _, err := s.Stop(tag, "", 1); err != nil {
					t.Error(err)
				}
				if s.Get([]byte(tag)) == nil {
					t.Error("not in force when Stop returned")
				}
				if _, err := s.Start(tag); err != nil {
					t.Error(err)
				}
				if s.Get([]byte(tag)) != nil {
					t.Error("not in force when Start returned")
				}
			}
			if _, err := s.Stop(tag, "", 1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, reopened(t, s, dir).All(), 8)
}

func FuzzDecode(f *testing.F) {
	good, err := encode([]Entry{{"order", "why", 5}})
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, err := decode(content)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		var plain []Entry
		for _, stop := range list {
			plain = append(plain, *stop)
		}
		again, err := encode(append([]Entry{}, plain...))
		require.NoError(t, err)
		back, err := decode(again)
		require.NoError(t, err)
		require.Equal(t, list, back)
	})
}
