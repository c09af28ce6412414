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
	"strings"
	"syscall"
)

// Check reports what would keep the program from being started: that there is
// none, that it may not be executed, that the interpreter its first line asks
// for is missing. The error names the program and the cure. Check starts
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
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("exec: %s is not a regular file; name a program", path)
	}
	by := interpreter(path)
	if _, err := os.Stat(by); by != "" && errors.Is(err, fs.ErrNotExist) {
		if strings.HasSuffix(by, "\r") {
			return fmt.Errorf("exec: the lines of %s end in CR LF, so that %q is asked for to run it; save it with LF alone", path, by)
		}
		return fmt.Errorf("exec: the first line of %s asks for %s, which does not exist; install it or correct the line", path, by)
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
// first line; "" if it is no script, or one that only its interpreter can
// read.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // more than that no kernel reads
	n, _ := io.ReadFull(f, head)
	line, ok := bytes.CutPrefix(head[:n], []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	by, _, _ := strings.Cut(strings.TrimLeft(string(line), " \t"), " ")
	by, _, _ = strings.Cut(by, "\t")
	return by
}
