package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Check reports what would keep the program from being started: that there is
// none, that it may not be executed, that the interpreter its first line asks
// for, itself or by way of env, is missing. The error names the program and the cure. Check starts
// nothing.
func (e *Exec) Check(context.Context) error {
	path, err := find(e.Command)
	if err != nil {
		return err
	}
	for i, arg := range e.Command {
		if strings.IndexByte(arg, 0) >= 0 {
			return fmt.Errorf("exec: argument %d of %s holds a NUL byte, which no program can be given", i, e.Command[0])
		}
	}
	for i, arg := range e.Command {
		if len(arg) > maxArgument {
			return fmt.Errorf("exec: argument %d of %s has %d bytes, more than a program can be given (%d); put it in a file", i, e.Command[0], len(arg), maxArgument)
		}
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("exec: %s is not a regular file; name a program", path)
	}
	if err := looksLikeText(path); err != nil {
		return err
	}
	by, with := interpreter(path)
	if _, err := os.Stat(by); by != "" && errors.Is(err, fs.ErrNotExist) {
		if strings.HasSuffix(by, "\r") {
			return fmt.Errorf("exec: the lines of %s end in CR LF, so that %q is asked for to run it; save it with LF alone", path, by)
		}
		return fmt.Errorf("exec: the first line of %s asks for %s, which does not exist; install it or correct the line", path, by)
	}
	return foundByEnv(path, by, with)
}

// maxArgument is what Linux takes for one argument (MAX_ARG_STRLEN, with its
// closing NUL).
const maxArgument = 128<<10 - 1

// looksLikeText finds scripts that do not say what runs them, which only a shell
// would take for its own. Of other files the system knows best what they are.
func looksLikeText(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // it may be executable all the same
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	switch {
	case n == 0:
		return fmt.Errorf("exec: %s is empty; a script must begin with a line such as #!/bin/sh", path)
	case bytes.HasPrefix(head, []byte("#!")):
		return nil
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return fmt.Errorf("exec: %s begins with a byte order mark; save it without one, so that its first line is one such as #!/bin/sh", path)
	case utf8.Valid(head[:max(0, n-utf8.UTFMax)]) && !bytes.ContainsFunc(head, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }):
		return fmt.Errorf("exec: %s is text without a first line such as #!/bin/sh, which says what runs it; add one", path)
	}
	return nil
}

// find returns the path of the command's program, or an error that names the
// cure.
func find(command []string) (string, error) {
	if len(command) == 0 || command[0] == "" {
		return "", errors.New("exec: the command is empty; name a program, as in [./deliver.sh, --fast]")
	}
	name := command[0]
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	var why string
	switch {
	case errors.Is(err, exec.ErrDot):
		why = fmt.Sprintf("is found only in the working directory, through PATH; write %s if that is meant", "./"+name)
	case errors.Is(err, exec.ErrNotFound):
		why = fmt.Sprintf("is not in PATH; install it, or write its path, such as ./%s", name)
	case errors.Is(err, fs.ErrNotExist):
		why = "does not exist; correct the path"
		if dir, err := os.Getwd(); err == nil && !strings.HasPrefix(name, "/") {
			why = fmt.Sprintf("does not exist in %s; correct the path or the working directory", dir)
		}
	case errors.Is(err, syscall.EISDIR):
		why = "is a directory; name the program in it"
	case errors.Is(err, fs.ErrPermission):
		why = notExecutable(name)
	default:
		return "", fmt.Errorf("exec: %w", errors.Unwrap(err)) // without its own "exec:"
	}
	if strings.HasPrefix(name, "~") || strings.Contains(name, "$") {
		why += "; neither ~ nor ${…} is replaced here"
	}
	return "", &failure{"exec: " + name + " " + why, []error{err}}
}

func notExecutable(path string) string {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o111 == 0 {
		return "is not executable; run chmod +x " + path
	}
	return "may not be executed by this user; see the permissions of the file and its directories, and whether its file system is mounted noexec"
}

// interpreter returns the program that the script at path asks for in its
// first line, and what the line gives it; "" if it is no script, or one that only
// its interpreter can read.
func interpreter(path string) (by, with string) {
	f, err := os.Open(path)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	head := make([]byte, 256) // more than that no kernel reads
	n, _ := io.ReadFull(f, head)
	line, ok := bytes.CutPrefix(head[:n], []byte("#!"))
	if !ok {
		return "", ""
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	by = strings.TrimLeft(string(line), " \t")
	if i := strings.IndexAny(by, " \t"); i >= 0 {
		by, with = by[:i], by[i:]
	}
	return by, with
}

// foundByEnv returns an error if the first line of the script at path asks env,
// with those arguments, for a program that is not there. What else env may be told
// is its own affair.
func foundByEnv(path, by, with string) error {
	words := strings.Fields(strings.Replace(with, "-S", "", 1))
	if filepath.Base(by) != "env" || len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return nil
	}
	_, err := exec.LookPath(words[0])
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // as env sees it
		return nil
	case strings.HasSuffix(with, "\r"):
		return fmt.Errorf("exec: the lines of %s end in CR LF, so that env looks for a program whose name ends in CR; save it with LF alone", path)
	}
	return fmt.Errorf("exec: the first line of %s asks env for %s, which is not in PATH; install it or correct the line", path, words[0])
}
