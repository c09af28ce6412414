package amqp

import (
	"strconv"
	"strings"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rubyValue parses a value as Ruby's inspect shows it: a hash in the form before Ruby 3.4
// ({:a=>1, "b"=>2}) or since ({a: 1, "b" => 2}), a list, a text, a number, true, false or nil.
// Other values, such as a time, are returned as texts. It returns nil if the text is malformed.
func rubyValue(text string) any {
	p := &rubyParser{rest: text}
	v := p.value()
	if p.malformed {
		return nil
	}
	return v
}

// A rubyParser parses a text by recursive descent.
type rubyParser struct {
	rest      string
	malformed bool
	depth     int
}

// maxDepth bounds the nesting of hashes and lists.
const maxDepth = 100

// accept consumes white space and, if it comes next, the token, and reports whether it did.
func (p *rubyParser) accept(token string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\n")
	rest, found := strings.CutPrefix(p.rest, token)
	if found {
		p.rest = rest
	}
	return found
}

// next consumes and returns n bytes, fewer at the end of the text.
func (p *rubyParser) next(n int) string {
	text := p.rest[:min(n, len(p.rest))]
	p.rest = p.rest[len(text):]
	return text
}

// value parses any value.
func (p *rubyParser) value() any {
	p.depth++
	defer func() { p.depth-- }()
	switch {
	case p.depth > maxDepth:
		p.malformed = true
		return nil
	case p.accept("{"):
		return p.hash()
	case p.accept("["):
		return p.list()
	case p.accept(`"`):
		return p.quoted()
	}
	p.accept(":") // of a symbol
	return p.unquoted()
}

// hash parses a hash after its opening brace.
func (p *rubyParser) hash() amqp.Table {
	t := make(amqp.Table)
	for !p.accept("}") && !p.malformed {
		name := p.name()
		t[name] = p.value()
		p.separator("}")
	}
	return t
}

// name parses the key of a hash and the colon or arrow after it.
func (p *rubyParser) name() (name string) {
	symbol := p.accept(":")
	if p.accept(`"`) {
		name = p.quoted()
	} else {
		after := strings.TrimLeft(p.rest, nameRunes)
		name = p.next(len(p.rest) - len(after))
	}
	if !p.accept("=>") && (symbol || !p.accept(":")) {
		p.malformed = true
	}
	return name
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_?!"

// list parses a list after its opening bracket.
func (p *rubyParser) list() (list []any) {
	list = []any{}
	for !p.accept("]") && !p.malformed {
		list = append(list, p.value())
		p.separator("]")
	}
	return list
}

// separator consumes a comma, which may be missing only before the closing bracket.
func (p *rubyParser) separator(end string) {
	if !p.accept(",") && !strings.HasPrefix(p.rest, end) {
		p.malformed = true
	}
}

// unquoted parses a value without quotes.
func (p *rubyParser) unquoted() any {
	end := strings.IndexAny(p.rest, ",}]")
	if end < 0 {
		end = len(p.rest)
		p.malformed = p.depth > 1
	}
	text := strings.TrimSpace(p.next(end))
	switch text {
	case "nil":
		return nil
	case "true", "false":
		return text == "true"
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}

// escapes are the letters that stand for another character after a backslash.
var escapes = strings.NewReplacer("n", "\n", "t", "\t", "r", "\r", "e", "\x1b", "a", "\a", "b", "\b", "f", "\f", "v", "\v", "0", "\x00")

// quoted parses a text up to its closing quote.
func (p *rubyParser) quoted() string {
	var b strings.Builder
	for {
		i := strings.IndexAny(p.rest, `"\`)
		if i < 0 || p.rest[i] == '\\' && i+1 == len(p.rest) {
			p.malformed = true
			return ""
		}
		b.WriteString(p.rest[:i])
		closed := p.rest[i] == '"'
		p.rest = p.rest[i+1:]
		if closed {
			return b.String()
		}
		p.escape(&b)
	}
}

// escape parses what follows a backslash.
func (p *rubyParser) escape(b *strings.Builder) {
	letter := p.next(1)
	var digits string
	switch {
	case letter == "u" && strings.HasPrefix(p.rest, "{"):
		digits, p.rest, _ = strings.Cut(p.rest[1:], "}")
	case letter == "u":
		digits = p.next(4)
	case letter == "x":
		digits = p.next(2)
	default:
		b.WriteString(escapes.Replace(letter))
		return
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	switch {
	case err != nil:
		p.malformed = true
	case letter == "x":
		b.WriteByte(byte(n))
	default:
		b.Write(utf8.AppendRune(nil, rune(n)))
	}
}
