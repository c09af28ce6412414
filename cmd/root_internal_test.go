package cmd

import (
	"bytes"
	"io"
	"log"
	"strings"
	"testing"
)

// Nothing that a library writes to the standard logger reaches anybody.
func TestLibrariesAreSilent(t *testing.T) {
	was := log.Writer()
	defer log.SetOutput(was)
	var out, err bytes.Buffer
	Main([]string{"version"}, strings.NewReader(""), &out, &err)
	if log.Writer() != io.Discard {
		t.Error("the standard logger writes")
	}
}
