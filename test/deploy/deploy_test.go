// Package deploy_test holds the files of deploy/kubernetes, and what the chart of deploy/helm
// renders, to the types of Kubernetes, and compose.yaml to the schema of Compose. It is a module of
// its own, so that leafd's has none of these.
// That leafd takes the arguments and settings in them is a test of the commands.
package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const top = "../../deploy/"

// decode decodes a document in which every field has to be one of T's.
func decode[T any](t *testing.T, document string) *T {
	t.Helper()
	v := new(T)
	require.NoError(t, yaml.UnmarshalStrict([]byte(document), v), document)
	return v
}

// manifests is what the files of deploy/kubernetes have, by name; those of pods by file.
type manifests struct {
	pods     map[string]corev1.PodTemplateSpec
	selector map[string]*metav1.LabelSelector // of the pods' controllers, by file
	claims   map[string][]corev1.PersistentVolumeClaim
	services map[string]*corev1.Service
	budget   *policyv1.PodDisruptionBudget
	policy   *networkingv1.NetworkPolicy
	settings *corev1.ConfigMap
	secret   *corev1.Secret
	monitor  *monitoringv1.ServiceMonitor
	headless string // the StatefulSet's
}

// read returns the manifests of deploy/kubernetes.
func read(t *testing.T) manifests {
	t.Helper()
	files, err := filepath.Glob(top + "kubernetes/*.yaml")
	require.NoError(t, err)
	texts := map[string]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[filepath.Base(path)] = string(text)
	}
	m := parse(t, texts)
	require.Len(t, m.pods, 3)
	return m
}

// parse reads files of manifests, by name.
func parse(t *testing.T, files map[string]string) manifests {
	t.Helper()
	m := manifests{
		pods: map[string]corev1.PodTemplateSpec{}, selector: map[string]*metav1.LabelSelector{},
		claims: map[string][]corev1.PersistentVolumeClaim{}, services: map[string]*corev1.Service{},
	}
	for name, text := range files {
		for document := range strings.SplitSeq(text, "\n---\n") {
			var kind metav1.TypeMeta
			require.NoError(t, yaml.Unmarshal([]byte(document), &kind))
			switch kind.APIVersion + " " + kind.Kind {
			case " ": // a template of the chart that renders nothing
			case "apps/v1 StatefulSet":
				s := decode[appsv1.StatefulSet](t, document)
				m.pods[name], m.selector[name], m.claims[name] = s.Spec.Template, s.Spec.Selector, s.Spec.VolumeClaimTemplates
				m.headless = s.Spec.ServiceName
			case "apps/v1 Deployment":
				d := decode[appsv1.Deployment](t, document)
				m.pods[name], m.selector[name] = d.Spec.Template, d.Spec.Selector
			case "batch/v1 Job":
				j := decode[batchv1.Job](t, document)
				require.Nil(t, j.Spec.TTLSecondsAfterFinished, "a job that goes away is made again by what applies it")
				m.pods[name] = j.Spec.Template
			case "v1 Service":
				s := decode[corev1.Service](t, document)
				m.services[s.Name] = s
			case "policy/v1 PodDisruptionBudget":
				m.budget = decode[policyv1.PodDisruptionBudget](t, document)
			case "networking.k8s.io/v1 NetworkPolicy":
				m.policy = decode[networkingv1.NetworkPolicy](t, document)
			case "v1 ConfigMap":
				m.settings = decode[corev1.ConfigMap](t, document)
			case "v1 Secret":
				m.secret = decode[corev1.Secret](t, document)
			case "monitoring.coreos.com/v1 ServiceMonitor":
				m.monitor = decode[monitoringv1.ServiceMonitor](t, document)
			default:
				require.Fail(t, "unexpected", "%s: %s %s", name, kind.APIVersion, kind.Kind)
			}
		}
	}
	return m
}

// each runs a test over the manifests and over what the chart renders in either kind.
func each(t *testing.T, test func(t *testing.T, m manifests)) {
	t.Helper()
	t.Run("manifests", func(t *testing.T) { test(t, read(t)) })
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		t.Run("chart, "+kind, func(t *testing.T) { test(t, render(t, asManifests, map[string]any{"kind": kind, "clusterInit": true})) })
	}
}

// TestPodsAreConfined: each pod runs as the image's user, on a root that it can't write to, without
// a capability, and all that it mounts and reads is there.
func TestPodsAreConfined(t *testing.T) { each(t, requireConfined) }

