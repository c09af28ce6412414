package packaging_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gopkg.in/yaml.v3"

	"backlog/internal/testkit"
)

// compose is what the test needs of the example.
type compose struct {
	Services map[string]struct {
		Command []string
		Volumes []string
	}
	Configs map[string]struct{ Content string }
}

// The example of Docker compose works its orders off: the image's file system is put
// together from the Dockerfile's COPY lines, and its program runs with that as its root,
// as the Dockerfile says it does.
func TestImage(t *testing.T) {
	asRoot(t)
	server := cmp.Or(os.Getenv("BACKLOG_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres")
	sql := func(statement string) string {
		out, err := exec.Command("psql", server, "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-c", statement).CombinedOutput()
		if err != nil {
			t.Skipf("needs PostgreSQL and psql: %v %s", err, out)
		}
		return string(out)
	}
	schema := "image_" + strconv.Itoa(os.Getpid())
	sql("CREATE SCHEMA " + schema)
	t.Cleanup(func() { sql("DROP SCHEMA " + schema + " CASCADE") })
	var example compose
	if err := yaml.Unmarshal([]byte(testkit.ReadFile(t, "../docs/compose.yaml")), &example); err != nil {
		t.Fatal(err)
	}
	sql("SET search_path = " + schema + "; " + example.Configs["orders"].Content)

	image := assemble(t)
	wantLicences(t, image.root+"/usr/bin/backlog", image.root+"/usr/share/doc/backlog/THIRD_PARTY_LICENSES")
	image.env = append(image.env, "SHOP_PASSWORD=word", "BACKLOG_DATABASE="+server+"?search_path="+schema)
	config := filepath.Join(image.root, "etc/backlog/schedule.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	schedule := strings.NewReplacer("$$", "$", "every: 1m", "every: 1s").Replace(example.Configs["schedule"].Content)
	if err := os.WriteFile(config, []byte(schedule), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := image.start(example.Services["init"].Command...).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("CREATE INDEX")) {
		t.Fatalf("%v\n%s", err, out)
	}
	var log bytes.Buffer
	daemon := image.start(example.Services["backlog"].Command...)
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill()
	testkit.Eventually(t, "the program has done its work", func() bool {
		return sql("SELECT count(*) FROM "+schema+".orders JOIN "+schema+".shipped ON id = order_id WHERE state = 'shipped'") == "3\n"
	})
	daemon.Process.Signal(image.stop)
	if err := daemon.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
	state := strings.TrimPrefix(example.Services["backlog"].Volumes[0], "state:")
	if kept, _ := filepath.Glob(filepath.Join(image.root, state, "*.json")); state != image.volume || len(kept) != 1 {
		t.Errorf("in %s, where the volume is %s, is %v\n%s", state, image.volume, kept, &log)
	}
}

// An image is what a Dockerfile makes.
type image struct {
	root       string // its file system
	entry, env []string
	user       syscall.Credential
	dir        string
	volume     string
	stop       syscall.Signal
}

var line = regexp.MustCompile(`(?m)^([A-Z]+) (.*)$`)

// assemble does what the Dockerfile's lines say. The stage that builds is this machine,
// where /src is the repository.
func assemble(t *testing.T) *image {
	t.Helper()
	made := &image{root: t.TempDir()}
	for dir := made.root; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755) // for another user
	}
	build, last, ok := strings.Cut(testkit.ReadFile(t, "../Dockerfile"), "\nFROM scratch\n")
	if !ok {
		t.Fatal("it is not made from scratch")
	}
	for _, m := range line.FindAllStringSubmatch(build, -1) {
		if m[1] == "RUN" {
			command(t, "..", "sh", "-c", m[2])
		}
	}
	for _, m := range line.FindAllStringSubmatch(last, -1) {
		list := strings.Split(strings.Trim(m[2], `["]`), `", "`)
		switch m[1] {
		case "COPY":
			made.copy(t, strings.Fields(m[2]))
		case "ENV":
			made.env = strings.Fields(m[2])
		case "USER":
			fmt.Sscanf(m[2], "%d:%d", &made.user.Uid, &made.user.Gid)
		case "WORKDIR":
			made.dir = m[2]
		case "VOLUME":
			made.volume = m[2]
		case "STOPSIGNAL":
			made.stop = map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM}[m[2]]
		case "ENTRYPOINT":
			made.entry = list
		case "CMD":
		default:
			t.Fatalf("what does %s do?", m[0])
		}
	}
	if made.user.Uid == 0 || made.stop == 0 {
		t.Errorf("it runs as user %d and is stopped by %d", made.user.Uid, made.stop)
	}
	return made
}

// copy does what a line COPY --from=build [--chown=U:G] FROM TO says.
func (i *image) copy(t *testing.T, args []string) {
	t.Helper()
	chown := "0:0"
	for ; strings.HasPrefix(args[0], "--"); args = args[1:] {
		if owner, ok := strings.CutPrefix(args[0], "--chown="); ok {
			chown = owner
		} else if args[0] != "--from=build" {
			t.Fatalf("what does %s do?", args[0])
		}
	}
	from, to := args[0], filepath.Join(i.root, args[1])
	if inside, ok := strings.CutPrefix(from, "/src/"); ok {
		from = must(filepath.Abs("../" + inside))
	}
	if strings.HasSuffix(args[1], "/") {
		to = filepath.Join(to, filepath.Base(from))
	}
	command(t, ".", "mkdir", "-p", filepath.Dir(to))
	command(t, ".", "cp", "-RL", from, to)
	command(t, ".", "chown", "-R", chown, to)
}

// start returns the image's program with the arguments, in its root, as its user.
func (i *image) start(args ...string) *exec.Cmd {
	c := exec.Command(i.entry[0], append(i.entry[1:], args...)...)
	c.Dir, c.Env = i.dir, i.env
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &i.user}
	return c
}
