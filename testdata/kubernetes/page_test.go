// Package kubernetes holds the manifests of docs/kubernetes.md against the types that the
// cluster decodes them into, and against each other. It is a module of its own, so that
// the program does not depend on these types.
package kubernetes

import (
	"net"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// manifests are what the page shows.
type manifests struct {
	config      core.ConfigMap
	secret      core.Secret
	deployment  apps.Deployment
	statefulSet apps.StatefulSet
	service     core.Service
	monitor     monitoring.ServiceMonitor
	claim       core.PersistentVolumeClaim
	cronJob     batch.CronJob
}

// read decodes each manifest of the page strictly, as the API server does: an unknown field, a
// key of another case and a key that is there twice are errors.
func read(t *testing.T) *manifests {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	m := new(manifests)
	kinds := map[string]any{
		"v1 ConfigMap": &m.config, "v1 Secret": &m.secret, "apps/v1 Deployment": &m.deployment, "apps/v1 StatefulSet": &m.statefulSet,
		"v1 Service": &m.service, "monitoring.coreos.com/v1 ServiceMonitor": &m.monitor, "v1 PersistentVolumeClaim": &m.claim,
		"batch/v1 CronJob": &m.cronJob,
	}
	fence := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	for _, block := range fence.FindAllSubmatch(page, -1) {
		text, err := yaml.YAMLToJSONStrict(block[1])
		if err != nil {
			t.Fatalf("%v:\n%s", err, block[1])
		}
		var of meta.TypeMeta
		if err := yaml.Unmarshal(block[1], &of); err != nil {
			t.Fatal(err)
		}
		kind := of.APIVersion + " " + of.Kind
		object, known := kinds[kind]
		if !known {
			t.Fatalf("a second %q, or one that the test does not know:\n%s", kind, block[1])
		}
		delete(kinds, kind)
		unknown, err := json.UnmarshalStrict(text, object)
		if err != nil || len(unknown) > 0 {
			t.Errorf("%s: %v %v", kind, err, unknown)
		}
	}
	for kind := range kinds {
		t.Errorf("the page has no %s", kind)
	}
	return m
}

// pods are the templates of the page's Pods by the kind of what makes them.
func (m *manifests) pods() map[string]*core.PodTemplateSpec {
	return map[string]*core.PodTemplateSpec{
		"Deployment": &m.deployment.Spec.Template, "StatefulSet": &m.statefulSet.Spec.Template, "CronJob": &m.cronJob.Spec.JobTemplate.Spec.Template,
	}
}

// schedule is what the manifests repeat of the configuration.
type schedule struct {
	ShutdownTimeout string                  `json:"shutdown_timeout"`
	Metrics         struct{ Listen string } `json:"metrics"`
	Web             struct {
		TokenFile     string `json:"token_file"`
		ReadTokenFile string `json:"read_token_file"`
	} `json:"web"`
}

func (m *manifests) schedule(t *testing.T) (s schedule) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(m.config.Data["schedule.yaml"]), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// afterShutdown is what docs/running.md adds to shutdown_timeout for the time until a stop is over.
const afterShutdown = 15 * time.Second

func TestGracePeriod(t *testing.T) {
	m := read(t)
	timeout, err := time.ParseDuration(m.schedule(t).ShutdownTimeout)
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range m.pods() {
		grace := pod.Spec.TerminationGracePeriodSeconds
		if grace == nil || time.Duration(*grace)*time.Second < timeout+afterShutdown {
			t.Errorf("%s: the grace period is under %v and %v", name, timeout, afterShutdown)
		}
	}
}

func TestProbes(t *testing.T) {
	m := read(t)
	_, text, err := net.SplitHostPort(m.schedule(t).Metrics.Listen)
	if err != nil {
		t.Fatal(err)
	}
	listen, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Deployment", "StatefulSet"} {
		c := m.pods()[name].Spec.Containers[0]
		if len(c.Ports) != 1 || int(c.Ports[0].ContainerPort) != listen {
			t.Fatalf("%s: the ports are %v, and the configuration listens at %d", name, c.Ports, listen)
		}
		for path, probe := range map[string]*core.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
				t.Errorf("%s: the probe is %v, want one of %s at the port %s", name, probe, path, c.Ports[0].Name)
			}
		}
		served := m.service.Spec.Ports[0]
		if int(served.Port) != listen || served.TargetPort.StrVal != c.Ports[0].Name {
			t.Errorf("%s: the Service leads from %d to %s", name, served.Port, served.TargetPort.StrVal)
		}
	}
}

func TestMonitor(t *testing.T) {
	m := read(t)
	monitored := m.monitor.Spec.Endpoints[0]
	if monitored.Port != m.service.Spec.Ports[0].Name || monitored.Path != "/metrics" {
		t.Errorf("it scrapes %s at the port %s, the Service has %v", monitored.Path, monitored.Port, m.service.Spec.Ports)
	}
	if !has(m.service.Labels, m.monitor.Spec.Selector.MatchLabels) {
		t.Errorf("it selects %v, the Service has %v", m.monitor.Spec.Selector.MatchLabels, m.service.Labels)
	}
	auth := monitored.HTTPConfigWithProxyAndTLSFiles.Authorization
	if auth == nil || auth.Type != "Bearer" || auth.Credentials.Name != m.secret.Name || auth.Credentials.Key != path.Base(m.schedule(t).Web.ReadTokenFile) {
		t.Errorf("its token is %v, want the read token of the Secret %s", auth, m.secret.Name)
	}
}

