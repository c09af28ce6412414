// Command licences prints the licences of everything that is linked into the program that is its
// argument: of Go's standard library and of each module, from the module cache.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
)

func main() {
	log.SetFlags(0)
	out := bufio.NewWriter(os.Stdout)
	err := write(out, os.Args[1])
	if err := errors.Join(err, out.Flush()); err != nil {
		log.Fatal("licences: ", err)
	}
}

// A module is a part of the program with a licence of its own.
type module struct {
	Path, Version string
	Dir           string // where its files are; "": they are not in the module cache
	Replace       *module
}

// write writes the licences of everything that is linked into the program.
func write(w io.Writer, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	modules, err := modulesOf(info.Deps)
	if err != nil {
		return err
	}
	root, err := golang("env", "GOROOT")
	if err != nil {
		return err
	}
	library := module{Path: "std", Version: info.GoVersion, Dir: strings.TrimSpace(string(root))}
	fmt.Fprintf(w, "The program backlog contains Go's standard library (std) and %d modules. These are their licences.\n", len(modules))
	for _, m := range append([]module{library}, modules...) {
		if err := m.write(w); err != nil {
			return err
		}
	}
	return nil
}

// modulesOf returns the modules with the folders of their files.
func modulesOf(linked []*debug.Module) ([]module, error) {
	args := []string{"list", "-m", "-json"}
	for _, m := range linked {
		args = append(args, m.Path)
	}
	list, err := golang(args...)
	if err != nil {
		return nil, err
	}
	modules := make([]module, len(linked))
	d := json.NewDecoder(bytes.NewReader(list))
	for i, m := range linked {
		if err := d.Decode(&modules[i]); err != nil {
			return nil, fmt.Errorf("go list -m: %w", err)
		}
		if got := modules[i]; got.Path != m.Path || got.Version != m.Version {
			return nil, fmt.Errorf("the program has %s %s, but go.mod asks for %s %s; build it again", m.Path, m.Version, got.Path, got.Version)
		}
		if other := modules[i].Replace; other != nil {
			modules[i].Dir = other.Dir
		}
	}
	return modules, nil
}

// golang runs the go command and returns what it prints.
func golang(args ...string) ([]byte, error) {
	c := exec.Command(cmp.Or(os.Getenv("GO"), "go"), args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w", c, err)
	}
	return out, err
}

const rule = "================================================================================"

// write writes the texts of the module, each under a heading.
func (m module) write(w io.Writer) error {
	if m.Dir == "" {
		return fmt.Errorf("%s %s is not in the module cache; call `go mod download`", m.Path, m.Version)
	}
	files := os.DirFS(m.Dir)
	names, err := legalTexts(files, m.Path == "std")
	if err != nil {
		return fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
		}
		fmt.Fprintf(w, "\n%s\n%s %s: %s\n%s\n\n%s\n", rule, m.Path, m.Version, name, rule, bytes.TrimSpace(text))
	}
	return nil
}

var (
	// licence matches the names of files with the terms of use, in lower case. The licence of a
	// picture or the like is next to it, as in logo.svg.license.
	licence = regexp.MustCompile(`^(un)?licen[cs]e|^copying`)

	// note matches the names of further files that have to be passed on with a licence. The Open
	// Font License is next to fonts that are embedded.
	note = regexp.MustCompile(`^(notice|patents|copyright|authors|ofl\.)`)

	// folder matches the names of folders that have nothing but licences.
	folder = regexp.MustCompile(`^licen[cs]es$`)
)

// legalTexts returns the names of the files that have to be passed on, in the root alone or in all
// folders of a module. Without a licence among them it returns an error.
func legalTexts(files fs.FS, rootAlone bool) (names []string, err error) {
	licensed := false
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		base := strings.ToLower(d.Name())
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (rootAlone || base == "testdata"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(base) == ".go":
			return nil
		}
		isLicence := licence.MatchString(base) || folder.MatchString(strings.ToLower(path.Base(path.Dir(name))))
		licensed = licensed || isLicence
		if isLicence || note.MatchString(base) {
			names = append(names, name)
		}
		return nil
	})
	if err == nil && !licensed {
		err = errors.New("has no file LICENSE, LICENCE or COPYING; ask its authors for one, or do without the module")
	}
	return names, err
}
