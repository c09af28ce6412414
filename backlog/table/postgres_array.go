package table

import (
	"encoding/json"
	"strings"
)

// arrayJSON returns an array, of which PostgreSQL has written the text, as JSON;
// false if it is none. Elements are numbers, truths and JSON where their type,
// named as the catalogue does, says so, and else strings.
func arrayJSON(text, element string) (json.RawMessage, bool) {
	if strings.HasPrefix(text, "[") { // the first numbers, where they are not 1
		_, text, _ = strings.Cut(text, "=")
	}
	p := arrayParser{text: text, element: element}
	if !p.array() || p.at != len(text) {
		return nil, false
	}
	return json.RawMessage(p.out.String()), true
}

type arrayParser struct {
	text, element string
	at            int
	out           strings.Builder
}

// take reports whether the next byte is c, and goes beyond it then.
func (p *arrayParser) take(c byte) bool {
	if p.at == len(p.text) || p.text[p.at] != c {
		return false
	}
	p.at++
	return true
}

// array takes a list in braces, whose elements may be such lists.
func (p *arrayParser) array() bool {
	if !p.take('{') {
		return false
	}
	p.out.WriteByte('[')
	for n := 0; !p.take('}'); n++ {
		if n > 0 {
			if !p.take(',') {
				return false
			}
			p.out.WriteByte(',')
		}
		ok := false
		if p.at < len(p.text) && p.text[p.at] == '{' {
			ok = p.array()
		} else {
			ok = p.value()
		}
		if !ok {
			return false
		}
	}
	p.out.WriteByte(']')
	return true
}

// value takes one element.
func (p *arrayParser) value() bool {
	if !p.take('"') {
		n := strings.IndexAny(p.text[p.at:], `,{}"`)
		if n <= 0 {
			return false
		}
		s := p.text[p.at : p.at+n]
		p.at += n
		if strings.EqualFold(s, "null") {
			p.out.WriteString("null")
		} else {
			p.write(s)
		}
		return true
	}
	var b strings.Builder
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case '"':
			p.at++
			p.write(b.String())
			return true
		case '\\':
			if p.at++; p.at == len(p.text) {
				return false
			}
			b.WriteByte(p.text[p.at])
		default:
			b.WriteByte(c)
		}
	}
	return false
}

func (p *arrayParser) write(s string) {
	switch p.element {
	case "bool":
		if s == "t" || s == "f" {
			s = map[string]string{"t": "true", "f": "false"}[s]
			p.out.WriteString(s)
			return
		}
	case "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "json", "jsonb":
		if json.Valid([]byte(s)) { // NaN is not
			p.out.WriteString(s)
			return
		}
	}
	text, _ := json.Marshal(s)
	p.out.Write(text)
}

// arrayText is the way back from arrayJSON; false if the JSON is no array.
func arrayText(raw json.RawMessage, element string) (string, bool) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return "", false
	}
	parts := make([]string, len(list))
	for i, x := range list {
		s := string(x)
		switch inner, ok := arrayText(x, element); {
		case s == "null":
			parts[i] = "NULL"
		case ok && element != "json" && element != "jsonb":
			parts[i] = inner
		default:
			if s[0] == '"' && element != "json" && element != "jsonb" {
				json.Unmarshal(x, &s)
			}
			parts[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
		}
	}
	return "{" + strings.Join(parts, ",") + "}", true
}
