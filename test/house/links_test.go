package house

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const (
	firstPage     = "README.md"
	questionsPage = "docs/QUESTIONS.md"
	questions     = 20
	clicks        = 3 // from the README to an answer, at most
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	question = regexp.MustCompile(`^\d+\. .*\? (\[.*\]\(.*\).*)$`)
	runbook  = regexp.MustCompile(`runbook_url: https://github.com/leafd/leafd/blob/main/(\S+)`)
	named    = regexp.MustCompile(`\b((?:docs|spec)/[\w/-]+\.md)\b`)
	code     = regexp.MustCompile("`[^`]*`")
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Each link in the manual, in the alert rules and in the sources leads to a page, and to a heading
// where it names one. The questions have answers that are few clicks from the README.
func TestLinks(t *testing.T) {
	require.Empty(t, deadLinks(t, os.DirFS("../..")))
	found := deadLinks(t, fstest.MapFS{
		firstPage: {Data: []byte("[C](docs/C.md) [B](docs/B.md#other)")}, "docs/B.md": {Data: []byte("# B\n")}, "deploy/prometheus/alerts.yml": {},
	})
	require.Equal(t, []string{
		"README.md: docs/C.md is no file", "README.md: docs/B.md has no heading #other", "docs/QUESTIONS.md has 0 questions with an answer, and not 20", "docs/QUESTIONS.md is not reached from README.md",
	}, found)
}

// deadLinks returns the links that lead nowhere, and what is wrong with the questions.
func deadLinks(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var dead []string
	links := map[string][]string{} // the pages that each page has links to
	check := func(from, target string) {
		page, heading, _ := strings.Cut(target, "#")
		if page == "" {
			page = from
		}
		text, err := fs.ReadFile(tree, page)
		if info, infoErr := fs.Stat(tree, page); infoErr == nil && info.IsDir() {
			err = nil
		}
		switch {
		case err != nil:
			dead = append(dead, fmt.Sprintf("%s: %s is no file", from, page))
		case heading != "" && !slices.Contains(headings(string(text)), heading):
			dead = append(dead, fmt.Sprintf("%s: %s has no heading #%s", from, page, heading))
		default:
			links[from] = append(links[from], page)
		}
	}
	asked := 0
	walk(t, tree, func(file string, source []byte) {
		if path.Ext(file) != ".md" {
			for _, found := range named.FindAllSubmatch(source, -1) {
				if file != "test/house/links_test.go" {
					check(file, string(found[1]))
				}
			}
			return
		}
		for _, line := range prose(string(source)) {
			if file == questionsPage && question.MatchString(line) {
				asked++
			}
			for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "`"), -1) {
				switch target := found[1]; {
				case strings.Contains(target, "://"):
				case strings.HasPrefix(target, "#"):
					check(file, target)
				default:
					check(file, path.Join(path.Dir(file), target))
				}
			}
		}
	})
	rules, err := fs.ReadFile(tree, "deploy/prometheus/alerts.yml")
	require.NoError(t, err)
	for _, found := range runbook.FindAllSubmatch(rules, -1) {
		check("deploy/prometheus/alerts.yml", string(found[1]))
	}
	if asked != questions {
		dead = append(dead, fmt.Sprintf("%s has %d questions with an answer, and not %d", questionsPage, asked, questions))
	}
	far := distances(links)
	for _, page := range append([]string{questionsPage}, links[questionsPage]...) {
		if d, reached := far[page]; !reached {
			dead = append(dead, fmt.Sprintf("%s is not reached from %s", page, firstPage))
		} else if d > clicks {
			dead = append(dead, fmt.Sprintf("%s is %d clicks from %s", page, d, firstPage))
		}
	}
	return dead
}

// distances returns how many links each page is away from the first one.
func distances(links map[string][]string) map[string]int {
	far := map[string]int{firstPage: 0}
	for queue := []string{firstPage}; len(queue) > 0; queue = queue[1:] {
		for _, next := range links[queue[0]] {
			if _, seen := far[next]; !seen {
				far[next] = far[queue[0]] + 1
				queue = append(queue, next)
			}
		}
	}
	return far
}

// prose returns the lines of a page that are no code.
func prose(page string) []string {
	var lines []string
	fenced := false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// headings returns the anchors of a page's headings, as GitHub makes them.
func headings(page string) []string {
	var all []string
	for _, line := range prose(page) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		title = link.ReplaceAllString(title, "")
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
	}
	return all
}
