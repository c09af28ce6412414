package packaging_test

import (
	"bytes"
	"cmp"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"backlog/internal/testkit"
)

// command runs a command in the folder and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// asRoot skips the test for other users, who can neither install nor change the root.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

// service returns the settings of the section [Service] of units.
func service(units string) map[string]string {
	_, section, _ := strings.Cut(units, "\n[Service]\n")
	section, _, _ = strings.Cut(section, "\n[")
	settings := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(section, -1) {
		settings[m[1]] = m[2]
	}
	return settings
}

// noNewPrivileges are the settings that imply NoNewPrivileges, by systemd.exec(5).
var noNewPrivileges = []string{
	"NoNewPrivileges", "DynamicUser", "LockPersonality", "MemoryDenyWriteExecute", "PrivateDevices", "ProtectClock", "ProtectHostname",
	"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime",
	"RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallFilter", "SystemCallLog",
}

// The daemon's unit is as hard as the one that `backlog schedule` prints, and lets a
// handler's sendmail work.
func TestUnitsAgree(t *testing.T) {
	daemon, pass := service(testkit.ReadFile(t, "backlog.service")), service(testkit.ReadFile(t, "../backlog/inspect/systemd.units"))
	hard := func(settings map[string]string) map[string]string {
		kept := maps.Clone(settings)
		maps.DeleteFunc(kept, func(name, _ string) bool {
			return !strings.HasPrefix(name, "Pr") && !strings.HasPrefix(name, "Restrict") && !slices.Contains(noNewPrivileges, name)
		})
		return kept
	}
	if !maps.Equal(hard(daemon), hard(pass)) || len(hard(daemon)) == 0 {
		t.Errorf("the package's unit has %v, the printed one %v", hard(daemon), hard(pass))
	}
	for _, name := range noNewPrivileges {
		if daemon[name] != "" {
			t.Errorf("%s implies NoNewPrivileges", name)
		}
	}
	if stop, _ := strconv.Atoi(daemon["TimeoutStopSec"]); stop < 30+15 {
		t.Errorf("TimeoutStopSec is %d, less than the default of shutdown_timeout and 15 s", stop)
	}
}

