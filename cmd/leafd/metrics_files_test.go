package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/doctest"
)

// What is shipped for Prometheus and Grafana.
const (
	alertsFile     = "../../deploy/prometheus/alerts.yml"
	alertsTestFile = "../../deploy/prometheus/alerts_test.yml"
	dashboardFile  = "../../deploy/grafana/leafd.json"
	metricsDoc     = "../../docs/METRICS.md"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// checkDocumented compares the list in docs/METRICS.md with the metrics of a daemon that has
// everything to tell.
func checkDocumented(t *testing.T, page scraped) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(page)) {
		family := page[name]
		if !strings.HasPrefix(name, "leafd_") {
			continue
		}
		require.NotEmpty(t, family.GetHelp(), name)
		labels := labelNames(family.GetMetric()[0])
		for _, m := range family.GetMetric() {
			require.Equal(t, labels, labelNames(m), name)
		}
		for i, label := range labels {
			labels[i] = " `" + label + "`"
		}
		kind := dto.MetricType_GAUGE // as the page says, by the end of the name
		if strings.HasSuffix(name, "_total") {
			kind = dto.MetricType_COUNTER
		} else if strings.HasSuffix(name, "_duration_seconds") {
			kind = dto.MetricType_HISTOGRAM
		}
		require.Equal(t, kind, family.GetType(), name)
		fmt.Fprintf(&b, "- `%s`%s: %s\n", name, strings.Join(labels, ""), family.GetHelp())
	}
	doctest.Current(t, metricsDoc, map[string]string{"metrics": b.String()})
}

func labelNames(m *dto.Metric) []string {
	var names []string
	for _, l := range m.GetLabel() {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return names
}

// ruleFile is the form of alerts.yml.
type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alertRules(t *testing.T) []rule {
	t.Helper()
	var f ruleFile
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, alertsFile)), &f))
	var all []rule
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// dashboard is what of the form of leafd.json matters here.
type dashboard struct {
	UID    string
	Panels []struct {
		ID          int
		Type, Title string
		Datasource  struct{ UID string }
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr string }
	}
	Templating  struct{ List []struct{ Query any } }
	Annotations struct{ List []struct{ Expr string } }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	return clitest.FromJSON[dashboard](t, readFile(t, dashboardFile))
}

// expressions are those of all panels, with what Grafana puts in for its variables.
func (d dashboard) expressions() []string {
	fill := strings.NewReplacer("$__rate_interval", "1m", "$job", "leafd", "$instance", ".*")
	var all []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, fill.Replace(target.Expr))
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			all = append(all, fill.Replace(a.Expr))
		}
	}
	return all
}

// metricsIn returns the names of metrics in text, histograms by their own name.
func metricsIn(text string) []string {
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(?:leafd|process|go)_[a-z0-9_]+`).FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && strings.HasSuffix(base, "_seconds") {
				name = base
			}
		}
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// named finds the values of labels that have the names of conditions: there is no other name for one.
var named = regexp.MustCompile(`(leafd_\w+)\{(?:[^}]*,)?\s*(code|state|reason)(?:=|!=|=~|!~)"([^"]+)"`)

// checkUsed looks for each metric that rules, dashboard and docs name on the page of
// a daemon that has everything to tell, with the values that they name.
func checkUsed(t *testing.T, page scraped) {
	t.Helper()
	var texts []string
	for _, r := range alertRules(t) {
		texts = append(texts, r.Expr)
	}
	texts = append(texts, readDashboard(t).expressions()...)
	for _, v := range readDashboard(t).Templating.List {
		texts = append(texts, fmt.Sprint(v.Query))
	}
	texts = append(texts, readFile(t, alertsTestFile), readFile(t, metricsDoc))
	for _, text := range texts {
		for _, name := range metricsIn(text) {
			if !strings.HasSuffix(name, "_") { // `leafd_worker_…` stands for many
				require.Contains(t, page, name, "in %s", text)
			}
		}
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			for word := range strings.SplitSeq(found[3], "|") {
				is := regexp.MustCompile("^(" + word + ")$")
				require.True(t, slices.ContainsFunc(page[found[1]].GetMetric(), func(m *dto.Metric) bool {
					return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == found[2] && is.MatchString(l.GetValue()) })
				}), "%s of %s has no value %q", found[2], found[1], word)
			}
		}
	}
}

func TestAlertRules(t *testing.T) {
	t.Parallel()
	tested := readFile(t, alertsTestFile)
	seen := map[string]bool{}
	for _, r := range alertRules(t) {
		require.False(t, seen[r.Alert], r.Alert)
		seen[r.Alert] = true
		require.Contains(t, tested, fmt.Sprintf(`alertname=%q,alertstate="firing"`, r.Alert), "is never seen to fire")
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Contains(t, r.Annotations["runbook_url"], "https://github.com/leafd/leafd/blob/main/", "test/house follows it: %s", r.Alert)
	}
}

func TestDashboardOfGrafana(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	require.Equal(t, "leafd", d.UID)
	require.NotContains(t, readFile(t, dashboardFile), "__inputs", "it is imported as it is")
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "panel %d twice", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies on it", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" {
			require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
			require.NotEmpty(t, p.Targets, p.Title)
		}
		for _, target := range p.Targets {
			require.Contains(t, target.Expr, `job="$job"`, p.Title)
		}
	}
}

// TestPromtool: Prometheus' own tool takes the alert rules and their tests, and the dashboard's queries, as rules.
func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	require.Contains(t, promtool("check", "rules", alertsFile), "SUCCESS")
	require.Contains(t, promtool("test", "rules", alertsTestFile), "SUCCESS")
	rules := "groups:\n- name: dashboard\n  rules:\n"
	expressions := readDashboard(t).expressions()
	require.NotEmpty(t, expressions)
	for i, expr := range expressions {
		rules += fmt.Sprintf("  - record: query:%d\n    expr: %q\n", i, expr)
	}
	said := promtool("check", "rules", clitest.WriteFile(t, "rules.yml", rules))
	require.Contains(t, said, fmt.Sprintf("SUCCESS: %d rules found", len(expressions)))
}
