package house

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The table of rules, and what it is compared with.
const (
	rulesPage   = "docs/ARCHITECTURE.md"
	mutantsFile = "test/chaos/mutants/mutants.go"
	modelsFile  = "spec/runs.tsv"
	exploreFile = "worker/explore_rules_test.go"
	provedFile  = "spec/rules.tsv"
)

var (
	// A rule is defined by its name, of two words or more, in a list of a comment.
	ruleDefined = regexp.MustCompile(`^\s*//\t([a-z]+(?:-[a-z]+)+)  \S`)
	ruleRow     = regexp.MustCompile("^- `([a-z-]+)`: .+\\. `([^`]+)`; ([^;]+); (.+)$")
	testNamed   = regexp.MustCompile("`(Test\\w+)`")
	testMade    = regexp.MustCompile(`^func (Test\w+)\(`)
	breaksNamed = regexp.MustCompile(`(mutant|model)s? (\*[^;]+\*)`)
	// A rule of provedFile: of sections 3 and 6 the table's, with "?" not yet there; with "-" not in the proof.
	provedRule  = regexp.MustCompile(`(?m)^([0-9a-z]+|-)(\??)\t([a-z-]+)(\t.*)?$`)
	provedRooms = regexp.MustCompile(`^(worker|zkreg|cache|segment)/`)
	provedNamed = regexp.MustCompile(`\bproof(?: of ([a-z-]+))?`)
	// numbered is a rule by package, letter and number, which says nothing to its reader.
	numbered = regexp.MustCompile(`\b[a-z]+\.[A-Z]\d+\b`)
)

func TestRules(t *testing.T) {
	require.Empty(t, wrongRules(t, os.DirFS("../..")))
	require.Equal(t, []string{
		`two-words is in the table as kept in a/a.go, and defined in ""`, "two-words names TestA, and there is no such test", "two-words names the proof, and is no rule of " + provedFile,
		"two-words names the mutant one, and there is none", "more-words is defined in b/b.go, and not in the table of " + rulesPage,
	}, wrongRules(t, fstest.MapFS{
		rulesPage: {Data: []byte("- `two-words`: it holds. `a/a.go`; `TestA`; mutant *one*; proof\n")}, "b/b.go": {Data: []byte("package b\n\n//\tmore-words  More.\n")},
	}))
}

// wrongRules returns where the table of rules and the rest of the tree differ.
func wrongRules(t *testing.T, tree fs.FS) (wrong []string) {
	t.Helper()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	packages, tests, defined := map[string]bool{}, map[string]bool{}, map[string]string{}
	files := map[string]string{}
	walk(t, tree, func(file string, source []byte) {
		files[file] = string(source)
		if path.Ext(file) != ".go" {
			return
		}
		packages[path.Base(path.Dir(file))] = true
		for line := range strings.Lines(string(source)) {
			if m := testMade.FindStringSubmatch(line); m != nil {
				tests[m[1]] = true
			}
			if m := ruleDefined.FindStringSubmatch(line); m != nil {
				if at, twice := defined[m[1]]; twice {
					say("%s is defined in %s and in %s", m[1], at, file)
				}
				defined[m[1]] = file
			}
		}
	})
	for _, file := range slices.Sorted(maps.Keys(files)) {
		for _, label := range numbered.FindAllString(files[file], -1) {
			if of, _, _ := strings.Cut(label, "."); packages[of] {
				say("%s speaks of %s, which is no name", file, label)
			}
		}
	}
	rows, proved := map[string]bool{}, map[string]string{}
	for _, m := range provedRule.FindAllStringSubmatch(files[provedFile], -1) {
		proved[m[3]] = m[1]
	}
	for line := range strings.Lines(files[rulesPage]) {
		row := ruleRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		name, file, without := row[1], row[2], row[4]
		rows[name] = true
		if defined[name] != file {
			say("%s is in the table as kept in %s, and defined in %q", name, file, defined[name])
		}
		if len(testNamed.FindAllString(row[3], -1)) == 0 {
			say("%s has no test", name)
		}
		for _, m := range testNamed.FindAllStringSubmatch(row[3]+without, -1) {
			if !tests[m[1]] {
				say("%s names %s, and there is no such test", name, m[1])
			}
		}
		breaks := 0
		if strings.Contains(without, "exploration") {
			breaks++
			if !strings.Contains(files[exploreFile], `"`+name+`"`) && !strings.Contains(files[exploreFile], `"`+name+`: `) {
				say("%s is not taken out in %s", name, exploreFile)
			}
		}
		section, listed := proved[name]
		by := provedNamed.FindStringSubmatch(without)
		if by != nil {
			breaks++
			if of := proved[cmp.Or(by[1], name)]; of == "" || of == "-" {
				say("%s names the proof, and is no rule of %s", name, provedFile)
			}
		}
		switch {
		case provedRooms.MatchString(file) && !listed:
			say("%s is kept in %s, and not in %s", name, file, provedFile)
		case by == nil && listed && section != "-":
			say("%s is in %s, and the table doesn't name the proof", name, provedFile)
		}
		for _, m := range breaksNamed.FindAllStringSubmatch(without, -1) {
			for _, one := range strings.Split(strings.Trim(m[2], "*"), "*, *") {
				breaks++
				in, want := files[mutantsFile], `Name: "`+one+`"`
				if m[1] == "model" {
					in, want = "\n"+files[modelsFile], "\n"+strings.ReplaceAll(one, " ", "\t")+"\t"
				}
				if !strings.Contains(in, want) {
					say("%s names the %s %s, and there is none", name, m[1], one)
				}
			}
		}
		if breaks == 0 && !testNamed.MatchString(without) {
			say("%s has nothing that takes it out", name)
		}
	}
	for _, m := range provedRule.FindAllStringSubmatch(files[provedFile], -1) {
		switch section, later, name := m[1], m[2] != "", m[3]; {
		case later && rows[name]:
			say("%s is in the table: %s needs no ? there", name, provedFile)
		case !later && !rows[name] && (section == "3" || section == "6" || section == "-"):
			say("%s is in %s, and not in the table of %s", name, provedFile, rulesPage)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		if !rows[name] {
			say("%s is defined in %s, and not in the table of %s", name, defined[name], rulesPage)
		}
	}
	return wrong
}
