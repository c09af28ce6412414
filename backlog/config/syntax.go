package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"backlog/backlog/pattern"
)

// syntaxLine returns the line of a syntax error. The parser names the start of the outermost
// list or mapping around the error, often line 1. This instead looks for the longest
// beginning of the text that is valid YAML: the error shows on the line after it.
func syntaxLine(text []byte, err error) int {
	for work := 0; work < 8<<20; work += len(text) {
		text = text[:1+bytes.LastIndexByte(text[:max(0, len(text)-1)], '\n')]
		if _, err := documents(text); err == nil {
			return 1 + bytes.Count(text, []byte("\n"))
		}
	}
	// The file goes on for too long after the error: the search would take too much time.
	line := 1
	fmt.Sscanf(err.Error(), "yaml: line %d:", &line)
	return line
}

// missingSpace matches a line with a key but no space between it and its value. YAML reads
// that as a text, so that the error appears later.
var missingSpace = pattern.Lazily(`^\s*(- +)?\w+:[^\s/]`)

// syntaxError rewords an error of the parser and finds its line. The parser's own words are not
// shown, because they can contain a piece of the file, which may be secret.
func syntaxError(text []byte, err error) (line int, problem string) {
	line = syntaxLine(text, err)
	lines := append([]string{""}, strings.Split(string(text), "\n")...) // counted from 1
	line = min(line, len(lines)-1)
	says := func(words string) bool { return strings.Contains(err.Error(), words) }
	if says("mapping values are not allowed") || says("could not find expected ':'") {
		for _, suspect := range []int{line, line - 1} {
			if missingSpace().MatchString(lines[suspect]) {
				return suspect, "a colon without a space after it; write key: value"
			}
		}
	}
	if strings.HasPrefix(strings.TrimLeft(lines[line], " "), "\t") {
		return line, "a tab in front of the line; indent with spaces"
	}
	for _, known := range syntaxErrors {
		if says(known.words) {
			return line, known.meaning
		}
	}
	return line, "this is not YAML; compare the line with " + exampleFile
}

const notText = "not text in UTF-8; save the file as plain UTF-8 text"

const noAlias = "an alias (*name); write the value out, or quotes around a text that begins with *"

// syntaxErrors are the meanings of the parser's errors.
var syntaxErrors = []struct{ words, meaning string }{
	{"mapping values are not allowed", "one colon too many; look for a missing colon or a wrong indent here and on the line before, and put a value that holds a colon in quotes"},
	{"could not find expected ':'", "neither a key nor a list item; write key: value"},
	{"did not find expected key", "the line does not go with those before it; indent it like those it belongs to, and close every quote and bracket just once"},
	{"did not find expected '-' indicator", "the line does not go with the list before it; indent it like the items it belongs to"},
	{"block sequence entries are not allowed", "a list item where none can be; begin the list on a line of its own"},
	{"did not find expected ',' or ']'", "a list in [ ] that is not closed or lacks a comma; complete it"},
	{"did not find expected ',' or '}'", "a mapping in { } that is not closed or lacks a comma; complete it"},
	{"did not find expected node content", "a value is missing; complete the list or mapping"},
	{"found unexpected end of stream", "a quote that is not closed; close it"},
	{"found unknown escape character", `an unknown escape after \; use single quotes, in which \ is an ordinary character`},
	{"cannot start any token", "a value cannot begin with @, ` or %; put it in quotes"},
	{"UTF-8", notText},
	{"invalid Unicode character", notText},
	{"control characters are not allowed", notText},
	{"unknown anchor", noAlias},
	{"exceeded max depth", "nested too deeply; this is hardly a configuration"},
}

const maxSize = 1 << 20 // of a file, in bytes

// top returns the root of the only document in text, which is not null.
func (d *decoder) top(text []byte) (n *yaml.Node, ok bool) {
	line := 1
	var problem string
	docs, err := documents(text)
	switch {
	case len(text) > maxSize:
		problem = fmt.Sprintf("larger than %d MiB; this is hardly a configuration", maxSize>>20)
	case err != nil:
		line, problem = syntaxError(text, err)
	case len(docs) > 1:
		line = docs[1].Line
		problem = "a second document; keep one and remove the line of dashes"
	case len(docs) == 0 || len(docs[0].Content) == 0 || docs[0].Content[0].ShortTag() == "!!null":
		problem = "nothing in it; " + exampleFile + " shows what to write"
	default:
		line, problem = unsupported(docs[0])
	}
	if problem != "" {
		d.errorf(line, "", "%s", problem)
		return nil, false
	}
	return docs[0].Content[0], true
}

// unsupported returns the first line with something that YAML allows and a configuration
// does not, and says what that is. problem is empty if there is nothing of that kind.
func unsupported(n *yaml.Node) (line int, problem string) {
	switch {
	case n.Kind == yaml.AliasNode:
		return n.Line, noAlias
	case n.Style&yaml.TaggedStyle != 0:
		return n.Line, "a YAML tag (!name); remove it, or put quotes around the text"
	case n.ShortTag() == "!!merge":
		return n.Line, "a merge key (<<); write the keys out"
	case strings.ContainsRune(n.Value, 0):
		return n.Line, "a zero byte; remove it"
	}
	for _, child := range n.Content {
		line, problem = unsupported(child)
		if problem != "" {
			return line, problem
		}
	}
	return 0, ""
}

// documents parses text.
func documents(text []byte) (docs []*yaml.Node, err error) {
	// The parser panics at what it takes for a bug of its own.
	defer func() {
		if r := recover(); r != nil {
			docs, err = nil, fmt.Errorf("%v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		doc := new(yaml.Node)
		err := dec.Decode(doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
}
