package house

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A label is the name of a rule: the package, a letter and a number, as in
// worker plus .U4. A list in a comment of that package defines it; comments, documents,
// models and mutants speak of it, also as "U1 to U3" and "U1, U4" after the first one.
var (
	defined   = regexp.MustCompile(`^\s*//\t([a-z]+\.[A-Z]\d+) `)
	mentioned = regexp.MustCompile(`\b([a-z]+)\.([A-Z])(\d+)((?:(?:, | and | or | to |–)(?:[a-z]+\.)?[A-Z]\d+)*)\b`)
	following = regexp.MustCompile(`(, | and | or | to |–)(?:([a-z]+)\.)?([A-Z])(\d+)`)
)

func TestLabels(t *testing.T) {
	require.Empty(t, wrongLabels(t, os.DirFS("../..")))
}

func TestWrongLabels(t *testing.T) {
	const rules = "package a\n\n// What holds:\n//\n//\ta.X1  One.\n//\ta.X2  Two.\n//\ta.X3  Three.\nvar a int\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		says  []string
	}{
		{"a range", map[string]string{"a/rules.go": rules, "b.md": "See a.X1 to X3."}, nil},
		{"a list", map[string]string{"a/rules.go": rules, "b.md": "See a.X1, X2 and a.X3."}, nil},
		{
			"defined twice",
			map[string]string{"a/rules.go": rules, "a/more.go": "package a\n\n//\ta.X2  Another.\n", "b.md": "a.X1 to X3"},
			[]string{"a.X2 is defined in a/more.go and in a/rules.go"},
		},
		{
			"defined twice in one file",
			map[string]string{"a/rules.go": rules + "//\ta.X3  Another.\n", "b.md": "a.X1 to X3"},
			[]string{"a.X3 is defined in a/rules.go and in a/rules.go"},
		},
		{
			"defined nowhere",
			map[string]string{"a/rules.go": rules, "b.md": "a.X1 to X4"},
			[]string{"a.X4 is defined nowhere, and b.md speaks of it"},
		},
		{
			"spoken of in its own file alone",
			map[string]string{"a/rules.go": rules + "// a.X3 again.\n", "b.md": "a.X1 and X2"},
			[]string{"a.X3 is defined in a/rules.go, and no other file speaks of it"},
		},
		{
			"another package's",
			map[string]string{"b/rules.go": rules, "a/a.go": "package a\n", "b.md": "a.X1 to X3"},
			[]string{"a.X1 is defined in b/rules.go, of another package", "a.X2 is defined in b/rules.go, of another package", "a.X3 is defined in b/rules.go, of another package"},
		},
		{"no label", map[string]string{"a/rules.go": rules, "b.md": "a.X1 to X3, strings.X9"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for file, text := range c.files {
				tree[file] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.says, wrongLabels(t, tree))
		})
	}
}

// wrongLabels returns the labels that are defined twice, nowhere, or for no other file.
func wrongLabels(t *testing.T, tree fs.FS) []string {
	t.Helper()
	packages := map[string]bool{}
	definitions, mentions := map[string][]string{}, map[string][]string{} // the files of each label
	walk(t, tree, func(file string, source []byte) {
		if path.Ext(file) == ".go" {
			packages[path.Base(path.Dir(file))] = true
		}
		for line := range strings.Lines(string(source)) {
			rest := line
			if d := defined.FindStringSubmatch(line); d != nil {
				definitions[d[1]] = append(definitions[d[1]], file)
				rest = strings.TrimPrefix(rest, d[0])
			}
			for _, label := range labelsIn(rest) {
				mentions[label] = append(mentions[label], file)
			}
		}
	})
	var wrong []string
	for _, label := range slices.Sorted(maps.Keys(definitions)) {
		files := definitions[label]
		switch of, _, _ := strings.Cut(label, "."); {
		case len(files) > 1:
			wrong = append(wrong, fmt.Sprintf("%s is defined in %s", label, strings.Join(files, " and in ")))
		case path.Base(path.Dir(files[0])) != of:
			wrong = append(wrong, fmt.Sprintf("%s is defined in %s, of another package", label, files[0]))
		case !slices.ContainsFunc(mentions[label], func(file string) bool { return file != files[0] }):
			wrong = append(wrong, fmt.Sprintf("%s is defined in %s, and no other file speaks of it", label, files[0]))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(mentions)) {
		if of, _, _ := strings.Cut(label, "."); packages[of] && definitions[label] == nil {
			wrong = append(wrong, fmt.Sprintf("%s is defined nowhere, and %s speaks of it", label, mentions[label][0]))
		}
	}
	return wrong
}

// labelsIn returns the labels that a line speaks of, those between the ends of a range
// included.
func labelsIn(line string) []string {
	var found []string
	for _, first := range mentioned.FindAllStringSubmatch(line, -1) {
		of, letter, number := first[1], first[2], atoi(first[3])
		found = append(found, label(of, letter, number))
		for _, next := range following.FindAllStringSubmatch(first[4], -1) {
			if next[2] != "" {
				of = next[2]
			}
			from, to := atoi(next[4]), atoi(next[4])
			if ranged := next[1] == " to " || next[1] == "–"; ranged && next[3] == letter {
				from = number + 1
			}
			for n := from; n <= to; n++ {
				found = append(found, label(of, next[3], n))
			}
			letter, number = next[3], to
		}
	}
	return found
}

func label(of, letter string, number int) string { return of + "." + letter + strconv.Itoa(number) }

func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
