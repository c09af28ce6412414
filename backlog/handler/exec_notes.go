package handler

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Notes are what a person should know about the command, though it can be run.
func (e *Exec) Notes() []string { return lostScript("exec", e.Command) }

// Notes is that of [Exec].
func (l *Lines) Notes() []string { return lostScript("lines", l.Command) }

var anInterpreter = regexp.MustCompile(`^(python|perl|ruby|node|php|lua|bash|dash|zsh|ksh|sh|Rscript)[0-9.]*$`)

// lostScript finds an interpreter whose first argument is a script that is not
// there. Behind an option anything may stand.
func lostScript(kind string, command []string) []string {
	if len(command) < 2 || strings.HasPrefix(command[1], "-") || !anInterpreter.MatchString(filepath.Base(command[0])) {
		return nil
	}
	if _, err := os.Stat(command[1]); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	where := ""
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(command[1]) {
		where = " in " + dir
	}
	return []string{fmt.Sprintf("%s: %s is given %s, which does not exist%s; correct the path or the working directory", kind, command[0], command[1], where)}
}
