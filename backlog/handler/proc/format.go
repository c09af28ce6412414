package proc

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"slices"
)

// machines are the processors by their number in an ELF header (e_machine): the name that
// errors show, and the GOARCH of each machine that can run programs for it.
var machines = map[uint16]struct {
	name   string
	goarch []string
}{
	3: {"x86 of 32 bits", []string{"386", "amd64"}}, 62: {"x86-64", []string{"amd64"}},
	40: {"ARM of 32 bits", []string{"arm", "arm64"}}, 183: {"ARM of 64 bits", []string{"arm64"}},
	8:  {"MIPS", []string{"mips", "mipsle", "mips64", "mips64le"}},
	20: {"PowerPC", []string{"ppc64", "ppc64le"}}, 21: {"PowerPC of 64 bits", []string{"ppc64", "ppc64le"}},
	22: {"s390x", []string{"s390x"}}, 243: {"RISC-V", []string{"riscv64"}}, 258: {"LoongArch", []string{"loong64"}},
}

// head returns the beginning of the program's file, nil if it cannot be found or read.
func (p Program) head() []byte {
	path, _ := p.find()
	return readHead(path)
}

// readHead returns the beginning of a file, nil if it cannot be read.
func readHead(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256) // as much as a kernel reads
	n, _ := io.ReadFull(f, head)
	return head[:n]
}

// whyNotExecutable says why the system does not run the program's file, and what to do.
func (p Program) whyNotExecutable() string {
	head := p.head()
	platform := foreignPlatform(head)
	switch {
	case platform != "":
		return "it is a program for " + platform + installHint
	case !bytes.HasPrefix(head, []byte(elfMagic)):
		return "a script must begin with a line such as #!/bin/sh"
	case len(head) < 20:
		return "it is the beginning of a program, cut short" + installHint
	}
	return "it is a program for this processor that is damaged, or for another system" + installHint
}

const (
	elfMagic    = "\x7fELF"
	installHint = "; install the program that is built for this machine, " + runtime.GOOS + " on " + runtime.GOARCH
)

// foreignPlatform returns the system or the processor for which the program that begins with
// head is built. It returns "" if this machine may run it, or if head is not a program's.
func foreignPlatform(head []byte) string {
	for magic, system := range map[string]string{
		"MZ": "Windows", "\xcf\xfa\xed\xfe": "macOS", "\xce\xfa\xed\xfe": "macOS", "\xca\xfe\xba\xbe": "macOS, or a class of Java",
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return system
		}
	}
	if !bytes.HasPrefix(head, []byte(elfMagic)) || len(head) < 20 {
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
	case slices.Contains(m.goarch, runtime.GOARCH):
		return ""
	}
	return "another processor, " + m.name
}
