//go:build unix

package exec_test

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
	"backlog/internal/handlertest"
)

func TestExecCheck(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{bin, "folder"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":.")
	handlertest.File(t, bin, "in-path", "#!/bin/sh\n", 0o755)
	handlertest.File(t, bin, "in-path-not-executable", "#!/bin/sh\n", 0o644)
	handlertest.File(t, dir, "in-dot", "#!/bin/sh\n", 0o755)
	handlertest.File(t, dir, "plain", "#!/bin/sh\n", 0o644)
	handlertest.File(t, dir, "spaced", "#! \t/bin/sh -e\n", 0o755)
	handlertest.File(t, dir, "crlf", "#!/bin/sh\r\nexit 0\r\n", 0o755)
	handlertest.File(t, dir, "bare", "#!/opt/none/python3", 0o755)
	handlertest.File(t, dir, "empty", "", 0o755)
	handlertest.File(t, dir, "bom", "\xef\xbb\xbf#!/bin/sh\nexit 0\n", 0o755)
	handlertest.File(t, dir, "text", "echo Grüße\nexit 0\n", 0o755)
	handlertest.File(t, dir, "arg", "#!/opt/none/python3 -u\n", 0o755)
	if err := unix.Mkfifo("fifo", 0o755); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct{ command, want string }{ // arguments are separated by |
		{"in-path", ""},
		{"in-path|arg", ""},
		{"./in-dot", ""},
		{"./spaced", ""},
		{"/bin/sh|-c|exit 0", ""},
		{"", "exec: the command is empty; name a program, as in [./deliver.sh, --fast]"},
		{"|arg", "exec: the command is empty; name a program, as in [./deliver.sh, --fast]"},
		{"nowhere", "exec: nowhere is not in PATH; install it, or write its path, such as ./nowhere"},
		{"in-path-not-executable", "exec: in-path-not-executable is not in PATH; install it, or write its path, such as ./in-path-not-executable"},
		{"in-dot", "exec: in-dot is found only in the working directory, through PATH; write ./in-dot if that is meant"},
		{"./nowhere", "exec: ./nowhere does not exist in " + dir + "; correct the path or the working directory"},
		{"/opt/none/deliver", "exec: /opt/none/deliver does not exist; correct the path or the working directory"},
		{"~/deliver", "exec: ~/deliver does not exist in " + dir + "; correct the path or the working directory; neither ~ nor ${…} is replaced here"},
		{"${HOME}/deliver", "exec: ${HOME}/deliver does not exist in " + dir + "; correct the path or the working directory; neither ~ nor ${…} is replaced here"},
		{"$DELIVER", "exec: $DELIVER is not in PATH; install it, or write its path, such as ./$DELIVER; neither ~ nor ${…} is replaced here"},
		{"./folder", "exec: ./folder cannot be run: is a directory; name a program"},
		{"./plain", "exec: ./plain may not be executed by this user; run chmod +x ./plain, or see the permissions of its directories and whether they are mounted noexec"},
		{"./plain/x", "exec: ./plain/x cannot be run: stat ./plain/x: not a directory; name a program"},
		{"./fifo", "exec: ./fifo is not a regular file; name a program"},
		{"./bare", "exec: the first line of ./bare asks for /opt/none/python3, which does not exist; install it or correct the line"},
		{"./arg", "exec: the first line of ./arg asks for /opt/none/python3, which does not exist; install it or correct the line"},
		{"./crlf", "exec: the lines of ./crlf end in CR LF, so that what is asked for to run it has a name that ends in CR; save it with LF alone"},
		{"./empty", "exec: ./empty is text that does not begin with a line such as #!/bin/sh, which says what runs it; add one, without a byte order mark"},
		{"./bom", "exec: ./bom is text that does not begin with a line such as #!/bin/sh, which says what runs it; add one, without a byte order mark"},
		{"./text", "exec: ./text is text that does not begin with a line such as #!/bin/sh, which says what runs it; add one, without a byte order mark"},
	} {
		t.Run(tt.command, func(t *testing.T) {
			e := &exec.Handler{Settings: exec.Settings{Command: strings.Split(tt.command, "|")}}
			got := ""
			if err := e.Check(t.Context()); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("Check: %q\nwant:  %q", got, tt.want)
			}
			err := e.Handle(t.Context(), handlertest.NewRecord())
			if tt.want == "" {
				handlertest.WantError(t, err, "", backlog.Succeeded)
			} else {
				handlertest.WantError(t, err, tt.want, backlog.Skipped) // no attempt: the record is not to blame
			}
		})
	}
	if err := (&exec.Handler{}).Check(t.Context()); err == nil {
		t.Error("Check of no command at all succeeds")
	}
}

