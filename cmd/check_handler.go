package cmd

import (
	"context"
	"fmt"
	"strings"

	"backlog/backlog/config"
)

// tool adds what there is to say of the handler or on_dead, which there may not
// be: what a look at the network says, too.
func (k *checker) tool(ctx context.Context, name string, h tool, err error, proved string) {
	if h != nil {
		err = h.Check(ctx)
	}
	if k.bad(name, err) || h == nil {
		return
	}
	k.good(name, "%s", proved)
	if n, ok := h.(interface{ Notes() []string }); ok {
		for _, note := range n.Notes() {
			what, cure, _ := strings.Cut(note, "; ")
			k.warn(name, cure, "%s", what)
		}
	}
}

// mostPrograms is how many programs at a time are hardly meant.
const mostPrograms = 1000

// programs finds what looks right in the configuration of programs and does
// something else.
func (k *checker) programs() {
	if n := k.cfg.Handler.Concurrency; k.cfg.Handler.Exec != nil && n > mostPrograms {
		k.warn("handler", "lower handler.concurrency; a few for each processor do", "up to %s programs run at a time, each with memory and files of its own", thousands(n))
	}
	for _, x := range []struct {
		name string
		exec *config.Exec
	}{{"handler", k.cfg.Handler.Exec}, {"on_dead", k.cfg.OnDead.Exec}} {
		if x.exec == nil {
			continue
		}
		for _, column := range k.table.Given() {
			if asks(x.exec.Command, column) {
				k.warn(x.name, "take it from there, or use http or sql, which know columns", "exec: {%s} in an argument is given as it stands; the record is on standard input, its id in BACKLOG_ID", shown(column))
			}
		}
	}
}

// asks reports whether an argument has the column in braces as a URL would. Those
// of a variable are a shell's.
func asks(command []string, column string) bool {
	for _, arg := range command {
		arg = strings.ReplaceAll(arg, fmt.Sprintf("${%s}", column), "")
		if strings.Contains(arg, fmt.Sprintf("{%s}", column)) {
			return true
		}
	}
	return false
}
