package handler

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// fields yields the names and values, as they are written, of an object that is
// valid JSON. encoding/json would take "Error" for "error", and the last of two
// alike: a reply must not depend on who reads it.
func fields(object []byte) func(yield func(name string, value []byte) bool) {
	return func(yield func(string, []byte) bool) {
		rest := trimJSON(object)[1:] // behind the brace
		for {
			rest = trimJSON(rest)
			if rest[0] == '}' {
				return
			}
			if rest[0] == ',' {
				rest = trimJSON(rest[1:])
			}
			n := valueLength(rest)
			name := textOf(rest[:n])
			rest = trimJSON(trimJSON(rest[n:])[1:]) // behind the colon
			n = valueLength(rest)
			if !yield(name, rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

func trimJSON(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// valueLength returns the length of the value that valid JSON begins with.
func valueLength(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth == 0 {
				return i + bytes.IndexAny(b[i:], " \t\r\n,}")
			}
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// textOf returns what a string in JSON means.
func textOf(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return "" // does not happen: it is valid
	}
	return text
}

// kindOf returns the type of a value in JSON.
func kindOf(value []byte) string {
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}
