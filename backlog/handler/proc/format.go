package proc

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"runtime"
)

// machines are the numbers of processors in the headers of ELF, with Go's names, "" where
// Go has none, and the names for people.
var machines = map[uint16]struct{ arch, name string }{
	3: {"386", "x86 of 32 bits"}, 8: {"", "MIPS"}, 20: {"", "PowerPC"}, 21: {"", "PowerPC of 64 bits"}, 22: {"s390x", "s390x"}, 40: {"arm", "ARM of 32 bits"},
	62: {"amd64", "x86-64"}, 183: {"arm64", "ARM of 64 bits"}, 243: {"riscv64", "RISC-V"}, 258: {"loong64", "LoongArch"},
}

// notExecutable says what a file is that the system does not run, and what to do.
func (p Program) notExecutable() string {
	const script = "a script must begin with a line such as #!/bin/sh"
	path, err := p.find()
	if err != nil {
		return script
	}
	f, err := os.Open(path)
	if err != nil { // it may be executable without being readable
		return script
	}
	defer f.Close()
	head := make([]byte, 20)
	n, _ := io.ReadFull(f, head)
	return format(head[:n], script)
}

// format says what begins with the head of a file. What is no program's beginning is a
// script.
func format(head []byte, script string) string {
	const install = "; install the program that is built for this machine, " + runtime.GOOS + " on " + runtime.GOARCH
	for magic, system := range map[string]string{
		"MZ": "Windows", "\xcf\xfa\xed\xfe": "macOS", "\xce\xfa\xed\xfe": "macOS", "\xca\xfe\xba\xbe": "macOS, or a class of Java",
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return "it is a program for " + system + install
		}
	}
	if !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return script
	}
	if len(head) < 20 {
		return "it is the beginning of a program, cut short" + install
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	}
	m, known := machines[order.Uint16(head[18:])]
	switch {
	case !known:
		return "it is a program for another processor" + install
	case m.arch == runtime.GOARCH:
		return "it is a program for this processor that is damaged, or for another system" + install
	}
	return "it is a program for another processor, " + m.name + install
}
