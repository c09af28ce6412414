package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

const maxSize = 1 << 20 // of a file, in bytes

// top returns the root of the only document in text, which is not null.
func (d *decoder) top(text []byte) (n *yaml.Node, ok bool) {
	line, problem := 1, ""
	docs, err := documents(text)
	switch {
	case len(text) > maxSize:
		problem = fmt.Sprintf("larger than %d MiB; this is hardly a configuration", maxSize>>20)
	case err != nil:
		line, problem = syntaxError(text, err)
	case len(docs) > 1:
		line, problem = docs[1].Line, "a second document; keep one and remove the line of dashes"
	case len(docs) == 0 || len(docs[0].Content) == 0 || docs[0].Content[0].ShortTag() == "!!null":
		problem = "nothing in it; " + exampleFile + " shows what to write"
	default:
		line, problem = foreign(docs[0])
	}
	if problem != "" {
		d.errorf(line, "", "%s", problem)
		return nil, false
	}
	return docs[0].Content[0], true
}

// foreign returns the first line with something that YAML has and a configuration
// has not, and says what that is.
func foreign(n *yaml.Node) (line int, problem string) {
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
		if line, problem = foreign(child); problem != "" {
			break
		}
	}
	return line, problem
}

// documents parses text.
func documents(text []byte) (docs []*yaml.Node, err error) {
	// The parser panics where it believes itself to be at fault.
	defer func() {
		if r := recover(); r != nil {
			docs, err = nil, fmt.Errorf("%v", r)
		}
	}()
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		doc := new(yaml.Node)
		switch err := dec.Decode(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, doc)
	}
}
