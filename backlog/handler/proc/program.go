package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"backlog/backlog"
)

// A Program is the command of a handler.
type Program struct {
	Kind    string   // of the handler, with which errors begin
	Command []string // the program and its arguments
}

// Check reports what would keep the program from being started: that there is
// none, that it may not be executed, that the interpreter its first line asks
// for, itself or by way of env, is missing. The error names the program and the
// hint. Check starts nothing.
func (p Program) Check() error {
	path, err := p.find()
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return p.errorf("%s is not a regular file; name a program", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil // it may be executable all the same
	}
	defer f.Close()
	head := make([]byte, 256) // more than that no kernel reads
	n, _ := io.ReadFull(f, head)
	if line, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte{'\n'})
		return p.checkInterpreter(path, string(line))
	}
	// Of what is no text the system knows best what it is.
	isControl := func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }
	if utf8.Valid(head[:max(0, n-utf8.UTFMax)]) && !bytes.ContainsFunc(head[:n], isControl) {
		return p.errorf("%s is text that does not begin with a line such as #!/bin/sh, which says what runs it; add one, without a byte order mark", path)
	}
	return nil
}

// checkInterpreter returns an error if what the first line of the script at path
// asks for is missing, or what env is to find for it. What else env may be told is
// its own affair.
func (p Program) checkInterpreter(path, line string) error {
	if strings.HasSuffix(line, "\r") {
		return p.errorf("the lines of %s end in CR LF, so that what is asked for to run it has a name that ends in CR; save it with LF alone", path)
	}
	by, with, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(line, "\t", " "), " "), " ")
	if _, err := os.Stat(by); by != "" && errors.Is(err, fs.ErrNotExist) {
		return p.errorf("the first line of %s asks for %s, which does not exist; install it or correct the line", path, by)
	}
	words := strings.Fields(strings.Replace(with, "-S", "", 1))
	if filepath.Base(by) != "env" || len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return nil
	}
	if _, err := exec.LookPath(words[0]); err != nil && !errors.Is(err, exec.ErrDot) { // as env sees it
		return p.errorf("the first line of %s asks env for %s, which is not in PATH; install it or correct the line", path, words[0])
	}
	return nil
}

// find returns the path of the command's program, or an error that names the
// hint.
func (p Program) find() (string, error) {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return "", p.errorf("the command is empty; name a program, as in [./deliver.sh, --fast]")
	}
	name := p.Command[0]
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	why := "cannot be run: " + errors.Unwrap(err).Error() + "; name a program" // without exec's own "exec:"
	switch {
	case errors.Is(err, exec.ErrDot):
		why = "is found only in the working directory, through PATH; write ./" + name + " if that is meant"
	case errors.Is(err, exec.ErrNotFound):
		why = "is not in PATH; install it, or write its path, such as ./" + name
	case errors.Is(err, fs.ErrNotExist):
		why = "does not exist" + folderOf(name) + "; correct the path or the working directory"
	case errors.Is(err, fs.ErrPermission):
		why = "may not be executed by this user; run chmod +x " + name + ", or see the permissions of its directories and whether they are mounted noexec"
	}
	if strings.HasPrefix(name, "~") || strings.Contains(name, "$") {
		why += "; neither ~ nor ${…} is replaced here"
	}
	return "", backlog.Worded(p.Kind+": "+name+" "+why, err)
}

var anInterpreter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(python|perl|ruby|node|php|lua|bash|dash|zsh|ksh|sh|Rscript)[0-9.]*$`)
})

// Notes are what a person should know about the command, though it can be run:
// an interpreter's first argument is a script that is not there. Behind an option
// anything may stand.
func (p Program) Notes() []string {
	c := p.Command
	if len(c) < 2 || strings.HasPrefix(c[1], "-") || !anInterpreter().MatchString(filepath.Base(c[0])) {
		return nil
	}
	if _, err := os.Stat(c[1]); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []string{p.errorf("%s is given %s, which does not exist%s; correct the path or the working directory", c[0], c[1], folderOf(c[1])).Error()}
}

// folderOf says where a path begins that is not absolute.
func folderOf(path string) string {
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(path) {
		return " in " + dir
	}
	return ""
}

func (p Program) errorf(format string, args ...any) error {
	return fmt.Errorf(p.Kind+": "+format, args...)
}
