package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestLegalTexts(t *testing.T) {
	for name, tt := range map[string]struct {
		files, want []string
		rootAlone   bool
		missing     bool
	}{
		"one":              {files: []string{"LICENSE", "x.go"}, want: []string{"LICENSE"}},
		"other names":      {files: []string{"License.txt", "COPYING.md", "LICENCE", "UNLICENSE"}, want: []string{"COPYING.md", "LICENCE", "License.txt", "UNLICENSE"}},
		"several":          {files: []string{"LICENSE", "LICENSE-GO", "NOTICE", "PATENTS", "AUTHORS"}, want: []string{"AUTHORS", "LICENSE", "LICENSE-GO", "NOTICE", "PATENTS"}},
		"below":            {files: []string{"LICENSE", "smtp/LICENSE", "licenses/gpl.txt"}, want: []string{"LICENSE", "licenses/gpl.txt", "smtp/LICENSE"}},
		"fonts":            {files: []string{"LICENSE", "fonts/OFL.txt", "offline.md"}, want: []string{"LICENSE", "fonts/OFL.txt"}},
		"code and samples": {files: []string{"LICENSE", "license.go", "testdata/LICENSE", "logo.svg.license"}, want: []string{"LICENSE"}},
		"the root alone":   {files: []string{"LICENSE", "misc/LICENSE"}, rootAlone: true, want: []string{"LICENSE"}},
		"none":             {files: []string{"README.md"}, missing: true},
		"a note alone":     {files: []string{"NOTICE", "AUTHORS"}, missing: true},
	} {
		files := make(fstest.MapFS)
		for _, file := range tt.files {
			files[file] = new(fstest.MapFile)
		}
		got, err := legalTexts(files, tt.rootAlone)
		if (err != nil) != tt.missing || err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A module without a licence, or without files, is named.
func TestModuleWithoutLicence(t *testing.T) {
	empty := t.TempDir()
	if err := os.WriteFile(empty+"/NOTICE", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		empty: "example.org/free v1.2.3: has no file LICENSE, ",
		"":    "example.org/free v1.2.3 is not in the module cache; ",
	} {
		m := module{Path: "example.org/free", Version: "v1.2.3", Dir: dir}
		if err := m.write(new(bytes.Buffer)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}