func requireConfined(t *testing.T, m manifests) {
	t.Helper()
	image, err := os.ReadFile(top + "container/Dockerfile")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^USER 65532:65532$`, string(image))
	for name, template := range m.pods {
		t.Run(name, func(t *testing.T) {
			pod, user := template.Spec, int64(65532)
			require.True(t, *pod.SecurityContext.RunAsNonRoot)
			require.Equal(t, []int64{user, user, user}, []int64{*pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup, *pod.SecurityContext.FSGroup})
			require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
			require.False(t, *pod.AutomountServiceAccountToken)
			require.False(t, *pod.EnableServiceLinks, "LEAFD_PORT and the like")
			require.Len(t, pod.Containers, 1)
			c := pod.Containers[0]
			require.Equal(t, &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}, c.SecurityContext)

			volumes := map[string]bool{}
			for _, claim := range m.claims[name] {
				volumes[claim.Name] = true
			}
			for _, v := range pod.Volumes {
				volumes[v.Name] = true
				if v.Projected != nil {
					require.Equal(t, m.settings.Name, v.Projected.Sources[0].ConfigMap.Name)
					require.Equal(t, m.secret.Name, v.Projected.Sources[1].Secret.Name)
					require.Contains(t, m.secret.StringData, v.Projected.Sources[1].Secret.Items[0].Key)
					require.EqualValues(t, 0o440, *v.Projected.DefaultMode)
				}
			}
			for _, mount := range c.VolumeMounts {
				require.True(t, volumes[mount.Name], mount.Name)
				delete(volumes, mount.Name)
			}
			require.Empty(t, volumes, "not mounted")
			for _, env := range c.Env {
				if s := env.ValueFrom.SecretKeyRef; s != nil {
					require.Equal(t, m.secret.Name, s.Name)
					require.Contains(t, m.secret.StringData, s.Key)
				}
			}
		})
	}
}

// TestPodsAreFound: the services and the budget have all daemons and no job, each controller has
// its own pods alone, and the probes ask the port that is there.
func TestPodsAreFound(t *testing.T) { each(t, requireFound) }

func requireFound(t *testing.T, m manifests) {
	t.Helper()
	require.Equal(t, corev1.ClusterIPNone, m.services["leafd-pods"].Spec.ClusterIP)
	require.Contains(t, []string{"", "leafd-pods"}, m.headless)
	require.Len(t, m.services, 2)
	budget, err := metav1.LabelSelectorAsSelector(m.budget.Spec.Selector)
	require.NoError(t, err)
	for name, template := range m.pods {
		found := labels.Set(template.Labels)
		daemon := m.selector[name] != nil
		for _, s := range m.services {
			require.Equal(t, daemon, labels.SelectorFromSet(s.Spec.Selector).Matches(found), "%s %s", name, s.Name)
			require.Equal(t, "http", s.Spec.Ports[0].TargetPort.StrVal)
		}
		require.Equal(t, daemon, budget.Matches(found), name)
		for file, own := range m.selector {
			selector, err := metav1.LabelSelectorAsSelector(own)
			require.NoError(t, err)
			require.Equal(t, file == name, selector.Matches(found), "%s %s", file, name)
		}
		if !daemon {
			continue
		}
		c := template.Spec.Containers[0]
		require.Equal(t, "http", c.Ports[0].Name)
		for probe, path := range map[*corev1.Probe]string{c.StartupProbe: "/healthz", c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
			require.Equal(t, path, probe.HTTPGet.Path)
			require.Equal(t, "http", probe.HTTPGet.Port.StrVal)
		}
	}
}

// TestPodsAreApart: the policy is for all daemons and no job, clients and daemons reach the port of
// IDs, and nothing but the operators' namespace the admin port; no rule is open to all.
func TestPodsAreApart(t *testing.T) { each(t, requireApart) }

func requireApart(t *testing.T, m manifests) {
	t.Helper()
	spec := m.policy.Spec
	selects := func(s *metav1.LabelSelector, found labels.Set) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		require.NoError(t, err)
		return selector.Matches(found)
	}
	require.ElementsMatch(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, spec.PolicyTypes)
	require.Len(t, spec.Ingress, 2)
	for name, template := range m.pods {
		found, daemon := labels.Set(template.Labels), m.selector[name] != nil
		require.Equal(t, daemon, selects(&spec.PodSelector, found), name)
		require.Equal(t, daemon, selects(spec.Ingress[0].From[1].PodSelector, found), name)
		require.Equal(t, daemon, selects(spec.Egress[0].To[0].PodSelector, found), name)
		if daemon {
			ports := template.Spec.Containers[0].Ports
			require.Equal(t, []string{"http", "admin"}, []string{ports[0].Name, ports[1].Name})
		}
	}
	for i, port := range []string{"http", "admin"} {
		require.Len(t, spec.Ingress[i].Ports, 1)
		require.Equal(t, port, spec.Ingress[i].Ports[0].Port.StrVal)
		require.NotEmpty(t, spec.Ingress[i].From)
		for _, from := range spec.Ingress[i].From {
			require.Nil(t, from.IPBlock)
			require.Equal(t, i == 0, from.PodSelector != nil && from.NamespaceSelector == nil)
			require.Equal(t, i == 1, from.NamespaceSelector != nil && len(from.NamespaceSelector.MatchLabels) > 0)
		}
	}
	require.Equal(t, "http", spec.Egress[0].Ports[0].Port.StrVal)
	require.Len(t, m.services["leafd"].Spec.Ports, 1, "clients have no way to the admin port")
	require.Equal(t, "admin", m.services["leafd-pods"].Spec.Ports[1].TargetPort.StrVal)
}

// TestCompose: the file is one of Compose's schema, and all that it names is there.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{top + "container/compose.yaml"})
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.Len(t, project.Services, 6)
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type == "bind" {
				require.FileExists(t, v.Source, name)
			}
		}
		if s.Build != nil {
			require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
			require.Equal(t, []string{"ALL"}, s.CapDrop, name)
			require.True(t, s.ReadOnly, name)
		}
	}
}
