package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// asManifests are values with which the chart has what the manifests have.
//
//nolint:gochecknoglobals // never written to
var asManifests = map[string]any{
	"zookeeper": map[string]any{"auth": "leafd:CHANGE-ME"},
	"mysql":     map[string]any{"dsn": "leafd:CHANGE-ME@tcp(mariadb:3306)/leaf"},
}

// rendered returns the documents of the chart as a first installation has them, by template.
func rendered(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	c, err := loader.LoadDir(top + "helm/leafd")
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "leafd", Namespace: "ids", IsInstall: true}, nil)
	require.NoError(t, err)
	files, err := engine.Engine{Strict: true}.Render(c, all)
	texts := map[string]string{}
	for path, text := range files {
		if name := filepath.Base(path); strings.HasSuffix(name, ".yaml") {
			texts[name] = text
		}
	}
	return texts, err
}

// render returns what the chart has with the values, the last of which counts.
func render(t *testing.T, values ...map[string]any) manifests {
	t.Helper()
	all := map[string]any{}
	for _, v := range values {
		maps.Copy(all, v)
	}
	files, err := rendered(t, all)
	require.NoError(t, err)
	return parse(t, files)
}

// alike returns a pod's spec without what the chart and the manifests have different names for.
func alike(t *testing.T, template corev1.PodTemplateSpec) string {
	t.Helper()
	spec := template.Spec.DeepCopy()
	for i := range spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(spec.TopologySpreadConstraints[i].LabelSelector)
		require.NoError(t, err)
		require.True(t, selector.Matches(labels.Set(template.Labels)))
		spec.TopologySpreadConstraints[i].LabelSelector = nil
	}
	for i := range spec.Containers {
		spec.Containers[i].ImagePullPolicy = ""
	}
	text, err := yaml.Marshal(spec)
	require.NoError(t, err)
	return string(text)
}

// TestChartIsTheManifests: with the same values the chart's pods, volumes and settings are those
// of deploy/kubernetes, so that neither is changed without the other.
func TestChartIsTheManifests(t *testing.T) {
	m := read(t)
	for kind, file := range map[string]string{"StatefulSet": "statefulset.yaml", "Deployment": "deployment.yaml"} {
		c := render(t, asManifests, map[string]any{"kind": kind, "clusterInit": true})
		require.Equal(t, alike(t, m.pods[file]), alike(t, c.pods["pods.yaml"]))
		require.Equal(t, alike(t, m.pods["cluster-init.yaml"]), alike(t, c.pods["cluster-init.yaml"]))
		require.Equal(t, m.claims[file], c.claims["pods.yaml"])
		require.Equal(t, m.secret.StringData, c.secret.StringData)
		var want, got map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(m.settings.Data["leafd.yaml"]), &want))
		require.NoError(t, yaml.Unmarshal([]byte(c.settings.Data["leafd.yaml"]), &got))
		require.Equal(t, "/leaf", got["zk-root"])
		delete(got, "zk-root")
		require.Equal(t, want, got)
		for name, s := range m.services {
			require.Equal(t, s.Spec.Ports, c.services[name].Spec.Ports)
		}
		require.Equal(t, m.policy.Spec.Egress[1].Ports, c.policy.Spec.Egress[1].Ports)
	}
}

// TestChartValues: what the values of the chart change, and what they can't be.
func TestChartValues(t *testing.T) {
	c := render(t)
	require.Nil(t, c.monitor)
	require.Nil(t, c.secret, "there is nothing secret")
	require.NotContains(t, c.pods, "cluster-init.yaml")
	require.Contains(t, c.settings.Data["leafd.yaml"], "modes: snowflake\n", "there is no database")
	require.NotContains(t, c.settings.Data["leafd.yaml"], "zk-auth-file")
	before := c.pods["pods.yaml"].Annotations["leafd/settings"]

	c = render(t, map[string]any{
		"existingSecret": "mine", "ipv6": true, "image": map[string]any{"tag": "v1.2.3"},
		"settings":       map[string]any{"rate-limit": 1000, "drain-delay": "20s"},
		"serviceMonitor": map[string]any{"enabled": true},
		"networkPolicy":  map[string]any{"enabled": false},
		"tolerations":    []any{map[string]any{"key": "ids", "operator": "Exists"}},
	})
	pod := c.pods["pods.yaml"]
	require.NotEqual(t, before, pod.Annotations["leafd/settings"], "pods start again with the settings")
	require.Nil(t, c.secret)
	require.Nil(t, c.policy)
	require.Equal(t, "mine", pod.Spec.Volumes[0].Projected.Sources[1].Secret.Name)
	require.Equal(t, "registry.example/leafd:v1.2.3", pod.Spec.Containers[0].Image)
	require.Contains(t, pod.Spec.Containers[0].Args, "--advertise=[$(POD_IP)]:8080")
	require.Len(t, pod.Spec.Tolerations, 1)

	var settings map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(c.settings.Data["leafd.yaml"]), &settings))
	require.EqualValues(t, 1000, settings["rate-limit"])
	require.Equal(t, "20s", settings["drain-delay"])
	text, err := os.ReadFile(top + "leafd.yaml")
	require.NoError(t, err)
	for name := range settings {
		require.Contains(t, string(text), name+":", "a setting of leafd")
	}

	selector, err := metav1.LabelSelectorAsSelector(&c.monitor.Spec.Selector)
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(c.services["leafd-pods"].Labels)))
	require.False(t, selector.Matches(labels.Set(c.services["leafd"].Labels)), "each pod is asked once")
	ports := c.services["leafd-pods"].Spec.Ports
	require.True(t, slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return p.Name == c.monitor.Spec.Endpoints[0].Port }))

	_, err = rendered(t, map[string]any{"kind": "DaemonSet"})
	require.ErrorContains(t, err, "want StatefulSet or Deployment")
}