// Selectors find the Pods of the daemons, and not those of the CronJob.
func TestLabels(t *testing.T) {
	m := read(t)
	for name, selector := range map[string]map[string]string{
		"Deployment": m.deployment.Spec.Selector.MatchLabels, "StatefulSet": m.statefulSet.Spec.Selector.MatchLabels,
		"topology": m.deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels, "Service": m.service.Spec.Selector,
	} {
		for pod, template := range m.pods() {
			if selected := has(template.Labels, selector); selected != (pod != "CronJob") {
				t.Errorf("the selector of the %s selects the Pods of the %s: %v", name, pod, selected)
			}
		}
	}
	if m.statefulSet.Spec.ServiceName != m.service.Name {
		t.Errorf("the StatefulSet has the Service %s, and that is %s", m.statefulSet.Spec.ServiceName, m.service.Name)
	}
}

// has reports whether the labels have all of the selector's.
func has(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// A Pod's volumes are there, and each is mounted where the program looks.
func TestVolumes(t *testing.T) {
	m := read(t)
	for name, pod := range m.pods() {
		mounts := make(map[string]string)
		for _, mount := range pod.Spec.Containers[0].VolumeMounts {
			mounts[mount.Name] = mount.MountPath
		}
		if mounts["config"] != "/etc/backlog" || mounts["state"] != "/var/lib/backlog" {
			t.Errorf("%s: the mounts are %v; the Dockerfile has the configuration in /etc/backlog, the state in /var/lib/backlog", name, mounts)
		}
		volumes := []string{}
		if name == "StatefulSet" {
			volumes = append(volumes, m.statefulSet.Spec.VolumeClaimTemplates[0].Name)
		}
		for _, v := range pod.Spec.Volumes {
			volumes = append(volumes, v.Name)
			m.checkVolume(t, name, v, mounts[v.Name])
		}
		for mount := range mounts {
			if !slices.Contains(volumes, mount) {
				t.Errorf("%s mounts %s, and has the volumes %v", name, mount, volumes)
			}
		}
	}
}

func (m *manifests) checkVolume(t *testing.T, pod string, v core.Volume, mounted string) {
	t.Helper()
	switch {
	case mounted == "":
		t.Errorf("%s mounts its volume %s nowhere", pod, v.Name)
	case v.ConfigMap != nil && v.ConfigMap.Name != m.config.Name:
		t.Errorf("%s has the ConfigMap %s, and that is %s", pod, v.ConfigMap.Name, m.config.Name)
	case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != m.claim.Name:
		t.Errorf("%s has the claim %s, and that is %s", pod, v.PersistentVolumeClaim.ClaimName, m.claim.Name)
	case v.Secret != nil:
		if v.Secret.SecretName != m.secret.Name {
			t.Errorf("%s has the Secret %s, and that is %s", pod, v.Secret.SecretName, m.secret.Name)
		}
		var files []string
		for _, item := range v.Secret.Items {
			files = append(files, path.Join(mounted, item.Path))
			if m.secret.StringData[item.Key] == "" {
				t.Errorf("%s wants the key %s, and the Secret does not have it", pod, item.Key)
			}
		}
		web := m.schedule(t).Web
		if !slices.Contains(files, web.TokenFile) || !slices.Contains(files, web.ReadTokenFile) {
			t.Errorf("%s has the files %v, and the configuration names %s and %s", pod, files, web.TokenFile, web.ReadTokenFile)
		}
	}
}

// Each variable of the configuration is in the environment, from the Secret.
func TestVariables(t *testing.T) {
	m := read(t)
	used := regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(m.config.Data["schedule.yaml"], -1)
	if len(used) == 0 {
		t.Error("the configuration has no ${NAME}")
	}
	for name, pod := range m.pods() {
		given := make(map[string]bool)
		for _, v := range pod.Spec.Containers[0].Env {
			ref := v.ValueFrom.SecretKeyRef
			given[v.Name] = ref.Name == m.secret.Name && m.secret.StringData[ref.Key] != ""
		}
		for _, u := range used {
			if !given[u[1]] {
				t.Errorf("%s does not get %s from the Secret", name, u[1])
			}
		}
	}
}

// The Pods run as the Dockerfile's user on a root file system that nothing writes.
func TestSecurity(t *testing.T) {
	m := read(t)
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+:\d+)$`).FindSubmatch(dockerfile)
	if user == nil {
		t.Fatal("the Dockerfile has no USER")
	}
	for name, pod := range m.pods() {
		s := pod.Spec.SecurityContext
		runs := strconv.FormatInt(*s.RunAsUser, 10) + ":" + strconv.FormatInt(*s.RunAsGroup, 10)
		if runs != string(user[1]) || !*s.RunAsNonRoot || *s.FSGroup != *s.RunAsGroup {
			t.Errorf("%s runs as %s, and the Dockerfile says %s", name, runs, user[1])
		}
		c := pod.Spec.Containers[0]
		if !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || !strings.HasPrefix(c.Image, "registry.example.com/backlog:") {
			t.Errorf("%s: %v %s", name, c.SecurityContext, c.Image)
		}
	}
}

// The StatefulSet's Pods are the Deployment's but for the volume of their state.
func TestStatefulSet(t *testing.T) {
	m := read(t)
	want := m.deployment.Spec.Template.DeepCopy()
	want.Spec.Volumes = slices.DeleteFunc(want.Spec.Volumes, func(v core.Volume) bool { return v.EmptyDir != nil })
	if !reflect.DeepEqual(*want, m.statefulSet.Spec.Template) {
		t.Errorf("got\n%v\nwant\n%v", m.statefulSet.Spec.Template, *want)
	}
}
