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

// top returns the root of the only document in text, which is not null and small
// enough to walk through.
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
		line, problem = aliasError(text, docs[0])
	}
	if problem != "" {
		d.errorf(line, "", "%s", problem)
		return nil, false
	}
	return docs[0].Content[0], true
}

// aliasError says what is wrong with the aliases of a document, "" if nothing is. A
// few lines of nested aliases can stand for more values than memory holds, which
// the parser notices when it writes them out.
func aliasError(text []byte, doc *yaml.Node) (line int, problem string) {
	err := doc.Decode(new(any))
	switch {
	case err != nil && strings.HasSuffix(err.Error(), "value contains itself"):
		alias := "*" + strings.Split(err.Error(), "'")[1]
		line = 1 + bytes.Count(text[:max(0, bytes.Index(text, []byte(alias)))], []byte("\n"))
		return line, "the alias stands inside the value it repeats; write the value out"
	case err != nil && strings.Contains(err.Error(), "excessive aliasing"):
		return 1, "more than 100000 values, aliases counted at each use; this is hardly a configuration"
	}
	return 0, ""
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
