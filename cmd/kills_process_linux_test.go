package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// isCommandOf reports whether the process is there and has the text in its command line.
func isCommandOf(pid int, text string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(line), text)
}

// portsOf returns the local ports of the process's connections.
func portsOf(pid int) map[string]bool {
	ports := make(map[string]bool)
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	sockets := make(map[string]bool)
	for _, link := range links {
		target, _ := os.Readlink(link)
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if isSocket {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			const local, inode = 1, 9
			f := strings.Fields(line)
			if len(f) > inode && sockets[f[inode]] {
				_, hex, _ := strings.Cut(f[local], ":")
				var port int
				fmt.Sscanf(hex, "%x", &port)
				ports[fmt.Sprint(port)] = true
			}
		}
	}
	return ports
}