// A script that is run by way of env needs what env is to find.
func TestExecCheckOfEnv(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for line, want := range map[string]string{
		"#!/usr/bin/env sh":                     "",
		"#! /usr/bin/env -S sh -e":              "",
		"#!/usr/bin/env -S X=1 nosuchpy":        "",
		"#!/usr/bin/env -i nosuchpy":            "",
		"#!/usr/bin/env":                        "",
		"#!/usr/bin/env nosuchpy":               "exec: the first line of PATH asks env for nosuchpy, which is not in PATH; install it or correct the line",
		"#!/usr/bin/env\tnosuchpy":              "exec: the first line of PATH asks env for nosuchpy, which is not in PATH; install it or correct the line",
		"#!/usr/bin/env -S nosuchpy -u":         "exec: the first line of PATH asks env for nosuchpy, which is not in PATH; install it or correct the line",
		"#!/usr/bin/env -Snosuchpy -u":          "exec: the first line of PATH asks env for nosuchpy, which is not in PATH; install it or correct the line",
		"#!/usr/bin/env nosuchpy\r":             "exec: the lines of PATH end in CR LF, so that what is asked for to run it has a name that ends in CR; save it with LF alone",
		"#!/bin/sh nosuchpy, which sh may read": "",
	} {
		path := handlertest.File(t, dir, "script", line+"\nexit 0\n", 0o755)
		got := ""
		if err := (&exec.Handler{Settings: exec.Settings{Command: []string{path}}}).Check(t.Context()); err != nil {
			got = strings.Replace(err.Error(), path, "PATH", 1)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// A script that is not there is found out, where it is plain that it is one.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	handlertest.File(t, dir, "there.py", "", 0o644)
	const lost = "exec: python3 is given lost.py, which does not exist in DIR; correct the path or the working directory"
	for command, want := range map[string]string{
		"python3":                    "",
		"python3 lost.py":            lost,
		"python3 there.py lost.py":   "",
		"python3 -m lost":            "",
		"/usr/bin/perl5.36 /no/x.pl": "exec: /usr/bin/perl5.36 is given /no/x.pl, which does not exist; correct the path or the working directory",
		"./python-wrapper lost.py":   "",
		"cat lost.py":                "",
	} {
		got := strings.Join((&exec.Handler{Settings: exec.Settings{Command: strings.Fields(command)}}).Describe().Notes, "|")
		if got = strings.Replace(got, dir, "DIR", 1); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// What looks like a program and is none is found only by trying.
func TestExecFormatError(t *testing.T) {
	t.Parallel()
	here := "; install the program that is built for this machine, " + runtime.GOOS + " on " + runtime.GOARCH
	elf := func(machine byte) string {
		return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00" + string([]byte{machine}) + strings.Repeat("\x00", 99)
	}
	for content, want := range map[string]string{
		"\x7fELF":                          "it is the beginning of a program, cut short" + here,
		elf(8):                             "it is a program for another processor, MIPS" + here,
		elf(99):                            "it is a program for another processor" + here,
		"MZ\x90\x00\x03\x00\x00":           "it is a program for Windows" + here,
		"\xcf\xfa\xed\xfe\x0c\x00\x00\x01": "it is a program for macOS" + here,
		"\x00\x01\x02\x03":                 "a script must begin with a line such as #!/bin/sh",
	} {
		path := handlertest.File(t, t.TempDir(), "program", content, 0o755)
		err := (&exec.Handler{Settings: exec.Settings{Command: []string{path}}}).Handle(t.Context(), handlertest.NewRecord())
		handlertest.WantError(t, err, "fork/exec "+path+": exec format error: "+want, backlog.Skipped)
	}
}

// What is built for another processor may have an emulator: that is a note.
func TestNotesOfAnotherProcessor(t *testing.T) {
	t.Parallel()
	head := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00"
	path := handlertest.File(t, t.TempDir(), "program", head+"\x08\x00"+strings.Repeat("\x00", 99), 0o755)
	want := "exec: " + path + " is a program for another processor, MIPS, which without an emulator cannot be run; install the program that is built for this machine, " + runtime.GOOS + " on " + runtime.GOARCH
	if got := strings.Join((&exec.Handler{Settings: exec.Settings{Command: []string{path}}}).Describe().Notes, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := (&exec.Handler{Settings: exec.Settings{Command: []string{"/bin/sh"}}}).Describe().Notes; got != nil {
		t.Errorf("of /bin/sh: %q", got)
	}
}

// A daemon outlives the installation of its program, and its move.
func TestExecLooksAgain(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	t.Setenv("PATH", a+":"+b)
	e := &exec.Handler{Settings: exec.Settings{Command: []string{"deliver"}}}

	if err := e.Handle(t.Context(), handlertest.NewRecord()); !errors.Is(err, osexec.ErrNotFound) {
		t.Errorf("not installed: %v", err)
	}
	path := handlertest.File(t, a, "deliver", "#!/bin/sh\n", 0o755)
	if err := e.Handle(t.Context(), handlertest.NewRecord()); err != nil {
		t.Errorf("installed: %v", err)
	}
	if err := os.Rename(path, filepath.Join(b, "deliver")); err != nil {
		t.Fatal(err)
	}
	if err := e.Handle(t.Context(), handlertest.NewRecord()); err != nil {
		t.Errorf("moved: %v", err)
	}
}

// TestNoCommand: who sets none in Go is told so, and no record is to blame.
func TestNoCommand(t *testing.T) {
	err := new(exec.Handler).Handle(t.Context(), handlertest.NewRecord())
	handlertest.WantError(t, err, "exec: the command is empty; name a program, as in [./deliver.sh, --fast]", backlog.Skipped)
}
