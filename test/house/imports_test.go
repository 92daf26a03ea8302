// Package house holds what no compiler holds about the tree as a whole: which package
// may import which, and the labels of the rules in its comments.
package house

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const module = "github.com/leafd/leafd"

// rooms are the packages of the product, from the ground up, each with the packages
// of leafd that it may import: rows above its own, so that no import runs back up.
var rooms = []struct {
	folder  string
	imports []string
}{
	{"clock", nil},
	{"internal/plainfile", nil},
	{"client", nil},                          // for other programs, which get the standard library alone with it
	{"internal/loadtest", []string{"clock"}}, // it looks at a daemon from outside

	{"snowflake", []string{"clock"}},                                                  // a library of its own
	{"segment", []string{"clock"}},                                                    // a library of its own
	{"segment/sqlstore", []string{"internal/plainfile", "segment"}},                   // implements segment.Store
	{"worker", []string{"clock", "snowflake"}},                                        // declares Registry and Cache, and knows no implementation of them
	{"cache", []string{"clock", "internal/plainfile", "worker"}},                      // implements worker.Cache
	{"zkreg/zksession", []string{"internal/plainfile"}},                               // a client of ZooKeeper
	{"zkreg", []string{"clock", "segment", "snowflake", "worker", "zkreg/zksession"}}, // implements worker.Registry and segment.Guard

	{"server/fair", nil},
	{"server/limits", nil},
	{"server/resp", []string{"snowflake"}}, // the protocol; server/ids gives it the IDs
	{"server/condition", []string{"segment", "snowflake", "worker"}},
	{"server/peerclock", []string{"clock"}},
	{"server/metrics", []string{"clock", "segment", "snowflake", "worker", "zkreg", "zkreg/zksession"}}, // cmd puts it beside server
	{"server/conn", []string{"internal/plainfile", "server/condition", "server/fair", "server/resp"}},
	{"server/reply", []string{"segment", "server/condition", "server/conn", "snowflake"}},
	{"server/ids/lend", []string{"clock", "server/fair"}}, // the slots, which know no connection
	{"server/ids", []string{"clock", "segment", "server/conn", "server/fair", "server/ids/lend", "server/limits", "server/reply", "server/resp", "snowflake"}},
	{"server/views", []string{"clock", "segment", "server/condition", "server/conn", "server/fair", "server/ids", "server/reply", "server/resp", "worker"}},
	{"server", []string{"server/condition", "server/conn", "server/ids", "server/reply", "server/resp", "server/views"}},

	{"deploy", nil}, // the sample of the settings
	{"cmd/leafd/internal/alarm", []string{"clock", "server/condition", "server/views"}},
	{"cmd/leafd/internal/settings", []string{"clock", "deploy", "internal/plainfile", "segment", "segment/sqlstore", "server/conn", "server/ids", "server/limits", "server/peerclock", "snowflake", "worker", "zkreg", "zkreg/zksession"}}, // opens nothing
	{"cmd/leafd/internal/daemon", []string{
		"cache", "clock", "cmd/leafd/internal/alarm", "cmd/leafd/internal/settings", "segment", "segment/sqlstore", "server",
		"server/condition", "server/conn", "server/ids", "server/ids/lend", "server/metrics", "server/peerclock", "server/reply", "server/views",
		"snowflake", "worker", "zkreg", "zkreg/zksession",
	}},
	{"cmd/leafd/internal/inspect", []string{"cache", "clock", "cmd/leafd/internal/settings", "server/conn", "server/peerclock", "server/reply", "server/views", "snowflake", "worker", "zkreg"}}, // looks at a cluster from outside of any daemon
	{"cmd/leafd/internal/doctor", []string{
		"cache", "clock", "cmd/leafd/internal/daemon", "cmd/leafd/internal/inspect", "cmd/leafd/internal/settings",
		"internal/plainfile", "segment/sqlstore", "server", "server/views", "worker", "zkreg",
	}},
	{"cmd/leafd/internal/cli", []string{
		"cache", "clock", "deploy", "cmd/leafd/internal/daemon", "cmd/leafd/internal/doctor", "cmd/leafd/internal/inspect",
		"cmd/leafd/internal/settings", "internal/loadtest", "internal/plainfile", "segment", "segment/sqlstore", "server/condition",
		"server/ids", "server/peerclock", "server/reply", "server/views", "snowflake", "worker", "zkreg",
	}},
	{"cmd/leafd", []string{"clock", "cmd/leafd/internal/cli", "cmd/leafd/internal/settings"}}, // gives cli the process and its clock
	{"cmd/leafd/internal/manual", []string{"cmd/leafd/internal/cli"}},                         // the man pages of a package that is built
	{"scripts/sbom", nil},

	// The checker of the chaos runs takes nothing from what it checks: it would repeat leafd's own mistakes.
	{"test/chaos/checker", nil},
}

func TestImportsRunDownward(t *testing.T) {
	var above []string
	for _, r := range rooms {
		require.Subset(t, above, r.imports, "%s is written before what it imports", r.folder)
		above = append(above, r.folder)
	}
	require.Empty(t, misplacedImports(t, os.DirFS("../..")))
	for file, imported := range map[string]string{"worker/a.go": "zkreg", "server/a.go": "test/clocktest", "attic/a.go": "clock"} {
		tree := fstest.MapFS{file: {Data: []byte("package a\n\nimport \"" + module + "/" + imported + "\"\n")}}
		require.Equal(t, []string{file + " imports " + imported}, misplacedImports(t, tree))
	}
}

// misplacedImports returns the imports of leafd's packages that rooms doesn't allow.
// Tests of the product may import all of the product and the kits, which are the
// packages of test/ with names that end in test; the rigs beside them are for themselves.
func misplacedImports(t *testing.T, tree fs.FS) []string {
	t.Helper()
	allowed := map[string][]string{}
	for _, r := range rooms {
		allowed[r.folder] = r.imports
	}
	var found []string
	walk(t, tree, func(file string, source []byte) {
		if !strings.HasSuffix(file, ".go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		require.NoError(t, err)
		folder := path.Dir(file)
		row, isRoom := allowed[folder]
		isTest := strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_chaos.go") // which builds for the rigs alone have
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			imported, ours := strings.CutPrefix(imported, module+"/")
			if !ours || slices.Contains(row, imported) {
				continue
			}
			switch {
			case isRig(imported) && !isRig(folder):
				found = append(found, fmt.Sprintf("%s imports %s, a rig", file, imported))
			case !isTest && (isRoom || !strings.HasPrefix(file, "test/")):
				found = append(found, fmt.Sprintf("%s imports %s", file, imported))
			}
		}
	})
	return found
}

// `go install` refuses a module that replaces others, and programs that import client would get what it replaces.
func TestNothingIsReplaced(t *testing.T) {
	for _, file := range []string{"../../go.mod", "../../client/go.mod"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotRegexp(t, `(?m)^\s*(replace|exclude)\b`, string(text), file)
	}
}

func isRig(folder string) bool {
	below, ok := strings.CutPrefix(folder, "test/")
	return ok && !strings.HasSuffix(below, "test")
}

// walk calls f with each source or text of the tree: nothing that is built, hidden or
// data of a test.
func walk(t *testing.T, tree fs.FS, f func(file string, source []byte)) {
	t.Helper()
	require.NoError(t, fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "testdata", "node_modules", "target"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(file) {
		case ".go", ".md", ".pml", ".tsv", ".sh":
		default:
			return nil
		}
		source, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		f(file, source)
		return nil
	}))
}