// What may contain passwords is installed for the daemon's group alone.
func TestPackagesAreClosed(t *testing.T) {
	var list struct {
		Contents []struct {
			Dst  string
			Info struct{ Mode os.FileMode } `yaml:"file_info"`
		}
	}
	if err := yaml.Unmarshal([]byte(testkit.ReadFile(t, "nfpm.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	closed := 0
	for _, c := range list.Contents {
		if !strings.HasPrefix(c.Dst, "/etc/backlog") && c.Dst != "/var/lib/backlog" {
			continue
		}
		closed++
		if c.Info.Mode == 0 || c.Info.Mode&0o007 != 0 {
			t.Errorf("%s has the permissions %v", c.Dst, c.Info.Mode)
		}
	}
	if closed < 3 {
		t.Errorf("%d files and folders are looked at", closed)
	}
}

// The units that `backlog schedule` prints are such as systemd takes.
func TestPrintedUnits(t *testing.T) {
	analyze(t)
	command(t, "..", "make", "build")
	program, _ := filepath.Abs("../bin/backlog")
	dir := t.TempDir()
	printed := command(t, dir, program, "schedule", "--format", "systemd", "--config", must(filepath.Abs("../schedule.example.yaml")))
	parts := regexp.MustCompile(`(?m)^# ---- /etc/systemd/system/(\S+)\n`).FindAllStringSubmatchIndex(printed, -1)
	var files []string
	for i, m := range parts {
		end := len(printed)
		if i+1 < len(parts) {
			end = parts[i+1][0]
		}
		file := filepath.Join(dir, printed[m[2]:m[3]])
		if err := os.WriteFile(file, []byte(printed[m[1]:end]), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) != 2 {
		t.Fatalf("%d units are printed", len(files))
	}
	command(t, dir, "systemd-analyze", append([]string{"verify", "--man=no"}, files...)...)
}

func must(path string, err error) string {
	if err != nil {
		panic(err)
	}
	return path
}

// analyze skips the test where systemd is not at hand.
func analyze(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze")
	}
}

// The package is installed, its daemon works a table off as its unit starts it, and
// nothing stays of it when it is purged. That is for a machine of CI only.
func TestPackage(t *testing.T) {
	asRoot(t)
	analyze(t)
	if os.Getenv("CI") == "" {
		t.Skip("installs a package: set CI=true where that may be")
	}
	command(t, "..", "make", "package")
	packages, _ := filepath.Glob("../bin/*.deb")
	rpms, _ := filepath.Glob("../bin/*.rpm")
	if len(packages) != 1 || len(rpms) != 1 {
		t.Fatalf("packages %v and %v", packages, rpms)
	}
	unpacked := t.TempDir()
	command(t, ".", "dpkg-deb", "--extract", packages[0], unpacked) // an installation may leave documentation out
	wantLicences(t, unpacked+"/usr/bin/backlog", unpacked+"/usr/share/doc/backlog/THIRD_PARTY_LICENSES")
	if _, err := exec.LookPath("rpm"); err == nil {
		list := command(t, ".", "rpm", "-qpl", rpms[0])
		for _, file := range []string{"/usr/lib/systemd/system/backlog@.service", "/usr/share/doc/backlog/THIRD_PARTY_LICENSES"} {
			if !strings.Contains(list, file+"\n") {
				t.Errorf("without %s the .rpm has\n%s", file, list)
			}
		}
	}

	t.Cleanup(func() {
		os.Remove("/etc/backlog/shop.yaml")
		command(t, ".", "dpkg", "--purge", "backlog")
		for _, path := range []string{"/etc/backlog", "/var/lib/backlog", "/usr/bin/backlog", "/usr/lib/systemd/system/backlog.service", "/usr/share/backlog", "/usr/share/doc/backlog"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s is still there", path)
			}
		}
		if u, err := user.Lookup("backlog"); err == nil {
			t.Errorf("the user %s is still there", u.Username)
		}
	})
	command(t, ".", "dpkg", "--install", packages[0])
	list := command(t, ".", "dpkg", "--listfiles", "backlog")
	for _, file := range []string{
		"/usr/share/man/man1/backlog-once.1.gz", "/usr/share/backlog/schedule.schema.json", "/usr/share/backlog/alerts.yaml", "/usr/share/backlog/grafana.json",
		"/usr/share/zsh/vendor-completions/_backlog", "/usr/share/doc/backlog/CHANGELOG.md",
	} {
		if !strings.Contains(list, file+"\n") {
			t.Errorf("there is no %s", file)
		}
	}
	if conffiles := command(t, ".", "dpkg-query", "--show", "--showformat", "${Conffiles}", "backlog"); !strings.Contains(conffiles, " /etc/backlog/schedule.yaml ") {
		t.Errorf("the configuration files are %q", conffiles)
	}
	command(t, ".", "bash", "-c", ". /usr/share/bash-completion/completions/backlog && complete -p backlog")
	if !strings.HasPrefix(testkit.ReadFile(t, "/etc/backlog/schedule.yaml"), "# yaml-language-server: $schema=/usr/share/backlog/schedule.schema.json\n") {
		t.Error("the configuration does not name the installed schema")
	}
	units := "/usr/lib/systemd/system/"
	command(t, ".", "systemd-analyze", "verify", "--man=no", units+"backlog.service", units+"backlog@.service")

	db := "/var/lib/backlog/shop.db"
	config := "database: sqlite:" + db + "\nhandler: {exec: [sh, -c, 'id -un >>done']}\ntiers: [{max_age: 1d, every: 1s}]\n"
	if err := os.WriteFile("/etc/backlog/shop.yaml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	instance := strings.ReplaceAll(testkit.ReadFile(t, units+"backlog@.service"), "%i", "shop")
	runAsUnit(t, service(instance), db)
	if done := testkit.ReadFile(t, "/var/lib/backlog/done"); done != "backlog\n" {
		t.Errorf("the handler wrote %q", done)
	}
}

// runAsUnit starts what the unit says as systemd does, waits until the daemon says that it
// is ready and has worked the table off, and stops it.
func runAsUnit(t *testing.T, unit map[string]string, db string) {
	t.Helper()
	owner, err := user.Lookup(unit["User"])
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(owner.Uid, 10, 32)
	gid, _ := strconv.ParseUint(owner.Gid, 10, 32)
	socket := filepath.Join("/var/lib/", unit["StateDirectory"], "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) *exec.Cmd {
		c := exec.Command(args[0], args[1:]...)
		c.Dir = unit["WorkingDirectory"]
		c.Env = []string{"PATH=/usr/bin:/bin", "STATE_DIRECTORY=/var/lib/" + unit["StateDirectory"], "NOTIFY_SOCKET=" + socket}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return c
	}
	arguments := strings.Fields(unit["ExecStart"])
	init := slices.Clone(arguments)
	init[slices.Index(init, "run")] = "init"
	init = append(init, "--create-table")
	const row = `import sqlite3; db = sqlite3.connect("shop.db"); `
	for _, args := range [][]string{init, {"/usr/bin/env", "python3", "-c", row + `db.execute("INSERT INTO BACKLOG (id) VALUES (1)"); db.commit()`}} {
		if out, err := start(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}

	var log bytes.Buffer
	daemon := start(arguments...)
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill()
	listener.SetReadDeadline(time.Now().Add(time.Minute))
	said := make([]byte, 1024)
	n, err := listener.Read(said)
	if !strings.Contains(string(said[:n]), "READY=1") {
		t.Errorf("the daemon said %q (%v)\n%s", said[:n], err, &log)
	}
	testkit.Eventually(t, "the program has done its work", func() bool {
		out, _ := start("/usr/bin/env", "python3", "-c", row+`print(db.execute("SELECT status FROM BACKLOG").fetchall())`).Output()
		return string(out) == "[('SUCCESS',)]\n"
	})
	daemon.Process.Signal(syscall.SIGTERM)
	if err := daemon.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
}

// The shipped program has nothing of the generator of manual pages.
func TestGeneratorIsApart(t *testing.T) {
	if list := command(t, "..", cmp.Or(os.Getenv("GO"), "go"), "list", "-deps", "."); strings.Contains(list, "cobra/doc") || strings.Contains(list, "md2man") {
		t.Error("the program depends on cobra/doc")
	}
}
