package proc

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"slices"
)

// machines are the numbers of processors in the headers of ELF, with the names for people and
// Go's names of the machines that may run their programs.
var machines = map[uint16]struct {
	name string
	on   []string
}{
	3: {"x86 of 32 bits", []string{"386", "amd64"}}, 62: {"x86-64", []string{"amd64"}},
	40: {"ARM of 32 bits", []string{"arm", "arm64"}}, 183: {"ARM of 64 bits", []string{"arm64"}},
	8:  {"MIPS", []string{"mips", "mipsle", "mips64", "mips64le"}},
	20: {"PowerPC", []string{"ppc64", "ppc64le"}}, 21: {"PowerPC of 64 bits", []string{"ppc64", "ppc64le"}},
	22: {"s390x", []string{"s390x"}}, 243: {"RISC-V", []string{"riscv64"}}, 258: {"LoongArch", []string{"loong64"}},
}

// head is headOf the program's file, nil where there is none.
func (p Program) head() []byte {
	path, _ := p.find()
	return headOf(path)
}

// headOf returns the beginning of a file, nil where it cannot be read: it may be executable
// all the same.
func headOf(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256) // no kernel reads more
	n, _ := io.ReadFull(f, head)
	return head[:n]
}

// notExecutable says what a file is that the system does not run, and what to do.
func (p Program) notExecutable() string {
	head := p.head()
	what := foreign(head)
	switch {
	case what != "":
		return "it is a program for " + what + install
	case !bytes.HasPrefix(head, []byte(elf)):
		return "a script must begin with a line such as #!/bin/sh"
	case len(head) < 20:
		return "it is the beginning of a program, cut short" + install
	}
	return "it is a program for this processor that is damaged, or for another system" + install
}

const (
	elf     = "\x7fELF"
	install = "; install the program that is built for this machine, " + runtime.GOOS + " on " + runtime.GOARCH
)

// foreign returns the system or the processor that the program with the head is built for,
// "" where it may be this one's or where there is no program's head.
func foreign(head []byte) string {
	for magic, system := range map[string]string{
		"MZ": "Windows", "\xcf\xfa\xed\xfe": "macOS", "\xce\xfa\xed\xfe": "macOS", "\xca\xfe\xba\xbe": "macOS, or a class of Java",
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return system
		}
	}
	if !bytes.HasPrefix(head, []byte(elf)) || len(head) < 20 {
		return ""
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	}
	m, known := machines[order.Uint16(head[18:])]
	switch {
	case !known:
		return "another processor"
	case slices.Contains(m.on, runtime.GOARCH):
		return ""
	}
	return "another processor, " + m.name
}
