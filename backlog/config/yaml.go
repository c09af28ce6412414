package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	maxSize   = 1 << 20 // of a file, in bytes
	maxValues = 100_000 // in a file, with those behind an alias counted at each use
)

// parse returns the root of the only document in text, which must be that of a
// configuration.
func (d *decoder) parse(text []byte) (root value, ok bool) {
	top, ok := d.top(text)
	if !ok {
		return value{}, false
	}
	root = d.value(top, "", top.Line)
	if !root.isMapping() && !root.isList() {
		root.fail("must be a mapping (key: value) or a list of tiers, not %s", root.kind())
		return value{}, false
	}
	return root, true
}

// top returns the root of the only document in text, which is not null and small
// enough to walk through.
func (d *decoder) top(text []byte) (n *yaml.Node, ok bool) {
	if len(text) > maxSize {
		d.failf("", "larger than %d MiB; this is hardly a configuration", maxSize>>20)
		return nil, false
	}
	if line := unprintable(text); line > 0 {
		d.errorf(line, "", "not text in UTF-8; save the file as plain UTF-8 text")
		return nil, false
	}
	docs, err := documents(text)
	switch {
	case err != nil:
		line, problem := syntaxError(text, err)
		d.errorf(line, "", "%s", problem)
		return nil, false
	case len(docs) > 1:
		d.errorf(docs[1].Line, "", "a second document; keep one and remove the line of dashes")
		return nil, false
	case len(docs) == 0 || len(docs[0].Content) == 0 || docs[0].Content[0].ShortTag() == "!!null":
		d.failf("", "nothing in it; %s shows what to write", exampleFile)
		return nil, false
	}
	top := docs[0].Content[0]
	c := counter{sizes: make(map[*yaml.Node]int)}
	switch size := c.count(top); {
	case c.cycle != nil:
		d.errorf(c.cycle.Line, "", "the alias stands inside the value it repeats; write the value out")
		return nil, false
	case size > maxValues:
		d.failf("", "more than %d values, aliases counted at each use; this is hardly a configuration", maxValues)
		return nil, false
	}
	return top, true
}

// unprintable returns the first line with something that YAML text cannot
// hold, or 0.
func unprintable(text []byte) int {
	line := 1
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n':
			line++
		case r == '\t', r == '\r', r == '\u0085':
		case r == utf8.RuneError && size == 1,
			r < ' ', '\u007f' <= r && r < '\u00a0', r == '\ufeff', r == '\ufffe', r == '\uffff':
			return line
		}
		text = text[size:]
	}
	return 0
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

// A counter counts values with aliases written out, without writing them out:
// a few lines of nested aliases can stand for more values than memory holds.
type counter struct {
	sizes map[*yaml.Node]int // of what is counted to the end
	cycle *yaml.Node         // an alias inside the value it repeats, if there is one
}

// count returns the number of values in n, at most maxValues + 1.
func (c *counter) count(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		// An anchor precedes its aliases, so it is counted or around here.
		size, ok := c.sizes[n.Alias]
		if !ok {
			c.cycle = n
		}
		return size
	}
	size := 1
	for _, child := range n.Content {
		size = min(size+c.count(child), maxValues+1)
	}
	c.sizes[n] = size
	return size
}
